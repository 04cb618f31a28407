"""Rings that lost sight of each other become one again.

After a cut of the network each part is a ring of its own. Every broker remembers peers it lost and
knocks at one of them now and then; one that is alone, at some. When one answers, the two rings are
sewn together from many points at once, after Shafaat, Ghodsi and Haridi's gossip-based ring
unification ("Dealing with network partitions in structured overlay networks", 2009; their
``mlookup`` and ``trymerge``):

* A broker *p* that reaches *q* by a knock asks q to find p's place in q's ring: :class:`Meet` goes
  greedily over the links of that ring to the member *y* nearest to p's id.
* If p stands there already, p itself gets the question: the two are of one ring. So a false alarm
  costs one route and no more, and p need not knock at q again.
* If not, y takes p as a candidate, as it takes the members it reads of in views: by making a link.
  With the link the two show each other their neighbours, and the seam grows from there.
* Over that link y asks p's ring for the places of itself, of the member on p's other side, and of
  ``FAN_OUT`` of its chords drawn at random. Each of these that lands beside a stranger begins a
  seam of its own and asks back, so that seams multiply, from ring to ring and back, until the
  questions find everybody met: O(log n) rounds, then silence.

Departs from the paper of those three where this ring differs: places are found by links and chords
from both ends; a stranger becomes a neighbour by a link alone (no pointer is adopted unchecked);
and two brokers with one ring id are told apart: the larger uid rejoins
(:mod:`ring.coordination.membership`).

*Held for dead.* Either side holds brokers of the other for dead. A verdict concerns one life: who
is linked by a broker it holds dead says so (:class:`HeldDead`), and takes no view of it until that
broker has answered with a larger incarnation. If it was a neighbour, its ring has closed over that
broker, which must join anew. If not, that was another ring's verdict, and the broker keeps its
place: a partition makes nobody rejoin. Nor does the verdict of a neighbour to which nobody bears
witness: that neighbour was cut off itself. As soon as it learns so, being held for dead by others,
it drops such verdicts of its own.
"""

from __future__ import annotations

from overlay.ids import Peer
from ring.circle.greedy import nearer
from ring.circle.links import RingLinks
from ring.circle.neighbourhood import Neighbourhood
from ring.core import Core, Timer
from ring.geometry import clockwise
from ring.wire.messages import MAX_ROUTE_HOPS, HeldDead, Meet, Member

ALONE_KNOCKS = 8  #: doors at which one who is alone knocks at a time: behind most may be the dead
FAN_OUT = 1  #: chords of ours that a stranger's ring is asked to meet
MAX_FOUND = 64  #: seeds known to be in our ring
MAX_PATIENCE = 5  #: the pause between knocks doubles that often; only who is alone starts short


