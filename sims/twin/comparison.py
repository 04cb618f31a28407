"""A drill beside its twin: each phase's quantiles, and whether chance alone explains the gap.

A drill has few strikes, so its quantiles would differ from the simulator's even if both were drawn
from one distribution. How much is found out by drawing: as many values as the drill has are drawn
from the simulated ones, again and again, and the middle 95 % of the quantiles of these draws are
what is expected. By as much as the clocks may be off the range is made wider.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ges.drills.figures import PHASES, QUANTILES, Measured, measured, quantile, struck
from overlay.rng import rng_for
from overlay.trace_schema import Deed, Incident

DRAWS = 1000
MIDDLE = 0.95


@dataclass(frozen=True, slots=True)
class Phase:
    """How long one phase took, in seconds, of so many strikes."""

    values: Sequence[float]
    strikes: int


class Side:
    """What a drill, or its twin, did and showed."""

    def __init__(self, deeds: Sequence[Deed], incidents: Sequence[Incident]) -> None:
        self.measured: Measured = measured(deeds, incidents)
        self._struck = struck(deeds)

    def of(self, kind: str, phase: str) -> Phase:
        """Return one phase after one kind of strike."""
        return Phase(self.measured.get((kind, phase), ()), self._struck[kind])


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One quantile of one phase; times are seconds."""

    kind: str  #: of the strike: kill, pause or cut
    phase: str
    quantile: str
    live: float
    simulated: float
    ratio: float | None  #: live to simulated; None: the simulated one is 0
    seen: int  #: live values
    struck: int  #: live strikes: of some there is no such value, as nobody noticed, say
    played: int  #: simulated values
    plays: int  #: simulated strikes
    low: float  #: of what is expected of as many live values
    high: float

    @property
    def verdict(self) -> str:
        """Say in a word how the live ring compares."""
        if self.live < self.low:
            return "faster"
        return "slower" if self.live > self.high else "as expected"


def compare(live: Side, simulated: Side, clocks_s: float, seed: int = 1) -> list[Compared]:
    """Compare all phases that both sides have."""
    found = []
    for kind, phases in PHASES.items():
        for phase, (start, _) in phases.items():
            here, there = live.of(kind, phase), simulated.of(kind, phase)
            if here.values and there.values:
                # A phase between two things that brokers saw has nothing of the drill's clock, but
                # two brokers' clocks may differ as well.
                slack = clocks_s if start == "began" else 2 * clocks_s
                found += _of_phase(kind.value, phase, here, there, slack, seed)
    return found


def missing(live: Side, simulated: Side) -> list[str]:
    """Name the phases that one side has not seen at all."""
    found = []
    for kind, phases in PHASES.items():
        for phase in phases:
            here, there = (bool(side.of(kind, phase).values) for side in (live, simulated))
            if here != there:
                found.append(f"{phase} after a {kind}: only {'live' if here else 'simulated'}")
    return found


def _of_phase(
    kind: str,
    phase: str,
    live: Phase,
    simulated: Phase,
    slack_s: float,
    seed: int,
) -> list[Compared]:
    rng = rng_for(seed, "twin", "draws", kind, phase)
    drawn = [sorted(rng.choices(simulated.values, k=len(live.values))) for _ in range(DRAWS)]
    found = []
    for name, q in QUANTILES.items():
        spread = sorted(quantile(each, q) for each in drawn)
        here, there = quantile(live.values, q), quantile(simulated.values, q)
        found.append(
            Compared(
                kind=kind,
                phase=phase,
                quantile=name,
                live=here,
                simulated=there,
                ratio=here / there if there else None,
                seen=len(live.values),
                struck=live.strikes,
                played=len(simulated.values),
                plays=simulated.strikes,
                low=quantile(spread, (1 - MIDDLE) / 2) - slack_s,
                high=quantile(spread, (1 + MIDDLE) / 2) + slack_s,
            )
        )
    return found
