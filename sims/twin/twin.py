"""Plays in the simulator what a drill has done to a live ring.

Each step of the drill is played by itself, with many seeds: a ring of the same size and profile,
warm, whose links take as long as the brokers had measured, is struck in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from overlay.ids import nanos
from overlay.rng import rng_for
from overlay.trace_schema import Deed, Incident
from sims.scenarios.deeds import Deed as Deeds
from sims.scenarios.inputs import Inputs
from sims.scenarios.play import Outcome, play
from sims.scenarios.results import RunResult
from sims.scenarios.schema import Crash, CutLinks, Fault, Network, Pause, Scenario
from sims.twin.drills import Conditions, Drills
from sims.world.network import DISTANCES
from sims.world.world import CrashMode

NAME = "drill-twin"
AT_S = 1.0  #: when it is struck
AFTER_S = 3.0  #: that it goes on for when all that was done has ended
REGIONS = 8  #: places that links of different lengths lie between
MATRIX = "latencies.csv"

_KINDS = {Deeds.CRASH: "kill", Deeds.PAUSE: "pause", Deeds.CUT: "cut"}


@dataclass(frozen=True, slots=True)
class Twin:
    """What the simulator showed, as a drill would have written it."""

    plays: int
    deeds: tuple[Deed, ...]
    incidents: tuple[Incident, ...]
    broken: tuple[str, ...]  #: promises that did not hold


def play_like(
    drills: Drills,
    plays: int,
    seed: int,
    *,
    told: Callable[[int, int], None] = lambda done, of: None,
    kept: Callable[[RunResult], None] = lambda result: None,
) -> Twin:
    """Play each of the drill's conditions ``plays`` times.

    ``told`` is handed how many plays are done, and of how many; ``kept`` the rows of each.
    """
    deeds: list[Deed] = []
    incidents: list[Incident] = []
    broken: list[str] = []
    of, done = plays * len(drills.conditions), 0
    inputs = Inputs(Path(), {MATRIX: latencies(drills, seed).encode()})
    for conditions in sorted(drills.conditions, key=str):
        scenario = scenario_of(conditions)
        for number in range(seed, seed + plays):
            outcome = play(NAME, scenario, number, inputs=inputs)
            kept(outcome.result)
            deeds += _deeds(outcome)
            incidents += outcome.result.incidents
            broken += outcome.broken
            done += 1
            told(done, of)
    return Twin(of, tuple(deeds), tuple(incidents), tuple(broken))


def scenario_of(conditions: Conditions) -> Scenario:
    """Return the scenario that does to a ring what one step of the drill did."""
    lasting = {"pause": conditions.pause_s, "cut": conditions.cut_s}
    longest = max((lasting.get(kind, 0.0) for kind, _ in conditions.together), default=0.0)
    return Scenario(
        about="what a drill did to a live ring",
        nodes=conditions.n,
        profile=conditions.profile,
        seconds=AT_S + longest + AFTER_S,
        network=Network(matrix=MATRIX),
        faults=tuple(_faults(conditions)),
    )


def latencies(drills: Drills, seed: int) -> str:
    """Return one-way times between regions as CSV, drawn from what the brokers had measured.

    The simulator adds the base and the jitter of the profile, so the base is taken off.
    """
    rng = rng_for(seed, "twin", "latencies")
    base_ms = max(DISTANCES[run.profile].base_ns for run in drills.runs) / nanos(0.001)
    ways = [max(0.0, trip / 2 - base_ms) for trip in drills.rtt_ms] or [0.0]
    names = [f"r{at}" for at in range(REGIONS)]
    matrix = [[0.0] * REGIONS for _ in names]
    for here in range(REGIONS):
        for there in range(here, REGIONS):
            matrix[here][there] = matrix[there][here] = rng.choice(ways)
    return "\n".join([",".join(names), *(",".join(f"{w:.4f}" for w in row) for row in matrix), ""])


def _faults(conditions: Conditions) -> Iterator[Fault]:
    for kind, count in conditions.together:
        match kind:
            case "kill":
                yield Crash(count=count, mode=CrashMode.KILL, at_s=AT_S)
            case "pause":
                yield Pause(count=count, for_s=conditions.pause_s, at_s=AT_S)
            case _:
                yield CutLinks(count=count, mode="broken", for_s=conditions.cut_s, at_s=AT_S)


def _deeds(outcome: Outcome) -> Iterator[Deed]:
    run = outcome.result.run
    for number, done in enumerate(outcome.log, start=1):
        if done.what in _KINDS:
            yield Deed(
                run_id=run.run_id,
                round=1,
                step=number,
                kind=_KINDS[done.what],
                subject=done.whom[0],
                other=done.whom[1] if len(done.whom) > 1 else None,
                n=run.nodes or 0,
                began_ns=done.at_ns,
                ended_ns=None,
                uncertainty_ns=0,
                clocks_ns=0,
                rtt_ms=(),
            )
