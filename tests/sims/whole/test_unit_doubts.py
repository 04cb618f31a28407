"""Units that change where the publisher does not see it: events come all the same."""

from __future__ import annotations

import pytest

from sims.stories.stories import Story
from sims.stories.unit_doubts import unit_doubts, unit_floods, unit_waits

#: The dearest stories that there are; the first says the least of them all.
STORIES = (unit_doubts, pytest.param(unit_floods, marks=pytest.mark.soak))
SOAKED = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(11, 20)]


@pytest.mark.parametrize("seed", [2, *SOAKED])
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_events_come_to_units_that_change_far_away(story: Story, seed: int) -> None:
    assert story(seed) == []


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10, 20))
def test_that_brokers_wait_is_said_on_while_units_form_anew(seed: int) -> None:
    """With seed 10 a cluster is split while brokers wait, and its halves have said nothing yet."""
    assert unit_waits(seed) == []
