"""Joining the ring (paper 004, section 3.3).

A newcomer measures round-trip times to the brokers it can learn of, draws its contact among the
nearest, and asks it for a place. Departs from the published listing in these points:

* Every gap between two brokers has one *owner*, the broker at its left (counter-clockwise) end, and
  only the owner inserts into it. Joins that race for one gap are thereby serialised without any
  agreement protocol, and an id stays reserved until its newcomer is there or has failed to come.
  The newcomer takes over the ids reserved to its right, as that part of the gap will be its own.
* Which gap is offered is the business of :mod:`ring.gaps`: by default the widest of up to eight, or
  one farther away, instead of the wider of the contact's own two.
* The request is passed on a bounded number of times, then refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from overlay.ids import Nanos, Peer
from overlay.machine import LinkRefused, Refused
from ring.chords import Chords
from ring.core import Core, Timer
from ring.facts import JoinDelayed, JoinRejected
from ring.gaps import Request, Sight, Verdict, choose
from ring.geometry import FIRST_ID, SECOND_ID, clockwise, gap, midway
from ring.links import Links
from ring.messages import JoinAccept, JoinRefuse, JoinRequest, Member, Peers, PeersRequest, Ping
from ring.neighbourhood import Neighbourhood

PINGS = 3  #: round trips measured to each candidate; the shortest counts
UNANSWERED = 2  #: requests without an answer, before the contact itself is to insert
FULL_ROW = 9  #: a row of the broker and four neighbours on each side
MAX_HOPS = 255  #: what the wire can carry
MAX_NEIGHBOURS = 16  #: told to a newcomer


#: Refusals that no waiting will change.
_HOPELESS = frozenset({Refused.OTHER_OVERLAY, Refused.OTHER_VERSION, Refused.NOT_CHORDAL})


def _describe(event: LinkRefused) -> str:
    return f"{event.url}: {event.detail or event.reason.value.replace('_', ' ')}"


class Phase(Enum):
    """Where a newcomer stands."""

    IDLE = auto()
    SEEKING = auto()  #: opening links to the seeds
    MEASURING = auto()  #: measuring round-trip times
    ASKING = auto()  #: the request is on its way to the owner of a gap
    LINKING = auto()  #: it has an id and links to its neighbours


@dataclass(slots=True)
class _Candidate:
    peer: Peer
    pings: int = 0
    sent_at: Nanos = 0
    round_trip_ns: Nanos | None = None


@dataclass(slots=True)
class Newcomer:
    """This broker's own way onto the ring, phase by phase; any phase may start again."""

    core: Core
    links: Links
    neighbourhood: Neighbourhood
    phase: Phase = Phase.IDLE
    contact: str | None = None
    in_vain: int = 0  #: times in a row that no member was found
    _seeds: tuple[str, ...] = ()
    _patient: bool = False
    _attempts: int = 0
    _unanswered: int = 0  #: requests in a row to which nobody had an answer
    _candidates: dict[str, _Candidate] = field(default_factory=dict)

    @property
    def round_trip_ns(self) -> Nanos | None:
        """As measured to the contact."""
        candidate = self._candidates.get(self.contact or "")
        return candidate.round_trip_ns if candidate else None

    @property
    def wanted(self) -> dict[str, Peer]:
        """Peers to keep links to while joining."""
        if self.phase in (Phase.MEASURING, Phase.ASKING):
            return {uid: candidate.peer for uid, candidate in self._candidates.items()}
        return {}

    def begin(self, seeds: tuple[str, ...], *, patient: bool) -> None:
        """Look for the ring at these URLs.

        A seed that can never let us in ends the attempt, as somebody has given a wrong address;
        not so if ``patient``, when the addresses are those of brokers we once knew.
        """
        self._patient = patient
        self._seeds = tuple(dict.fromkeys(seeds))
        self._attempts = self._unanswered = self.in_vain = 0
        self._seek()

    def on_up(self, uid: str, peer: Peer) -> None:
        """A seed or a candidate is linked: ask it for members, or measure the way to it."""
        if self.phase is Phase.SEEKING:
            self.core.send(uid, PeersRequest())
        elif self.phase is Phase.MEASURING and uid in self._candidates:
            self._ping(uid)

    def on_refused(self, event: LinkRefused) -> None:
        """A seed or candidate cannot be linked; after the last seed, wait and start again."""
        if self.phase is Phase.SEEKING and event.url in self._seeds:
            if event.reason in _HOPELESS and not self._patient:
                self.finish()
                self.core.notify(JoinRejected(_describe(event)))
                return
            waiting = any(self.links.is_opening(url) for url in self._seeds)
            linked = any(link.peer.url in self._seeds for link in self.links.up.values())
            if not waiting and not linked:
                self._start_again(_describe(event))
        elif event.uid in self._candidates:
            del self._candidates[event.uid]
            self._decide_if_measured()

    def on_peers(self, peers: Peers) -> None:
        """A seed named members: measure the way to some of them."""
        core = self.core
        if self.phase is not Phase.SEEKING:
            return
        known = {m.uid: m.peer for m in peers.members if m.uid != core.peer.uid}
        if not known:
            return
        count = min(len(known), core.config.measure_candidates)
        drawn = core.rng.sample(sorted(known), count)
        self.phase = Phase.MEASURING
        self.in_vain = 0
        self._candidates = {uid: _Candidate(known[uid]) for uid in drawn}
        core.arm(Timer.MEASURE, "", core.config.measure_ns)
        core.disarm(Timer.JOIN)
        for uid in drawn:
            if uid in self.links.up:
                self._ping(uid)

    def on_pong(self, uid: str) -> None:
        """A candidate has answered a ping: after three the shortest round trip counts."""
        candidate = self._candidates.get(uid)
        if self.phase is not Phase.MEASURING or candidate is None or not candidate.pings:
            return
        took = self.core.now - candidate.sent_at
        best = candidate.round_trip_ns
        candidate.round_trip_ns = took if best is None else min(best, took)
        if candidate.pings < PINGS:
            self._ping(uid)
        else:
            self._decide_if_measured()

    def on_measured(self) -> None:
        """Time is up: draw the contact among the nearest and ask it for a place."""
        core = self.core
        if self.phase is not Phase.MEASURING:
            return
        core.disarm(Timer.MEASURE)
        nearest = sorted(
            (candidate.round_trip_ns, uid)
            for uid, candidate in self._candidates.items()
            if candidate.round_trip_ns is not None and uid in self.links.up
        )[: core.config.closest]
        if not nearest:
            self._start_again("no broker answered in time")
            return
        self.contact = core.rng.choice(nearest)[1]
        self.phase = Phase.ASKING
        core.arm(Timer.JOIN, "", core.config.join_ns)
        # The owner of a gap may be one that cannot reach us: after that the contact itself, which
        # we are linked to, is to find room beside it.
        hops = core.config.join_hops if self._unanswered >= UNANSWERED else 0
        core.send(self.contact, JoinRequest(core.peer, hops, insert=hops > 0))

    def on_accept(self, accept: JoinAccept) -> bool:
        """Take the id; returns False for an answer nobody waits for."""
        core = self.core
        if self.phase is not Phase.ASKING:
            return False
        self.phase = Phase.LINKING
        self._unanswered = 0
        core.ring_id = accept.ring_id
        core.arm(Timer.JOIN, "", core.config.join_ns)
        self.neighbourhood.learn((accept.owner, *accept.neighbours))
        return True

    def on_refuse(self, refuse: JoinRefuse) -> None:
        """No place was found: give up where the id space is full, else pause and start again."""
        if self.phase is not Phase.ASKING:
            return
        if refuse.full and self._unanswered < UNANSWERED:
            self.finish()
            reason = "the id space is full around every contact tried; join by other brokers"
            self.core.notify(JoinRejected(reason))
        else:
            self._start_again("the contact is not on the ring, or has no room beside it")

    def on_late(self) -> None:
        """A step took too long, or the pause before a new attempt is over."""
        if self.phase is Phase.IDLE:
            return
        if self._pausing:
            self._seek()
        else:
            self._unanswered += self.phase is Phase.ASKING
            self._start_again(f"no answer while {self.phase.name.lower()}")

    def on_taken(self) -> None:
        """Another has come onto the ring with the id that we were promised."""
        self._start_again("the id given is taken")

    @property
    def linked(self) -> bool:
        """Links to all neighbours that answer are up."""
        wanted = self.neighbourhood.nearest_wanted()
        return bool(wanted) and all(uid in self.links.up for uid in wanted)

    def finish(self) -> None:
        """The broker is on the ring, or gives up."""
        self.phase = Phase.IDLE
        self.core.disarm(Timer.JOIN)
        self.core.disarm(Timer.MEASURE)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    @property
    def _pausing(self) -> bool:
        return self.phase is Phase.SEEKING and not any(map(self.links.is_opening, self._seeds))

    def _seek(self) -> None:
        core = self.core
        self.phase = Phase.SEEKING
        self.in_vain += 1
        self._candidates.clear()
        core.ring_id = None
        core.arm(Timer.JOIN, "", core.config.join_ns)
        linked = {link.peer.url: uid for uid, link in self.links.up.items()}
        for url in self._seeds:
            if url in linked:
                core.send(linked[url], PeersRequest())
            else:
                self.links.open(url, None)

    def _start_again(self, reason: str) -> None:
        core, config = self.core, self.core.config
        self.phase = Phase.SEEKING
        self.neighbourhood.candidates.clear()
        pause = min(config.retry_ns << min(self._attempts, 16), config.retry_max_ns)
        retry = core.jitter(pause)
        self._attempts += 1
        core.disarm(Timer.MEASURE)
        core.arm(Timer.JOIN, "", retry)
        core.notify(JoinDelayed(reason, retry))

    def _ping(self, uid: str) -> None:
        candidate = self._candidates[uid]
        candidate.pings += 1
        candidate.sent_at = self.core.now
        self.core.send(uid, Ping(candidate.pings))

    def _decide_if_measured(self) -> None:
        if self.phase is Phase.MEASURING and all(
            candidate.round_trip_ns is not None and candidate.pings >= PINGS
            for candidate in self._candidates.values()
        ):
            self.on_measured()


