"""The same failures in virtual time, to lay beside those measured."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.campaigns.live.evidence import Times
from overlay.ids import NANOS_PER_SECOND
from sims.scenarios import library
from sims.scenarios.files import parse
from sims.scenarios.play import play
from sims.world.world import CrashMode


def simulated(nodes: int, profile: str, mode: CrashMode, crashes: int, seed: int) -> list[Times]:
    """Return the times of at least ``crashes`` failures in simulated rings of ``nodes``.

    ``failed_ns`` is known there, and "repaired" is the moment when the pointers around are the
    right ones, as seen by one who knows; a live broker takes it for so when its neighbours'
    views agree, one message later.
    """
    one_at_a_time = ["faults.0.count=1", f"faults.0.mode={mode}"]  # as in the soak
    changes = [f"nodes={nodes}", f"profile={profile}", *one_at_a_time]
    scenario = parse(library.find("crash"), changes)
    found: list[Times] = []
    while len(found) < crashes:
        for row in play("crash", scenario, seed).result.incidents:
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
