"""A drill beside its twin: each phase's quantiles, and whether chance alone explains the gap.

A drill has few strikes, so its quantiles would differ from the simulator's even if both were drawn
from one distribution. How much is found out by drawing: as many values as the drill has are drawn
from the simulated ones, again and again, and the middle 95 % of the quantiles of these draws are
what is expected. By as much as the clocks may be off the range is made wider.

The simulator's brokers take no time to work, and real ones share processors. Where brokers wait
for no timer (a socket breaks, a test is answered), all that a live ring takes longer is such work:
up to a heartbeat. How much work it was is measured in these phases, and explains as much of
the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ges.drills.figures import MEASURED, QUANTILES, Measured, is_of_strike, measured, struck
from overlay.quantiles import quantile
from overlay.rng import rng_for
from overlay.trace_schema import Deed, Incident, Lasted, quantile_of

DRAWS = 1000
UNTIMED = 0.25  #: of a heartbeat: what the simulator does sooner has waited for no timer
MIDDLE = 0.95


@dataclass(frozen=True, slots=True)
class Phase:
    """How long one phase lasted, of so many strikes."""

    values: Sequence[Lasted]
    strikes: int

    @property
    def seen(self) -> int:
        """How often its end was seen."""
        return sum(value.is_over for value in self.values)


class Side:
    """What a drill, or its twin, did and showed."""

    def __init__(self, deeds: Sequence[Deed], incidents: Sequence[Incident]) -> None:
        self.measured: Measured = measured(deeds, incidents)
        self._struck = struck(deeds)

    def of(self, kind: str, phase: str) -> Phase:
        """Return one phase after one kind of strike."""
        return Phase(self.measured.get((kind, phase), ()), self._struck[kind])


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One quantile of one phase; times are seconds, None where they are not reached."""

    kind: str  #: of the strike: kill, pause or cut
    phase: str
    quantile: str
    live: float | None
    simulated: float | None
    ratio: float | None  #: live to simulated; None: one is not reached, or the simulated one is 0
    seen: int  #: live values
    struck: int  #: live strikes: of some there is no such value, as nobody noticed, say
    played: int  #: simulated values
    plays: int  #: simulated strikes
    low: float | None  #: of what is expected of as many live values
    high: float | None
    work_s: float = 0.0  #: that a live ring may take longer, as its brokers have to work

    @property
    def verdict(self) -> str:
        """Say in a word how the live ring compares; ``work``: that alone explains it."""
        live, low, high = (_or_never(value) for value in (self.live, self.low, self.high))
        if live < low:
            return "faster"
        if live <= high:
            return "as expected"
        return "work" if live <= high + self.work_s else "slower"


def compare(
    live: Side, simulated: Side, clocks_s: float, seed: int = 1, *, beat_s: float = 0.4
) -> list[Compared]:
    """Compare all phases that both sides have; ``beat_s``: between two heartbeats."""
    found: list[Compared] = []
    for kind, phases in MEASURED.items():
        for phase in phases:
            here, there = live.of(kind, phase), simulated.of(kind, phase)
            if here.seen and there.seen:
                # A phase between two things that brokers saw has nothing of the drill's clock, but
                # two brokers' clocks may differ as well.
                slack = clocks_s if is_of_strike(phase) else 2 * clocks_s
                found += _of_phase(kind.value, phase, here, there, slack, seed)
    work_s = _work_s(found, beat_s)
    return [msgspec.structs.replace(each, work_s=work_s) for each in found]


def _work_s(compared: Sequence[Compared], beat_s: float) -> float:
    """Return by how much a live ring takes longer where nobody waits for a timer."""
    more = [
        _or_never(each.live) - each.simulated
        for each in compared
        if each.simulated is not None and each.simulated < UNTIMED * beat_s
    ]
    return min(beat_s, max(0.0, *more)) if more else 0.0


def missing(live: Side, simulated: Side) -> list[str]:
    """Name the phases that one side has not seen at all."""
    found = []
    for kind, phases in MEASURED.items():
        for phase in phases:
            here, there = (bool(side.of(kind, phase).seen) for side in (live, simulated))
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
    drawn = [rng.choices(simulated.values, k=len(live.values)) for _ in range(DRAWS)]
    found = []
    for name, q in QUANTILES.items():
        spread = [quantile_of(each, q) for each in drawn]
        here, there = quantile_of(live.values, q), quantile_of(simulated.values, q)
        found.append(
            Compared(
                kind=kind,
                phase=phase,
                quantile=name,
                live=_or_none(here),
                simulated=_or_none(there),
                ratio=_or_none(here / there) if there and math.isfinite(there) else None,
                seen=live.seen,
                struck=live.strikes,
                played=simulated.seen,
                plays=simulated.strikes,
                low=_or_none(quantile(spread, (1 - MIDDLE) / 2) - slack_s),
                high=_or_none(quantile(spread, (1 + MIDDLE) / 2) + slack_s),
            )
        )
    return found


def _or_none(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None


def _or_never(seconds: float | None) -> float:
    return math.inf if seconds is None else seconds