@dataclass(slots=True)
class GapOwner:
    """A member's side of a join: offer a gap, own the one to the right, keep ids reserved."""

    core: Core
    links: Links
    neighbourhood: Neighbourhood
    chords: Chords
    _reserved: dict[str, Member] = field(default_factory=dict)

    def on_request(self, sender: str, request: JoinRequest) -> None:
        """Insert the newcomer, or pass its request on; asking again changes nothing."""
        core = self.core
        newcomer = request.newcomer
        if not core.joined:
            self.links.tell(newcomer, JoinRefuse(full=False))
        elif newcomer.uid == core.peer.uid:
            return
        elif newcomer.uid in self._reserved and self._reserved[newcomer.uid].peer == newcomer:
            self._accept(self._reserved[newcomer.uid])
        else:
            self._place(request)

    def inherit(self, reserved: tuple[Member, ...]) -> None:
        """Keep the ids that were reserved to the right of ours before we got it.

        The right part of the gap is ours now, and who was promised an id in it may still come.
        """
        self.clear()
        for member in reserved:
            self._reserve(member)

    def release(self, uid: str) -> None:
        """The newcomer has arrived, or has not come in time."""
        self._reserved.pop(uid, None)
        self.core.disarm(Timer.RESERVED, uid)

    def clear(self) -> None:
        """Release all reserved ids: the gap is no longer ours."""
        for uid in list(self._reserved):
            self.release(uid)

    def _place(self, request: JoinRequest) -> None:
        core, newcomer = self.core, request.newcomer
        sight, members = self._sight()
        choice = choose(
            sight,
            Request(newcomer.uid, request.hops, request.insert),
            core.config.gap_rule,
            core.config.join_hops,
            core.rng,
        )
        if choice.verdict is Verdict.INSERT:
            self._insert(newcomer)
        elif choice.verdict is Verdict.FULL:
            self.links.tell(newcomer, JoinRefuse(full=True))
        else:
            hops = min(request.hops + 1, MAX_HOPS)
            onward = JoinRequest(newcomer, hops, insert=choice.verdict is Verdict.ASK)
            self.links.tell(members[choice.ring_id].peer, onward)

    def _sight(self) -> tuple[Sight, dict[int, Member]]:
        """Return what we see of the ring's gaps, and the members in it by ring id."""
        core, hood, links = self.core, self.neighbourhood, self.links
        row = hood.around()
        here = next(at for at, member in enumerate(row) if member.uid == core.peer.uid)
        chords = [
            member
            for member in self.chords.levels
            if member.uid in links.up and member.uid not in hood.suspects
        ]
        members = {member.ring_id: member for member in (*chords, *row)}
        ids = [member.ring_id for member in row]
        sight = Sight(
            here=core.member.ring_id,
            room=gap(core.member.ring_id, self._end()),
            lefts=ids[:here][::-1],
            rights=ids[here + 1 :],
            whole=len(row) < FULL_ROW and all(member.ring_id in ids for member in chords),
            chords=[member.ring_id for member in chords],
        )
        return sight, members

    def _end(self) -> int:
        """Return where the free part of our own gap ends: at the next id in use or reserved.

        Not simply at our right neighbour: for a moment that may be another with our own id, or a
        dead one whose id we were given.
        """
        core, hood = self.core, self.neighbourhood
        others = (*hood.right, *hood.left, *self._reserved.values())
        ends = [member.ring_id for member in others]
        here = core.member.ring_id
        return min(ends, key=lambda end: gap(here, end), default=here)

    def _insert(self, newcomer: Peer) -> None:
        here, end = self.core.member.ring_id, self._end()
        first_two = here == end and here == FIRST_ID
        member = Member(newcomer, SECOND_ID if first_two else midway(here, end))
        self._reserve(member)
        self._accept(member)

    def _reserve(self, member: Member) -> None:
        self._reserved[member.uid] = member
        self.core.arm(Timer.RESERVED, member.uid, 3 * self.core.config.join_ns)

    def _accept(self, member: Member) -> None:
        core = self.core
        here = core.member.ring_id
        others = [m for m in self.neighbourhood.around() if m.uid != core.peer.uid]
        beyond = sorted(
            (clockwise(here, other.ring_id), uid)
            for uid, other in self._reserved.items()
            if clockwise(here, other.ring_id) > clockwise(here, member.ring_id)
        )
        reserved = tuple(self._reserved[uid] for _, uid in beyond[:MAX_NEIGHBOURS])
        self.links.tell(
            member.peer,
            JoinAccept(member.ring_id, core.member, tuple(others[:MAX_NEIGHBOURS]), reserved),
        )
