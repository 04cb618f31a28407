"""The same failures in virtual time, to lay beside those measured."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.campaigns.live.evidence import Times
from overlay.ids import NANOS_PER_SECOND
from sims.experiments.experiment import Experiment, run
from sims.world.world import CrashMode


def simulated(nodes: int, profile: str, mode: CrashMode, crashes: int, seed: int) -> list[Times]:
    """Return the times of at least ``crashes`` failures in simulated rings of ``nodes``.

    ``failed_ns`` is known there, and "repaired" is the moment when the pointers around are the
    right ones, as seen by one who knows; a live broker takes it for so when its neighbours'
    views agree, one message later.
    """
    found: list[Times] = []
    while len(found) < crashes:
        experiment = Experiment(
            nodes=nodes,
            seed=seed,
            crash_share=1 / nodes,  # one failure at a time, as in the soak
            crash_mode=mode,
            profile=profile,
        )
        for row in run(experiment).incidents:
            if row.failed_ns is not None:
                reached = (row.suspected_ns, row.confirmed_ns, row.repaired_ns)
                found.append(Times(*(_seconds(row.failed_ns, at) for at in reached)))
        seed += 1
    return found


def known(values: Sequence[float | None]) -> list[float]:
    """Return those that came to be."""
    return [value for value in values if value is not None]


def _seconds(start_ns: int, at_ns: int | None) -> float | None:
    return None if at_ns is None else (at_ns - start_ns) / NANOS_PER_SECOND
