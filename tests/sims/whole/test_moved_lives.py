"""A broker that was away for a moment is back at another place, and the ring is ideal soon."""

from __future__ import annotations

import pytest

from sims.scenarios.lives import moved_lives
from tests.mutants import MUTANTS


@pytest.mark.parametrize("seed", [1, 2])
def test_a_life_that_got_another_place_is_there_soon(seed: int) -> None:
    assert moved_lives(seed) == []


def test_an_answer_that_goes_to_the_old_life_is_noticed() -> None:
    [mutant] = [mutant for mutant in MUTANTS if mutant.name == "tells-the-old-life"]
    with mutant.applied():
        found = moved_lives(1)
    assert "a new life found no place within a step of its join" in found
    assert any(finding.endswith("is not on the ring") for finding in found), "after five seconds"
