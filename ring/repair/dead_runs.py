"""Closing the gap that a run of neighbours leaves which died at once (paper 004, section 3.4.1).

A broker sees four to each side: its two neighbours, and theirs in their views. That *row* is kept
while the ring beside it is broken, so runs of up to three dead are closed from it, and nobody is
searched for. When all in the row are gone, the first live broker beyond is searched for by a route
that comes from the far side: the target is the next id, and the distance is measured by the way
round that does not lead over the gap. Both edges of the gap do so, each to its side. The search is
repeated while the ring does not fit together there, as what was found may be dead by then.

A link that leads into the gap cannot be trusted: a broker without power leaves its links standing,
and a chord to it may have come to stand in a pointer. Those that did not answer the search are
closed once the broker found is linked. Nobody is called dead for that: who lives links again. Those
under suspicion already are tested by the broker found.

Departs from the paper, which treats one death at a time: A and C, who repair, may be dead as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from overlay.ids import Nanos, Peer
from overlay.machine import Closed
from ring.circle.links import RingLinks
from ring.circle.neighbourhood import ROW, Neighbourhood
from ring.circle.searches import Finding, Routing
from ring.core import Core, Timer
from ring.geometry import RING_SIZE, between, clockwise
from ring.wire.messages import Member, Ping, TestNeighbour, Towards, View

MAX_PATIENCE = 4  #: the pause between searches doubles that often


@dataclass(slots=True)
class Side:
    """What this broker knows of its left or right."""

    towards: Towards  #: how a search from the far side measures distance
    row: tuple[Member, ...] = ()  #: nearest first, when the ring was last seen whole here
    seen: tuple[Member, View] | None = None  #: what the row was made of
    doubted: tuple[Member, View] | None = None  #: second neighbour, and the view that lacks it
    broken_at: Nanos | None = None  #: since when the ring has not fitted together here
    searches: int = 0  #: for the gap that is open now
    found: Member | None = None  #: by the last search, until it is linked


def _ahead(side: Side, seen: Neighbourhood | View) -> tuple[Member, ...]:
    """Return the two neighbours on that side, ours or those a view shows, nearest first."""
    return seen.right if side.towards is Towards.RIGHT else seen.left


def _arc(side: Side, near: int, far: int) -> Callable[[int], bool]:
    """Return the test whether a ring id lies strictly between ``near`` and ``far`` on that side."""
    a, b = (near, far) if side.towards is Towards.RIGHT else (far, near)
    return lambda ring_id: between(a, ring_id, b)


class DeadRuns:
    """Watches both sides, and searches where all that was known is gone."""

    def __init__(
        self, core: Core, links: RingLinks, neighbourhood: Neighbourhood, routing: Routing
    ) -> None:
        self._core = core
        self._links = links
        self._neighbourhood = neighbourhood
        self._routing = routing
        self._sides = {side.value: Side(side) for side in (Towards.RIGHT, Towards.LEFT)}
        self._refused: dict[str, None] = {}  #: uids in the rows that could not be linked
        self._doubts: dict[str, None] = {}  #: uids asked for a sign of life, not heard yet
        self._silent: dict[str, None] = {}  #: uids in the rows not heard since a side broke

    @property
    def wanted(self) -> dict[str, Peer]:
        """Peers that searches have found, to be linked."""
        return {side.found.uid: side.found.peer for side in self._sides.values() if side.found}

    def follow(self) -> None:
        """Bring both sides up to date with the links and views as they are."""
        for name, side in self._sides.items():
            near = self._near(side)
            view = self._view_that_fits(side, near)
            if near is not None and view is not None:
                if side.seen != (near, view) or side.broken_at is not None:
                    self._see(side, near, view)
                    self._core.disarm(Timer.GAP, name)
                self._compare(side, near, view)
            elif side.row:
                self._mend(name, side)
            self._settle(side)

    def on_refused(self, uid: str) -> None:
        """A broker could not be linked: it is nothing to wait for, nor is it found."""
        for side in self._sides.values():
            if side.found is not None and side.found.uid == uid:
                side.found = None
            if any(member.uid == uid for member in side.row):
                self._refused[uid] = None

    def on_alive(self, uid: str) -> None:
        """A sign of life over a link."""
        if self._silent:
            self._silent.pop(uid, None)
        if uid in self._doubts:
            del self._doubts[uid]
            self._core.disarm(Timer.DOUBT, uid)

    def concerns(self, uid: str) -> bool:
        """Say whether a sign of life of ``uid`` would change anything here."""
        return uid in self._silent or uid in self._doubts

    @property
    def is_at_rest(self) -> bool:
        """No sign of life of anybody would change anything here."""
        return not self._silent and not self._doubts

    def on_due(self, name: str) -> None:
        """The row had its time: search, and again later."""
        side = self._sides[name]
        if not self._is_lost(side):
            return
        core, patience = self._core, min(side.searches, MAX_PATIENCE)
        core.arm(Timer.GAP, name, core.jitter(core.config.route_ns << patience))
        side.searches += 1
        here = core.member.ring_id
        target = (here + (1 if side.towards is Towards.RIGHT else -1)) % RING_SIZE

        def found(finding: Finding) -> None:
            self._on_found(side, finding)

        about = side.row[0].uid
        self._routing.find(target, found, towards=side.towards, about=about)

    def on_doubt_due(self, uid: str) -> None:
        """One beyond a gap, or that our neighbour does not see, has not answered us."""
        if uid in self._doubts:
            del self._doubts[uid]
            if uid in self._in_rows():
                self._refused[uid] = None
            self._links.close(uid, Closed.LOST)

    def clear(self) -> None:
        """Forget both rows, searches and doubts: this broker is off the ring."""
        for name, side in self._sides.items():
            self._core.disarm(Timer.GAP, name)
            side.row, side.seen, side.found, side.doubted = (), None, None, None
            side.broken_at, side.searches = None, 0
        self._refused.clear()
        self._silent.clear()
        for uid in self._doubts:
            self._core.disarm(Timer.DOUBT, uid)
        self._doubts.clear()

    def normalise(self) -> None:
        """Set what makes no difference to what follows to one value, for exploration of states.

        The dead are neither waited for nor linked, whether they were refused or silent or not; only
        the two nearest of a row are looked at for themselves. This broker waits for suspected ones,
        refused or not.
        """
        hood = self._neighbourhood
        for side in self._sides.values():
            if side.seen is not None:
                side.seen = (side.seen[0], side.seen[1].ageless)
            beyond = tuple(m for m in side.row[2:] if not hood.is_dead(m.uid, m.incarnation))
            side.row = (*side.row[:2], *beyond)
            self._drop_old_doubt(side)
        rows = {uid for uid in self._in_rows() if not hood.is_dead(uid, 0)}  # in any life
        judged = hood.suspects
        self._refused = {u: None for u in self._refused if u in rows and u not in judged}
        self._silent = {uid: None for uid in self._silent if uid in rows}

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _drop_old_doubt(self, side: Side) -> None:
        """Forget that our second neighbour was looked at, if it or our first's view is another."""
        if side.doubted is None:
            return
        hood, (second, view) = self._neighbourhood, side.doubted
        pointers = _ahead(side, hood)
        fits = self._view_that_fits(side, self._near(side))
        is_same = pointers[1:] == (second,) and fits == view.ageless
        side.doubted = (second, view.ageless) if is_same else None

    def _near(self, side: Side) -> Member | None:
        pointers = _ahead(side, self._neighbourhood)
        return pointers[0] if pointers else None

    def _view_that_fits(self, side: Side, near: Member | None) -> View | None:
        """Return the view of our neighbour if we are its neighbour in turn."""
        if near is None or near.uid in self._neighbourhood.suspects:
            return None
        link = self._links.up.get(near.uid)
        if link is None or link.view is None:
            return None
        back = link.view.left if side.towards is Towards.RIGHT else link.view.right
        return link.view if back and back[0].uid == self._core.peer.uid else None

    def _see(self, side: Side, near: Member, view: View) -> None:
        """Take the row from the views of this side's two neighbours."""
        row = {m.uid: m for m in _ahead(side, self._neighbourhood)}
        for member in tuple(row.values()):
            link = self._links.up.get(member.uid)
            if link is not None and link.view is not None:
                for beyond in _ahead(side, link.view):
                    row.setdefault(beyond.uid, beyond)
        row.pop(self._core.peer.uid, None)
        side.row = tuple(row.values())[:ROW]
        complete = len(side.row) == ROW  # else views are still to come, or the ring is small
        side.seen = (near, view) if complete else None
        side.broken_at, side.searches = None, 0
        rows = self._in_rows()
        self._refused = {uid: None for uid in self._refused if uid in rows}
        self._silent = {uid: None for uid in self._silent if uid in rows}

    def _compare(self, side: Side, near: Member, view: View) -> None:
        """Look at our second neighbour if it is not the one that our first has on that side.

        One that is nearer may be a chord of ours into a gap that our first neighbour has just
        closed: it is asked for a sign of life. For one that is farther, we want our first's.
        """
        hood = self._neighbourhood
        pointers, beyond = _ahead(side, hood), _ahead(side, view)
        if len(pointers) < 2 or not beyond:
            return
        second, is_inside = pointers[1], _arc(side, near.ring_id, beyond[0].ring_id)
        if not is_inside(second.ring_id):
            if second.uid != beyond[0].uid:
                hood.learn(beyond[:1])
            return
        if side.doubted == (second, view):
            return
        side.doubted = (second, view)
        if second.uid in hood.suspects:
            self._core.send(near.uid, TestNeighbour(second), second.uid)
        for uid, link in self._links.up.items():  # all of them: else one stands in after the other
            if link.member is None or uid in hood.suspects:
                continue
            if is_inside(link.member.ring_id):
                self.doubt(uid, second.uid)

    def doubt(self, uid: str, about: str) -> None:
        """Close the link to ``uid`` unless it gives a sign of life."""
        if uid not in self._doubts:
            self._doubts[uid] = None
            self._core.send(uid, Ping(0), about)
            self._core.arm(Timer.DOUBT, uid, self._core.config.test_ns)

    def _in_rows(self) -> list[str]:
        return [member.uid for side in self._sides.values() for member in side.row]

    def _mend(self, name: str, side: Side) -> None:
        """The ring is broken on this side: try those in the row, and wait for the last of them."""
        hood, core = self._neighbourhood, self._core
        if side.broken_at is None:
            near = [member for member in side.row[:2] if member.uid not in hood.suspects]
            if any(self._links.leads_to(member) for member in near):
                return  # the other neighbour is there: no run, as far as can be seen
            side.broken_at = core.now
            self._silent.update(dict.fromkeys(member.uid for member in side.row))
            self._doubt_chords(side)
        left = [
            member
            for member in side.row
            if member.uid not in self._refused and not hood.is_dead(member.uid, member.incarnation)
        ]
        if not left and not hood.right:
            side.row = ()  # nobody is there at all: who is alone has no gap to close
            return
        hood.learn(left)
        waits = (Timer.GAP, name) in core.timers
        patience = side.broken_at + self._patience_ns
        if self._is_lost(side):
            if side.searches == 0:
                core.arm(Timer.GAP, name, 0)
            elif not waits:
                core.arm(Timer.GAP, name, core.config.route_ns)
        elif not waits and core.now < patience:
            core.timers.set((Timer.GAP, name), patience)

    def _doubt_chords(self, side: Side) -> None:
        """Ask all chords that lead over the gap for a sign of life: nobody watches those.

        All at once: else each dead one comes to stand in a pointer, and takes its time to be found
        dead, after the one before it.
        """
        here = self._core.member.ring_id
        for uid, link in self._links.up.items():
            if link.member is None or link.on_ring:
                continue
            steps = clockwise(here, link.member.ring_id)
            rightward = steps < RING_SIZE // 2
            if rightward is (side.towards is Towards.RIGHT):
                self.doubt(uid, side.row[0].uid)

    @property
    def _patience_ns(self) -> Nanos:
        """How long the row has to answer: what a suspect has, and more as links must be made."""
        return self._core.config.test_ns + self._core.config.answer_max_ns

    def _is_lost(self, side: Side) -> bool:
        """Say whether all in the row are gone: dead, or without an answer."""
        if side.broken_at is None or not side.row:
            return False
        return not any(self._may_live(member, side.broken_at) for member in side.row)

    def _may_live(self, member: Member, since: Nanos) -> bool:
        core, hood, uid = self._core, self._neighbourhood, member.uid
        if uid in hood.suspects:
            return True  # still to be judged
        if uid in self._refused or hood.is_dead(uid, member.incarnation):
            return False
        link = self._links.up.get(uid)
        if link is not None and link.member is not None and uid not in self._silent:
            return True
        return core.now < since + self._patience_ns

    def _on_found(self, side: Side, finding: Finding) -> None:
        member = finding.member
        if member is None or member.uid == self._core.peer.uid:
            return
        if not self._neighbourhood.is_dead(member.uid, member.incarnation):
            side.found = member

    def _settle(self, side: Side) -> None:
        """Once the broker found is linked, give up the silent links on this side of it."""
        found = side.found
        link = self._links.up.get(found.uid) if found is not None else None
        if found is None or link is None or link.member is None:
            return
        side.found, side.row, side.broken_at = None, (link.member,), self._core.now
        is_inside = _arc(side, self._core.member.ring_id, link.member.ring_id)
        for uid, other in list(self._links.up.items()):
            is_skipped = other.member is not None and is_inside(other.member.ring_id)
            if is_skipped and self._routing.is_deaf(uid):
                self._links.close(uid, Closed.LOST)
        for uid, suspect in self._neighbourhood.suspects.items():
            if is_inside(suspect.ring_id):
                self._core.send(link.member.uid, TestNeighbour(suspect), uid)
        for uid, member in list(self._neighbourhood.candidates.items()):
            if is_inside(member.ring_id):  # from views of the dead
                del self._neighbourhood.candidates[uid]
