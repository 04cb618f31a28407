"""Strangers at the ports of live brokers: ``python -m benchmarks.campaigns.fuzz`` in short."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.campaigns import fuzz
from benchmarks.campaigns.attacks import ATTACKS
from benchmarks.stage.processes import Broker

pytestmark = pytest.mark.live


async def test_strangers_disturb_nobody_and_leave_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    campaign = await fuzz.run(tmp_path, seed=1, long=False, tell=told.append)
    assert campaign.failures == [], told
    wanted = {name: few for name, (_, few, _) in ATTACKS.items()}
    assert {
        name: campaign.connections[name] >= few for name, few in wanted.items()
    } == dict.fromkeys(wanted, True), "the attacks took place"
    for kind in ("strangers_not_chordal", "strangers_too_slow", "protocol_errors"):
        assert campaign.counters[kind] > 0, f"{kind} are counted"


def test_a_process_that_may_open_too_few_files_does_not_start_a_broker(tmp_path: Path) -> None:
    broker = Broker(tmp_path, "poor", (), files=100)
    assert broker.ended() == 2
    assert broker.err == (
        "chordal: error: this process may open 100 files, and a broker needs 128; "
        "raise the limit (ulimit -n) [config]\n"
    )
