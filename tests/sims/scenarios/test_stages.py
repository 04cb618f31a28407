"""What both stages of a scenario say of the brokers on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from overlay.ids import nanos
from ring.config import LAN
from sims.scenarios.ring_stage import RingStage
from sims.scenarios.stage import Stage
from sims.scenarios.whole_stage import WholeStage
from sims.world.conditions import Conditions
from sims.world.network import DISTANCES
from sims.world.world import CrashMode


def ring() -> Stage:
    return RingStage(1, LAN, Conditions(DISTANCES["lan"], 1))


def whole() -> Stage:
    return WholeStage(1, LAN, Conditions(DISTANCES["lan"], 1), None, secure=False)


@pytest.mark.parametrize("build", [ring, whole])
def test_links_are_counted_between_those_that_live(build: Callable[[], Stage]) -> None:
    stage = build()
    stage.begin(9)
    stage.timeline.run(nanos(15))
    before = stage.link_counts()
    stage.crash(stage.alive[0], CrashMode.POWER)
    after = stage.link_counts()  # at once: nobody has noticed
    assert sum(before.values()) > sum(after.values()) > 0
    assert list(after) == stage.alive
    assert +Counter(after) == Counter(uid for ends in stage.links() for uid in ends)
