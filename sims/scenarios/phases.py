"""Which faults met which phases of the protocol: so that a quiet green run is no evidence.

A *phase* is something that brokers are in the middle of: from a suspicion to its verdict, from a
confirmed death to pointers that are whole, from a start to a place on the ring. A fault that
strikes while nobody is in the middle of anything meets the phase ``calm``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from enum import StrEnum

from overlay.ids import Nanos, nanos
from overlay.machine import Fact
from ring.facts import (
    ChordLost,
    ChordRepaired,
    Confirmed,
    Detoured,
    DetourEnded,
    Joined,
    Left,
    LinkFailed,
    NeighboursChanged,
    Refuted,
    Rejoining,
    Repaired,
    Suspected,
)
from sims.scenarios.deeds import Deed

MERGE_NS = nanos(60)  #: after a partition has healed two rings become one for so long at most
STIR_NS = nanos(2)  #: they do so while neighbours have changed so lately


class Phase(StrEnum):
    """What the ring is in the middle of."""

    CALM = "calm"
    JOIN = "join"  #: a broker was started, and is not on the ring yet
    SUSPICION = "suspicion"  #: somebody is suspected, and there is no verdict
    REPAIR = "repair"  #: a death is confirmed, and pointers are not whole
    CHORDS = "chord repair"  #: a chord was lost, and not replaced
    DETOUR = "detour"  #: two brokers talk through others, as their link has failed
    REJOIN = "rejoin"  #: a broker was held for dead, and is on its way back
    LEAVE = "leave"  #: a broker has been asked to leave, and has not left
    PAUSE = "pause"  #: a broker stands still
    PARTITION = "partition"  #: the network is in several parts
    MERGE = "merge"  #: a partition has healed, and neighbours change


#: Of whom, and about whom.
_Who = tuple[str, str]


class Phases:
    """Counts, for each kind of deed, what the ring was in the middle of."""

    def __init__(self) -> None:
        self._open: dict[Phase, set[_Who]] = {phase: set() for phase in Phase}
        self._met: defaultdict[Deed, Counter[Phase]] = defaultdict(Counter)
        self._healed: Nanos | None = None
        self._stirred: Nanos = 0

    def hear(self, uid: str, fact: Fact | None, now: Nanos) -> None:
        """Take what a broker says; None: it was started."""
        match fact:
            case None:
                self._begin(Phase.JOIN, uid)
            case Suspected(subject):
                self._begin(Phase.SUSPICION, uid, subject.uid)
            case Confirmed(subject):
                self._end(Phase.SUSPICION, uid, subject.uid)
                self._begin(Phase.REPAIR, uid, subject.uid)
            case Refuted(subject) | LinkFailed(subject):
                self._end(Phase.SUSPICION, uid, subject.uid)
            case Repaired(subject):
                self._end(Phase.REPAIR, uid, subject.uid)
            case ChordLost(subject):
                self._begin(Phase.CHORDS, uid, subject)
            case ChordRepaired(subject):
                self._end(Phase.CHORDS, uid, subject)
            case Detoured(other):
                self._begin(Phase.DETOUR, uid, other)
            case DetourEnded(other):
                self._end(Phase.DETOUR, uid, other)
            case Rejoining():
                self._forget(uid)
                self._begin(Phase.REJOIN, uid)
            case Joined():
                self._end(Phase.JOIN, uid)
                self._end(Phase.REJOIN, uid)
            case Left():
                self._forget(uid)
            case NeighboursChanged() if self._healed is not None:
                self._stirred = now
            case _:
                pass

    def done(self, what: Deed, whom: Iterable[str], now: Nanos) -> None:
        """Something is done to the ring, to these brokers."""
        phases = [phase for phase, who in self._open.items() if who]
        if self._is_merging(now):
            phases.append(Phase.MERGE)
        self._met[what].update(phases or [Phase.CALM])
        match what:
            case Deed.CRASH | Deed.AMID_JOIN | Deed.AMID_REPAIR | Deed.AMID_MERGE:
                for uid in whom:
                    self._forget(uid)
            case Deed.LEAVE:
                for uid in whom:
                    self._begin(Phase.LEAVE, uid)
            case Deed.PAUSE:
                for uid in whom:
                    self._begin(Phase.PAUSE, uid)
            case Deed.PAUSE_ENDED:
                for uid in whom:
                    self._end(Phase.PAUSE, uid)
            case Deed.PARTITION:
                self._begin(Phase.PARTITION, "")
            case Deed.HEALED:
                self._end(Phase.PARTITION, "")
                self._healed = now
            case _:
                pass

    def table(self) -> dict[str, dict[str, int]]:
        """Return what was met: kind of deed -> phase -> how often."""
        return {
            what.value: {phase.value: met[phase] for phase in Phase if met[phase]}
            for what, met in sorted(self._met.items())
        }

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _begin(self, phase: Phase, uid: str, about: str = "") -> None:
        self._open[phase].add((uid, about))

    def _end(self, phase: Phase, uid: str, about: str = "") -> None:
        self._open[phase].discard((uid, about))

    def _forget(self, uid: str) -> None:
        """A broker is in the middle of nothing any more."""
        for who in self._open.values():
            who.difference_update([pair for pair in who if pair[0] == uid])

    def _is_merging(self, now: Nanos) -> bool:
        if self._healed is None or now > self._healed + MERGE_NS:
            return False
        return self._healed < self._stirred and now <= self._stirred + STIR_NS


def merged(tables: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """Return the sum of tables of many runs."""
    total: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for table in tables:
        for what, met in table.items():
            total[what].update(met)
    return {what: dict(met) for what, met in sorted(total.items())}
