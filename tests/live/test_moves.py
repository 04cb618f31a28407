"""A real broker stands still under traffic: its clients leave it in time, and miss nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from benchmarks.campaigns.moves import At, Fault, Round
from benchmarks.stage.forked import Stem
from benchmarks.stage.processes import fleet

EVERY_SECONDS = 0.002
MOVED_SECONDS = 2.5  #: on a machine that runs other tests as well


@pytest.mark.parametrize(
    "at", [pytest.param(at, marks=[pytest.mark.soak] * (at is not At.SUBSCRIBERS)) for at in At]
)
def test_clients_of_a_broker_that_stands_still_miss_nothing(
    tmp_path: Path, stem: Stem | None, at: At
) -> None:
    with fleet(tmp_path, stem) as found:
        victim, other, _ = found.ring_of(3, "--profile", "lan")
        outcome = trio.run(Round(victim, other, Fault.STOP, at, EVERY_SECONDS).run)
    assert outcome.moved_s
    assert max(outcome.moved_s) < MOVED_SECONDS
    assert (outcome.lost, outcome.disorder) == (0, 0)
