"""Which faults met which phases of the protocol: so that a quiet green run is no evidence.

A *phase* is something that brokers are in the middle of: from a suspicion to its verdict, from a
confirmed death to the next calm, from a lost place to a new one. A fault that strikes while nobody
is in the middle of anything meets the phase ``calm``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from enum import StrEnum

from overlay.machine import Fact
from ring.facts import (
    ChordLost,
    ChordRepaired,
    Confirmed,
    Joined,
    LinkFailed,
    Refuted,
    Rejoining,
    Suspected,
)
from sims.scenarios.deeds import Deed


class Phase(StrEnum):
    """What the ring is in the middle of."""

    CALM = "calm"
    JOIN = "join"  #: a newcomer was started, and is not on the ring yet
    SUSPICION = "suspicion"  #: somebody is suspected, and there is no verdict
    CHORDS = "chord repair"  #: a chord was lost, and not replaced
    REJOIN = "rejoin"  #: a broker was held for dead, and is on its way back


class Phases:
    """Counts, for each kind of deed, what the ring was in the middle of."""

    def __init__(self) -> None:
        self._open: Counter[Phase] = Counter()
        self._met: defaultdict[Deed, Counter[Phase]] = defaultdict(Counter)

    def hear(self, fact: Fact) -> None:
        """Take what a broker says."""
        match fact:
            case Suspected():
                self._open[Phase.SUSPICION] += 1
            case Confirmed() | Refuted() | LinkFailed():
                self._close(Phase.SUSPICION)
            case ChordLost():
                self._open[Phase.CHORDS] += 1
            case ChordRepaired():
                self._close(Phase.CHORDS)
            case Rejoining():
                self._open[Phase.REJOIN] += 1
            case Joined():
                self._close(Phase.REJOIN if self._open[Phase.REJOIN] else Phase.JOIN)
            case _:
                pass

    def done(self, what: Deed) -> None:
        """Something was done to the ring."""
        now = [phase for phase, count in self._open.items() if count] or [Phase.CALM]
        self._met[what].update(now)
        if what in (Deed.JOIN, Deed.RESTART):
            self._open[Phase.JOIN] += 1

    def table(self) -> dict[str, dict[str, int]]:
        """Return what was met: kind of deed -> phase -> how often."""
        return {
            what.value: {phase.value: met[phase] for phase in Phase if met[phase]}
            for what, met in sorted(self._met.items())
        }

    def _close(self, phase: Phase) -> None:
        if self._open[phase]:
            self._open[phase] -= 1