class Merge:
    """Knocks at lost peers, and brings members of different rings together."""

    def __init__(self, core: Core, links: RingLinks, neighbourhood: Neighbourhood) -> None:
        self._core = core
        self._links = links
        self._neighbourhood = neighbourhood
        self._knocks = 0  #: in a row, since the neighbours last changed
        self._knocked: set[str] = set()  #: URLs knocked at last
        self._tried: set[str] = set()  #: URLs that have had their turn while we are alone
        self._found: set[str] = set()  #: seeds known to be in our ring; forgotten with each loss
        self._losses = 0  #: as counted by the neighbourhood when ``_found`` was emptied

    # ── knocking ──────────────────────────────────────────────────────────────────────────────

    def on_neighbours_changed(self) -> None:
        """Count knocks anew: should this broker be alone soon, its first pauses are short."""
        self._knocks = 0

    def on_knock_due(self, seeds: tuple[str, ...], *, alone: bool) -> None:
        """Try a lost peer or seed, or some if ``alone``: it may be back, or of another ring.

        No failure strikes a peer from the list: a long partition would empty it, and the rings
        could never merge. Only who is found in our own ring is no longer lost.
        """
        core, hood = self._core, self._neighbourhood
        if hood.losses != self._losses:
            self._found.clear()
            self._losses = hood.losses
        linked = {link.peer.url for link in self._links.up.values()}
        known = [peer.url for peer in hood.remembered.values()]
        known += [url for url in seeds if url not in self._found]
        lost = [url for url in dict.fromkeys(known) if url not in linked and url != core.peer.url]
        drawn = self._take_turns(lost) if alone else core.rng.sample(lost, min(1, len(lost)))
        self._knocked = set(drawn)
        for url in drawn:
            self._links.open(url, None)
        self._knocks += 1
        self.arm(min(self._knocks, MAX_PATIENCE) if alone else MAX_PATIENCE)

    def knock_at(self, urls: tuple[str, ...]) -> None:
        """Try these now, a few of them: somebody has just named them as brokers of our ring."""
        linked = {link.peer.url for link in self._links.up.values()}
        named = [url for url in urls if url not in linked and url != self._core.peer.url]
        for url in named[:ALONE_KNOCKS]:
            self._knocked.add(url)
            self._links.open(url, None)

    def arm(self, patience: int = MAX_PATIENCE) -> None:
        """Knock after a pause, which doubles with ``patience``."""
        core = self._core
        core.arm(Timer.KNOCK, "", core.jitter(core.config.knock_ns << patience))

    def on_answered(self, uid: str, url: str) -> None:
        """A call was answered: it may have been our knock."""
        if url in self._knocked:
            self._knocked.discard(url)
            if self._core.joined:
                self._core.send(uid, Meet(self._core.member, uid, 0))

    def on_linked(self, peer: Peer) -> None:
        """A link is up, directly or by a detour: tell one that we hold for dead."""
        hood = self._neighbourhood
        if hood.is_dead(peer.uid, peer.incarnation, at_any_time=True):
            hood.limit_verdict(peer)
            self._core.send(peer.uid, HeldDead(peer.incarnation, hood.is_witnessed(peer.uid)))

    # ── meeting ───────────────────────────────────────────────────────────────────────────────

    def on_meet(self, uid: str, meet: Meet) -> None:
        """Pass the question on towards its subject's place; adopt the subject if that is here."""
        core = self._core
        if not core.joined:
            return
        if meet.subject.uid == core.peer.uid:
            self._on_found(meet.entry)
            return
        onward = self._nearer(meet.subject, without=uid if meet.hops == 0 else None)
        if onward is None:
            self._land(meet.subject)
        elif meet.hops < MAX_ROUTE_HOPS:
            core.send(onward, Meet(meet.subject, meet.entry, meet.hops + 1))

    def stabilise(self) -> None:
        """Look again for neighbours, as a link refused once may be possible by now.

        A neighbour in whose view we do not stand is asked to find our place. In a ring at rest,
        nothing is sent.
        """
        core, hood = self._core, self._neighbourhood
        if not core.joined:
            return
        hood.learn_again()
        for near, rightward in ((hood.right, True), (hood.left, False)):
            link = self._links.up.get(near[0].uid) if near else None
            if link is not None and link.view is not None:
                back = link.view.left if rightward else link.view.right
                if core.peer.uid not in [member.uid for member in back]:
                    core.send(near[0].uid, Meet(core.member, near[0].uid, 0))

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _take_turns(self, lost: list[str]) -> list[str]:
        """Return some of these URLs that were not returned since each of them was."""
        self._tried.intersection_update(lost)
        untried = [url for url in lost if url not in self._tried]
        drawn = self._core.rng.sample(untried, min(ALONE_KNOCKS, len(untried)))
        self._tried.update(drawn)
        if len(self._tried) == len(lost):
            self._tried.clear()
        return drawn

    def _on_found(self, entry: str) -> None:
        """Our own question came to us: ``entry``, to whom it was given, is in our ring."""
        peer = self._neighbourhood.remembered.pop(entry, None)
        link = self._links.up.get(entry)
        for known in (peer, link.peer if link is not None else None):
            if known is not None and len(self._found) < MAX_FOUND:
                self._found.add(known.url)

    def _nearer(self, subject: Member, without: str | None) -> str | None:
        """Return the link that leads nearer to the subject's place than here, or to itself."""
        links = self._links.up
        if subject.uid in links and subject.uid != without and links[subject.uid].is_used:
            return subject.uid
        return nearer(self._core.member.ring_id, subject.ring_id, links, without)

    def _land(self, subject: Member) -> None:
        """Nobody we are linked to is nearer: its place in this ring is beside us."""
        hood = self._neighbourhood
        known = subject.uid in hood.candidates
        hood.learn((subject,), attested=True)
        if known or subject.uid not in hood.candidates:
            return
        for member in self._to_meet(subject):
            self._links.tell(subject.peer, Meet(member, subject.uid, 0))

    def _to_meet(self, subject: Member) -> list[Member]:
        """Return ourselves, our neighbour on the subject's other side, and some of our chords."""
        core, hood = self._core, self._neighbourhood
        here = core.member.ring_id
        rightward = clockwise(here, subject.ring_id) <= clockwise(subject.ring_id, here)
        beyond = hood.right[:1] if rightward else hood.left[:1]
        chords = [
            link.member
            for uid, link in sorted(self._links.up.items())
            if link.member is not None and uid not in hood.adjacent and link.is_used
        ]
        drawn = core.rng.sample(chords, min(FAN_OUT, len(chords)))
        found = {m.uid: m for m in (core.member, *beyond, *drawn)}
        found.pop(subject.uid, None)
        return list(found.values())
