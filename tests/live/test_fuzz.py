"""Strangers at the ports of live brokers: the short form of ``python -m benchmarks.links.fuzz``."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.links import fuzz
from benchmarks.links.attacks import ATTACKS

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
