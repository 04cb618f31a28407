"""Python's collector while a world is simulated."""

from __future__ import annotations

import gc

import pytest

from sims.world.collecting import SELDOM, seldom_collected


def test_garbage_is_looked_for_as_before_afterwards() -> None:
    before = gc.get_threshold()
    with seldom_collected():
        assert gc.get_threshold() == SELDOM
    assert gc.get_threshold() == before
    with pytest.raises(ZeroDivisionError), seldom_collected():
        _ = 1 // 0
    assert gc.get_threshold() == before


def test_a_cycle_that_is_thrown_away_is_freed_all_the_same() -> None:
    class Ring:
        def __init__(self) -> None:
            self.itself = self

    with seldom_collected():
        for _ in range(3 * SELDOM[0]):
            Ring()
        left = sum(isinstance(each, Ring) for each in gc.get_objects())
    assert left <= 2 * SELDOM[0]
