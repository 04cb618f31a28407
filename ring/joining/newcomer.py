"""The newcomer's side of a join: how this broker comes onto the ring (paper 004, section 3.3).

A newcomer measures round-trip times to the brokers it can learn of, draws its contact among the
nearest, and asks it for a place. It has joined once it is linked to those of the neighbours named
to it that answer; whatever fails on the way, it pauses and starts again. The other side is
:mod:`ring.joining.gap_owner`. Where nobody is on a ring yet, :mod:`ring.joining.founding` says who
founds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from overlay.ids import Nanos, Peer, nanos
from overlay.machine import Closed, LinkRefused, Refused
from ring.circle.links import RingLinks
from ring.circle.neighbourhood import Neighbourhood
from ring.core import Core, Timer
from ring.facts import JoinDelayed, JoinRejected, JoinWaits
from ring.joining.founding import Founding
from ring.joining.guide import Guide, NoGuide
from ring.wire.messages import (
    JoinAccept,
    JoinRefuse,
    JoinRequest,
    Peers,
    PeersRequest,
    Ping,
    Stance,
)

PINGS = 3  #: round trips measured to each candidate; the shortest counts
UNANSWERED = 2  #: requests without an answer, before the contact itself is to insert

CALLED_NAMED = 2  #: looks in vain at the seeds, after which those that they have named are called
SHORT_ATTEMPTS = 2  #: after so many, pauses grow no more where a unit is being formed
SAY_NS = nanos(3.0)  #: between two lines that say that this broker is on no ring yet

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


class Newcomer:
    """This broker's own way onto the ring, phase by phase; any phase may start again."""

    def __init__(self, core: Core, links: RingLinks, neighbourhood: Neighbourhood) -> None:
        self._core = core
        self._links = links
        self._neighbourhood = neighbourhood
        self.founding = Founding(core, links)
        self.guide: Guide = NoGuide()
        self.phase = Phase.IDLE
        self.contact: str | None = None
        self.in_vain = 0  #: times in a row that no member was found
        self._seeds: tuple[str, ...] = ()
        self._named: tuple[str, ...] = ()  #: URLs of the candidates that a seed named last
        self._doors: tuple[str, ...] = ()  #: URLs where the ring is looked for now
        self._patient = False
        self._was_there = False  #: on the ring, in this life or one before
        self.waits_for = ""  #: as a member has said; empty: for nothing
        self._has_no_wish = False  #: what is wished is refused to one that was on the ring
        self._attempts = 0
        self._unanswered = 0  #: requests in a row to which nobody had an answer
        self._candidates: dict[str, _Candidate] = {}

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
        if self.phase is Phase.SEEKING:
            return {uid: self._links.up[uid].peer for uid in self.founding.waiting}
        return {}

    @property
    def stance(self) -> Stance:
        """What we tell others that ask us, as long as we are on no ring."""
        if self.phase is not Phase.SEEKING or not self.founding.is_open or self._knows_ring:
            return Stance.JOINS
        return Stance.FOUNDS if self.founding.may_found else Stance.SEEKS

    @property
    def founds(self) -> bool:
        """Whether this broker is to found a ring now: no seed is on one, and it is our turn."""
        return self.phase is Phase.SEEKING and not self._knows_ring and self.founding.is_due

    def begin(self, seeds: tuple[str, ...], *, patient: bool) -> None:
        """Look for the ring at these URLs.

        A seed that can never let us in ends the attempt, as somebody has given a wrong address;
        not so if ``patient``, when the addresses are those of brokers we once knew.
        """
        self._patient = patient
        self._seeds = tuple(dict.fromkeys(seeds))
        self._named = ()
        self._attempts = self._unanswered = self.in_vain = 0
        self._core.arm(Timer.WAITS, "", SAY_NS)
        self._seek()

    def reseed(self, seeds: tuple[str, ...], others: tuple[str, ...]) -> None:
        """The list has changed; ``others``: without this broker's own URL.

        Not so for one that was on a ring before: it looks for it where it knew brokers.
        """
        if not self.founding.is_open:
            return
        self.founding.reseed(seeds)
        self._seeds = tuple(dict.fromkeys(others))
        if self.phase is Phase.SEEKING:
            self._seek()

    def on_up(self, uid: str) -> None:
        """A seed or a candidate is linked: ask it for members, or measure the way to it."""
        if self.phase is Phase.SEEKING:
            self._ask(uid)
        elif self.phase is Phase.MEASURING and uid in self._candidates:
            self._ping(uid)

    def on_refused(self, event: LinkRefused) -> None:
        """A seed or candidate cannot be linked; after the last of them, wait and start again."""
        if self.founding.on_refused(event):
            self._ask_all()
        if self.phase is Phase.SEEKING and event.url in self._doors:
            is_given = event.url in self._seeds
            if event.reason in _HOPELESS and is_given and not self._patient:
                self.finish()
                self._core.notify(JoinRejected(_describe(event)))
                return
            waiting = any(self._links.is_opening(url) for url in self._doors)
            linked = any(link.peer.url in self._doors for link in self._links.up.values())
            if not waiting and not linked and not self.founding.may_found:
                self._start_again(_describe(event))
        elif event.uid in self._candidates:
            del self._candidates[event.uid]
            self._decide_if_measured()

    def on_asked(self, uid: str, request: PeersRequest) -> None:
        """Another that is on no ring looks for one: it may be as far as we are."""
        if request.named and self.founding.on_named():
            self._ask_all()
        self.founding.on_question(uid, request.stance)

    def on_founded(self, uid: str) -> None:
        """One that is linked shows that it is on a ring: ask it, if we look for one."""
        if self.phase is Phase.SEEKING:
            self._ask(uid)

    def on_peers(self, uid: str, peers: Peers) -> None:
        """A seed named members: measure the way to some of them."""
        core = self._core
        self.founding.on_answer(uid, peers.stance)
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
        self._named = tuple(known[uid].url for uid in drawn)
        core.arm(Timer.MEASURE, "", core.config.measure_ns)
        core.disarm(Timer.JOIN)
        for uid in drawn:
            if uid in self._links.up:
                self._ping(uid)

    def on_pong(self, uid: str) -> None:
        """A candidate has answered a ping: after three the shortest round trip counts."""
        candidate = self._candidates.get(uid)
        if self.phase is not Phase.MEASURING or candidate is None or not candidate.pings:
            return
        took = self._core.now - candidate.sent_at
        best = candidate.round_trip_ns
        candidate.round_trip_ns = took if best is None else min(best, took)
        if candidate.pings < PINGS:
            self._ping(uid)
        else:
            self._decide_if_measured()

    def on_measured(self) -> None:
        """Time is up: draw the contact among the nearest and ask it for a place."""
        core = self._core
        if self.phase is not Phase.MEASURING:
            return
        core.disarm(Timer.MEASURE)
        nearest = sorted(
            (candidate.round_trip_ns, uid)
            for uid, candidate in self._candidates.items()
            if candidate.round_trip_ns is not None and uid in self._links.up
        )[: core.config.closest]
        if not nearest:
            self._start_again("no broker answered in time")
            return
        self.contact = core.rng.choice(nearest)[1]
        self.phase = Phase.ASKING
        core.arm(Timer.JOIN, "", core.config.join_ns)
        aim = self.guide.aim(core.now)
        if aim is not None:
            core.send(
                self.contact,
                JoinRequest(core.peer, 0, insert=False, lo=aim.lo, hi=aim.hi, asks=aim.is_place),
            )
            return
        # The owner of a gap may be one that cannot reach us: after that the contact itself, which
        # we are linked to, is to find room beside it.
        hops = core.config.join_hops if self._unanswered >= UNANSWERED else 0
        wish = () if self._has_no_wish else self.guide.wish
        core.send(self.contact, JoinRequest(core.peer, hops, insert=hops > 0, wish=wish))

    def on_accept(self, accept: JoinAccept) -> bool:
        """Take the id; returns False for an answer nobody waits for."""
        core = self._core
        if self.phase is not Phase.ASKING:
            return False
        self.phase = Phase.LINKING
        self._unanswered = 0
        core.ring_id = accept.ring_id
        core.arm(Timer.JOIN, "", core.config.join_ns)
        self._neighbourhood.learn((accept.owner, *accept.neighbours))
        return True

    def on_refuse(self, refuse: JoinRefuse) -> None:
        """No place was found: give up where there will be none, else pause and start again.

        One that was on the ring does not give up for a wish that is refused: it goes without.
        """
        if self.phase is not Phase.ASKING:
            return
        if refuse.reason:
            self._on_reason(refuse)
            return
        asked_beside_it, self._unanswered = self._unanswered >= UNANSWERED, 0
        if refuse.full and not asked_beside_it:
            self.finish()
            reason = "the id space is full around every contact tried; join by other brokers"
            self._core.notify(JoinRejected(reason))
        else:
            self._start_again("the contact is not on the ring, or has no room at the moment")

    def _on_reason(self, refuse: JoinRefuse) -> None:
        """The layer above has said why there is no place for us, now or ever."""
        self._unanswered = 0
        self.waits_for = refuse.reason
        if not refuse.full:
            self._attempts = min(self._attempts, SHORT_ATTEMPTS)
            self._start_again(refuse.reason)
        elif self._was_there:
            self._has_no_wish = True
            self._start_again(refuse.reason)
        else:
            self.finish()
            self._core.notify(JoinRejected(refuse.reason))

    def on_late(self) -> None:
        """A step took too long, or the pause before a new attempt is over."""
        if self.phase is Phase.IDLE:
            return
        if self._pausing or (self.phase is Phase.SEEKING and self.founding.may_found):
            self._seek()
        else:
            self._unanswered += self.phase is Phase.ASKING
            self._start_again(f"no answer while {self.phase.name.lower()}")

    def on_waits_due(self) -> None:
        """Say that this broker is on no ring yet, and why not."""
        if self.phase is not Phase.IDLE:
            self._core.notify(JoinWaits(self.founding.answers(), self.waits_for))
            self._core.arm(Timer.WAITS, "", SAY_NS)

    def on_taken(self) -> None:
        """Another has come onto the ring with the id that we were promised."""
        self._start_again("the id given is taken")

    @property
    def linked(self) -> bool:
        """Links to all neighbours that answer are up."""
        wanted = self._neighbourhood.nearest_wanted()
        return bool(wanted) and all(uid in self._links.up for uid in wanted)

    def on_ring(self) -> None:
        """The broker is on the ring."""
        self._was_there = True
        self._has_no_wish = False
        self.waits_for = ""

    def finish(self) -> None:
        """The broker is on the ring, or gives up."""
        self.phase = Phase.IDLE
        for timer in (Timer.JOIN, Timer.MEASURE, Timer.WAITS):
            self._core.disarm(timer)

    def normalise(self) -> None:
        """Set what makes no difference to what follows to one value, for exploration of states."""
        if self.phase is Phase.IDLE:  # what was measured has had its use
            self._candidates.clear()
            self._named = self._doors = ()
            self.contact = None

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    @property
    def _knows_ring(self) -> bool:
        """Members were named to us, and we have not called them in vain yet."""
        return bool(self._named) and self.in_vain <= CALLED_NAMED

    @property
    def _pausing(self) -> bool:
        return self.phase is Phase.SEEKING and not any(map(self._links.is_opening, self._doors))

    def _seek(self) -> None:
        core = self._core
        self.phase = Phase.SEEKING
        self.in_vain += 1
        self._candidates.clear()
        # A seed may have died since it named others: where none answers, these are called as well.
        named = self._named if self.in_vain >= CALLED_NAMED else ()
        self._doors = tuple(dict.fromkeys((*self._seeds, *named)))
        core.ring_id = None
        is_open, config = self.founding.may_found, core.config
        core.arm(Timer.JOIN, "", core.jitter(config.found_ns) if is_open else config.join_ns)
        linked = {link.peer.url: uid for uid, link in self._links.up.items()}
        for url in self._doors:
            if url in linked:
                self._ask(linked[url])
            else:
                self._links.open(url, None)

    def _ask(self, uid: str) -> None:
        """Ask a linked broker for members; one that no longer answers is called anew."""
        founding = self.founding
        if founding.on_ask(uid):
            self._links.close(uid, Closed.LOST)
        else:
            self._core.send(uid, PeersRequest(founding.names(uid), self.stance))

    def _ask_all(self) -> None:
        """We may found from now on: all that are linked are to know it before we do."""
        if self.phase is Phase.SEEKING:
            for uid in list(self._links.up):
                self._ask(uid)
            self._core.arm(Timer.JOIN, "", self._core.jitter(self._core.config.found_ns))

    def _start_again(self, reason: str) -> None:
        core, config = self._core, self._core.config
        self.phase = Phase.SEEKING
        self._neighbourhood.candidates.clear()
        pause = min(config.retry_ns << min(self._attempts, 16), config.retry_max_ns)
        retry = core.jitter(pause)
        self._attempts += 1
        core.disarm(Timer.MEASURE)
        core.arm(Timer.JOIN, "", retry)
        core.notify(JoinDelayed(reason, retry))

    def _ping(self, uid: str) -> None:
        candidate = self._candidates[uid]
        candidate.pings += 1
        candidate.sent_at = self._core.now
        self._core.send(uid, Ping(candidate.pings))

    def _decide_if_measured(self) -> None:
        if self.phase is Phase.MEASURING and all(
            candidate.round_trip_ns is not None and candidate.pings >= PINGS
            for candidate in self._candidates.values()
        ):
            self.on_measured()
