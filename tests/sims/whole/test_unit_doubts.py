"""Units that change where the publisher does not see it: events come all the same."""

from __future__ import annotations

import pytest

from sims.stories.stories import Story
from sims.stories.unit_doubts import unit_doubts, unit_waits

SOAKED = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(11, 20)]


@pytest.mark.parametrize("seed", [2, *SOAKED])
@pytest.mark.parametrize("story", [unit_doubts, unit_waits], ids=lambda story: story.__name__)
def test_in_doubt_events_come_to_all(story: Story, seed: int) -> None:
    assert story(seed) == []


def test_that_brokers_wait_is_said_on_while_units_form_anew() -> None:
    """Here a cluster is split while brokers wait, and its halves have stated nothing yet."""
    assert unit_waits(10) == []
