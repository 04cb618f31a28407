"""Brokers that are off the ring for a moment, or gone: their clients miss nothing."""

from __future__ import annotations

import pytest

from sims.stories.absences import event_absences, event_tails, unit_absences, unit_extinctions
from sims.stories.stories import Story

STORIES = (event_absences, event_tails, unit_absences, unit_extinctions)
SOAKED = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 20)]


@pytest.mark.parametrize("seed", [2, *SOAKED])
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_what_clients_have_missed_comes(story: Story, seed: int) -> None:
    assert story(seed) == []


def test_who_waits_for_a_slot_can_ask_for_what_it_has_missed() -> None:
    """It has come to a cluster that is full: it has no address for 8 s, and asks by its place."""
    assert unit_absences(13) == []
