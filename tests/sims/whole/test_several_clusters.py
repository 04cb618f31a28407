"""The stories of events, in overlays that have several clusters: nothing is lost either.

Events go to all brokers then, and clusters are split and folded while brokers die and are cut off.
"""

from __future__ import annotations

import pytest

from ges.units.planner import UnitsConfig
from sims.stories.events import (
    event_flaps,
    event_freezes,
    event_halves,
    event_isolations,
    event_kills,
    event_roams,
    event_topics,
)
from sims.stories.stories import Story
from sims.stories.unit_links import unit_secrets
from sims.stories.unit_promises import unit_active, unit_groups, unit_names, unit_realms
from sims.stories.units import unit_topics

STORIES = (
    event_flaps,
    event_freezes,
    event_halves,
    event_isolations,
    event_kills,
    event_roams,
    event_topics,
)


@pytest.fixture(autouse=True)
def _small_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let four brokers be a full cluster, where a story does not say how many are."""
    monkeypatch.setattr("ges.units.units_part.UnitsConfig", lambda: UnitsConfig(limit=4))


@pytest.mark.parametrize("story", [event_kills, event_halves], ids=lambda story: story.__name__)
def test_nothing_is_lost_without_a_reason(story: Story) -> None:
    assert story(2) == []


@pytest.mark.parametrize(
    "story",
    [unit_realms, unit_groups, unit_names, unit_active, unit_topics, unit_secrets],
    ids=lambda story: story.__name__,
)
def test_what_units_promise_to_clients_is_kept(story: Story) -> None:
    assert story(1) == []


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 50, 10))
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_nothing_is_lost_in_many_runs(story: Story, first: int) -> None:
    found = {seed: story(seed) for seed in range(first, first + 10)}
    assert {seed: findings for seed, findings in found.items() if findings} == {}
