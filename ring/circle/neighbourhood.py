"""Who stands where around one broker (paper 004, section 3.2).

Four pointers, left-left, left, right and right-right, are *computed* from the members we are
linked to; nothing else can stand in them. So no pointer is ever adopted unchecked: a member learned
from somebody's view is a *candidate* until its link is up, and only then can it replace another
(P. Zave's rule for Chord, "How to make Chord correct", 2015). A suspected member keeps its place
until it is confirmed dead.

Departs from the paper, whose listings assign the pointers by hand at each event: some are forgotten
there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from overlay.ids import Nanos, Peer
from ring.circle.links import RingLinks
from ring.core import Core
from ring.facts import NeighboursChanged
from ring.geometry import RING_SIZE, between
from ring.wire.messages import Member, View

V = TypeVar("V")

ROW = 4  #: brokers seen to each side: two neighbours, and theirs in their views
SETTLED = 4  #: silences after which everybody around has heard of a death


class Burial(NamedTuple):
    """A broker's life, and all before, was declared dead."""

    incarnation: int
    at: Nanos
    witnessed: bool  #: by others than the one that declared it


class Neighbourhood:
    """The four pointers, the candidates for them, and whom we know to be dead."""

    def __init__(self, core: Core, links: RingLinks) -> None:
        self._core = core
        self._links = links
        self.left: tuple[Member, ...] = ()  #: left, left-left
        self.right: tuple[Member, ...] = ()  #: right, right-right
        self.version = 1
        self.suspects: dict[str, Member] = {}  #: lost from sight, not yet judged
        self.candidates: dict[str, Member] = {}
        self.remembered: OrderedDict[str, Peer] = OrderedDict()  #: lost peers, latest last
        self._tombstones: OrderedDict[str, Burial] = OrderedDict()
        self.losses = 0  #: brokers buried so far
        self._shunned: dict[str, Nanos] = {}  #: candidates that could not be linked, until when
        self._row: list[Member] = []  #: linked members and suspects, by distance going right
        self._row_of: tuple[int, int, int] | None = None  #: ring id and changes it was computed for
        self._suspect_changes = 0

    @property
    def changes(self) -> tuple[int, int]:
        """Two counts that stay as they are while no link and no suspicion changes."""
        return self._links.generation, self._suspect_changes

    # ── questions ─────────────────────────────────────────────────────────────────────────────

    @property
    def adjacent(self) -> dict[str, Member]:
        """The up to four brokers in the pointers, by uid, nearest first."""
        pairs = (*self.right[:1], *self.left[:1], *self.right[1:], *self.left[1:])
        return {member.uid: member for member in pairs}

    def is_attested(self, uid: str) -> bool:
        """Say whether others' views agree that ``uid`` stands where we see it in a pointer.

        Its word about its own place shows nothing: a stranger may have linked to us to say so. The
        view of another has to show it, or to have shown it, as that other may be the one that is
        dead; and no ring neighbour's view that reaches over its place may lack it.
        """
        member, links = self.adjacent.get(uid), self._links.up
        if member is None:
            return False
        others = (link for other, link in links.items() if other != uid and link.on_ring)
        views = [link.view for link in others if link.view is not None]
        was_shown = uid in links and links[uid].shown == member
        is_shown = was_shown or any(_shows(view, member) for view in views)
        return is_shown and not any(_lacks(view, member) for view in views)

    def known_as(self, member: Member) -> Member:
        """Return that life of ``member`` as we know of it, where one who names it says otherwise.

        A false address would be called in vain.
        """
        known = self.known().get(member.uid)
        is_same_life = known is not None and known.incarnation == member.incarnation
        return known if known is not None and is_same_life else member

    def is_dead(self, uid: str, incarnation: int, *, at_any_time: bool = False) -> bool:
        """Say whether that life of ``uid`` was declared dead lately, or at any time.

        Lately: for as long as others may still name it who have not heard of it. A broker that
        names it after that is of another opinion, and what cannot be known is tried: the network
        was cut, say.
        """
        burial = self._tombstones.get(uid)
        if burial is None or incarnation > burial.incarnation:
            return False
        return at_any_time or self._core.now - burial.at < SETTLED * self._core.config.silence_ns

    def is_witnessed(self, uid: str) -> bool:
        """Say whether others bear witness to the verdict that there is on ``uid``."""
        burial = self._tombstones.get(uid)
        return burial is not None and burial.witnessed

    def known(self) -> dict[str, Member]:
        """Everybody nearby: linked members, suspects, candidates, and what neighbours see."""
        found = {uid: link.member for uid, link in self._links.up.items() if link.member}
        found.update(self.suspects)
        for uid, member in self.candidates.items():
            found.setdefault(uid, member)
        for member in self._seen_by_neighbours():
            found.setdefault(member.uid, member)
        return found

    def around(self) -> list[Member]:
        """Return the members known in an unbroken row around this broker, itself included.

        In ring order, going right; up to ``ROW`` on each side, as the neighbours' views show them.
        """
        core = self._core
        found = self.adjacent
        for member in self._seen_by_neighbours():
            found.setdefault(member.uid, member)
        rights = self._by_distance(found.values())
        half = min(ROW, len(rights))
        row = rights[:half]
        lefts = [member for member in rights[-half:] if member not in row] if half else []
        return [*lefts, core.member, *row]

    def nearest_wanted(self) -> dict[str, Member]:
        """Return who stands in the pointers, and who would if all candidates proved alive.

        Both, as a link to a live neighbour is not to be given up for one that may be dead.
        """
        ordered = self._ordered()
        wanted = (*ordered[:2], *ordered[-2:])
        if self.candidates:
            known = {member.uid for member in ordered}
            more = [member for uid, member in self.candidates.items() if uid not in known]
            ordered = self._by_distance([*ordered, *more])
            wanted = (*wanted, *ordered[:2], *ordered[-2:])
        return {member.uid: member for member in wanted}

    # ── changes ───────────────────────────────────────────────────────────────────────────────

    def learn(self, members: Iterable[Member], *, attested: bool = False) -> None:
        """Take members from somebody's view as candidates, if they would stand in a pointer.

        ``attested``: whatever verdict there is, they live.
        """
        core, links = self._core, self._links
        for member in members:
            uid = member.uid
            link = links.up.get(uid)
            if uid == core.peer.uid:
                continue
            if not attested and self.is_dead(uid, member.incarnation):
                continue
            if uid in self.suspects or (link is not None and link.member is not None):
                continue
            if links.is_over(member):
                continue
            if self._shunned.get(uid, 0) <= core.now:
                self.candidates[uid] = member
        if self.candidates:
            wanted = self.nearest_wanted()
            self.candidates = {uid: m for uid, m in self.candidates.items() if uid in wanted}

    def learn_again(self) -> None:
        """Look through the views we hold: whom we could not link before we may by now."""
        up, ordered, here = self._links.up, self._ordered(), self._core.member.ring_id
        reach = _distances(here, (*ordered[1:2], *ordered[-2:-1]))
        strangers = []
        for uid in self.adjacent:
            near = up.get(uid)
            if near is None or near.view is None:
                continue
            for member in (*near.view.left, *near.view.right):
                link = up.get(member.peer.uid)
                if link is not None and link.member is not None:
                    continue
                # Beyond right-right and left-left nobody would stand in a pointer.
                if not reach or not reach[0] < (member.ring_id - here) % RING_SIZE < reach[-1]:
                    strangers.append(member)
        self.learn(strangers)

    def shun(self, uid: str) -> None:
        """Forget a candidate that could not be linked, for a while: views may still name it."""
        if self.candidates.pop(uid, None) is not None:
            now = self._core.now
            self._shunned = {uid: until for uid, until in self._shunned.items() if until > now}
            self._shunned[uid] = now + 2 * self._core.config.silence_ns

    def suspect(self, member: Member) -> None:
        """Let a member keep its place although it is lost from sight."""
        self.suspects[member.uid] = member
        self._suspect_changes += 1

    def clear_suspicion(self, uid: str) -> None:
        """End the suspicion of ``uid``: it is in sight again, or judged."""
        if self.suspects.pop(uid, None) is not None:
            self._suspect_changes += 1

    def bury(self, member: Member, *, witnessed: bool) -> None:
        """Take a dead or departed member out of everything.

        ``witnessed``: others bear witness, or it said so itself; then nobody who does not takes
        that back.
        """
        uid = member.uid
        if self.is_dead(uid, member.incarnation, at_any_time=True):
            witnessed = witnessed or self.is_witnessed(uid)
        self.clear_suspicion(uid)
        self.candidates.pop(uid, None)
        burial = Burial(member.incarnation, self._core.now, witnessed)
        _put(self._tombstones, uid, burial, self._core.config.remembered)
        self.remember(member.peer)
        self.losses += 1

    def limit_verdict(self, peer: Peer) -> None:
        """Hold ``peer`` for dead in the life that it shows, and in none after.

        Nobody has died in a life that it had not begun; who said so may have named the last one
        there is, and it could never come back.
        """
        burial = self._tombstones[peer.uid]
        life = min(burial.incarnation, peer.incarnation)
        self._tombstones[peer.uid] = burial._replace(incarnation=life)

    def remember(self, peer: Peer) -> None:
        """Note the address of a lost peer.

        When the table is full, any entry may have to go, not the oldest: else churn among our own
        would drive out all that a cut took from us.
        """
        self.remembered.pop(peer.uid, None)
        if len(self.remembered) >= self._core.config.remembered:
            names = list(self.remembered)
            del self.remembered[names[self._core.rng.randrange(len(names))]]
        self.remembered[peer.uid] = peer

    def forget_verdicts(self) -> None:
        """Drop all verdicts, as when everybody seems dead and more likely we were cut off."""
        self._tombstones.clear()
        self._shunned.clear()

    def forget_lone_verdicts(self) -> None:
        """Drop the verdicts that nobody bears witness to: it was we who were cut off."""
        lone = [uid for uid, burial in self._tombstones.items() if not burial.witnessed]
        for uid in lone:
            del self._tombstones[uid]
        self._shunned.clear()

    def clear(self) -> None:
        """Start anew, as a newcomer; only the remembered peers stay."""
        for link in self._links.up.values():
            self.remember(link.peer)
        self.left = self.right = ()
        self.suspects.clear()
        self._suspect_changes += 1
        self.candidates.clear()
        self.forget_verdicts()

    def refresh(self) -> bool:
        """Compute the pointers anew; say whether one changed."""
        if not self._core.joined:
            return False
        ordered = self._ordered()
        right = tuple(ordered[:2])
        left = tuple(reversed(ordered[-2:]))
        if (left, right) == (self.left, self.right):
            return False
        if _places(left, right) != _places(self.left, self.right):
            self.version += 1  # not for another life in the same place: that is its own news
        self.left, self.right = left, right
        self._core.notify(NeighboursChanged(left, right))
        return True

    def view(self) -> View:
        """This broker's view, as neighbours are told."""
        return View(self.version, self._core.member, self.left, self.right)

    def agrees(self) -> bool:
        """Say whether the views of left and right fit ours: the ring is whole as far as seen."""
        if self.suspects or any(uid not in self._links.up for uid in self.nearest_wanted()):
            return False
        return self._fits(self.right, rightward=True) and self._fits(self.left, rightward=False)

    def normalise(self) -> None:
        """Set what makes no difference to what follows to one value, for exploration of states.

        The version of a view is compared by three: the broker itself, to know whom it has not shown
        its latest view; the one that is shown a view, to know it from an older one; and with each
        heartbeat. No heartbeat is sent while the clock stands still, as it does in an exploration.
        Views on one link come in the order in which they were sent, and what is under way on a link
        is lost when another replaces it, so none is older than the one held, but for those that
        come along detours. So the views of others are all of version 0, our own is of version 1 and
        whatever is behind it at 0; when time passes, each view is asked for with the first
        heartbeat, as if it were old.
        """
        self.version = 1

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _fits(self, near: tuple[Member, ...], *, rightward: bool) -> bool:
        if not near:
            return True
        link = self._links.up.get(near[0].uid)
        if link is None or link.view is None:
            return False
        ahead, back = (
            (link.view.right, link.view.left) if rightward else (link.view.left, link.view.right)
        )
        if not back or back[0].uid != self._core.peer.uid:
            return False
        return len(near) < 2 or (bool(ahead) and ahead[0].uid == near[1].uid)

    def _ordered(self) -> list[Member]:
        """Return linked members and suspects by distance going right."""
        row_of = (self._core.member.ring_id, self._links.members, self._suspect_changes)
        if self._row_of != row_of:
            found = {uid: link.member for uid, link in self._links.up.items() if link.member}
            for uid, member in self.suspects.items():
                found.setdefault(uid, member)
            self._row = self._by_distance(found.values())
            self._row_of = row_of
        return self._row

    def _by_distance(self, members: Iterable[Member]) -> list[Member]:
        here = self._core.member.ring_id
        return sorted(members, key=lambda m: ((m.ring_id - here) % RING_SIZE, m.peer.uid))

    def _seen_by_neighbours(self) -> Iterator[Member]:
        for uid in self.adjacent:
            link = self._links.up.get(uid)
            if link is not None and link.view is not None:
                for member in (*link.view.left, *link.view.right):
                    if member.uid != self._core.peer.uid and not self.is_dead(
                        member.uid, member.incarnation
                    ):
                        yield member


def _shows(view: View, member: Member) -> bool:
    return any(member.uid == other.uid for other in (*view.left, *view.right))


def _lacks(view: View, member: Member) -> bool:
    """Say whether ``member`` would stand between those that the view shows, and does not."""
    if _shows(view, member):
        return False
    here, there = view.member.ring_id, member.ring_id
    return (
        here == there
        or any(between(here, there, other.ring_id) for other in view.right)
        or any(between(other.ring_id, there, here) for other in view.left)
    )


def _distances(here: int, members: Iterable[Member]) -> list[int]:
    return [(member.ring_id - here) % RING_SIZE for member in members]


def _places(*sides: tuple[Member, ...]) -> list[list[tuple[str, int]]]:
    return [[(member.uid, member.ring_id) for member in side] for side in sides]


def _put(table: OrderedDict[str, V], key: str, value: V, limit: int) -> None:
    """Keep ``value`` as the latest entry, dropping the oldest beyond ``limit``."""
    table.pop(key, None)
    table[key] = value
    if len(table) > limit:
        table.popitem(last=False)
