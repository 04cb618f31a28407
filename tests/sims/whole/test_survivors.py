"""Whatever befalls an overlay, brokers that live on in one part of it miss nothing."""

from __future__ import annotations

import pytest

from sims.stories.absences import unit_absences
from sims.stories.stories import Story
from sims.stories.survivors import event_survivors, unit_survivors
from tests.mutants import MUTANTS

STORIES = (event_survivors, unit_survivors)
FOUND = [
    # An arc of the ring had gone another way for a second, and nobody saw that.
    (unit_survivors, 6),
    # A registrar took an old address of a broker for its present one.
    (unit_survivors, 13),
    # A broker that saw that nobody stood there any more had the named client itself. Later:
    # a steward took back what a member wanted, whose profile it did not hold yet.
    (unit_survivors, 70),
    # An event went to and fro between the clusters of an old address and a new one.
    (unit_survivors, 84),
    # A cluster dropped events for a broker that had died, and told nobody.
    (unit_survivors, 77),
    # These five hold since arcs are a tree alone, and told tables are one mechanism.
    (event_survivors, 88),
    (event_survivors, 115),
    (event_survivors, 158),
    (unit_survivors, 21),
    (unit_survivors, 109),
    # Sources said of what was published while a broker was off the ring that it was not for it.
    (event_survivors, 187),
    # A broker that was back handed on events for a group that its earlier life had delivered.
    (event_survivors, 10),
]
#: Two or three members of a group got some events.
IN_CHANGE = [4, 7]
PER_RUN = 20  #: seeds
RUNS = range(1, 201, PER_RUN)


@pytest.mark.parametrize(("story", "seed"), [(event_survivors, 3)])
def test_survivors_in_one_part_miss_nothing(story: Story, seed: int) -> None:
    assert story(seed) == []


@pytest.mark.soak
@pytest.mark.parametrize(("story", "seed"), FOUND)
def test_what_was_lost_once_is_not_lost_again(story: Story, seed: int) -> None:
    assert story(seed) == []


@pytest.mark.soak
@pytest.mark.xfail(
    strict=False,
    reason="while units change, events go to all, and each cluster decides who serves a group",
)
@pytest.mark.parametrize("seed", IN_CHANGE)
def test_one_member_of_a_group_gets_an_event_while_clusters_change(seed: int) -> None:
    assert unit_survivors(seed, groups_in_change=True) == []


@pytest.mark.soak
@pytest.mark.parametrize("first", RUNS)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_survivors_miss_nothing_in_many_runs(story: Story, first: int) -> None:
    found = {seed: story(seed) for seed in range(first, first + PER_RUN)}
    assert {seed: findings for seed, findings in found.items() if findings} == {}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "story", "seed"),
    [
        ("arcs-as-before", unit_survivors, 6),
        ("slotless-do-not-ask", unit_absences, 13),
        ("back-as-before", event_survivors, 187),
        ("earlier-lives-hand-on", event_survivors, 10),
    ],
)
def test_a_broken_rule_is_noticed(name: str, story: Story, seed: int) -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    with mutant.applied():
        assert story(seed) != []
