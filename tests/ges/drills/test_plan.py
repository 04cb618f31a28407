"""What a drill strikes: as much as was asked for, never too much at once, nothing twice."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.drills.plan import Means, Plan, draw
from ges.errors import DrillRefused

COUNTS = st.integers(0, 4)


@given(COUNTS, COUNTS, COUNTS, st.integers(1, 3), st.integers(1, 5), st.integers())
def test_each_round_has_all_that_was_asked_for_and_no_step_has_too_much(
    kill: int, pause: int, cut: int, rounds: int, at_once: int, seed: int
) -> None:
    plan = Plan(kill=kill, pause=pause, cut=cut, rounds=rounds, at_once=at_once, seed=seed)
    steps = list(plan.steps())
    assert steps == list(plan.steps()), "the seed decides it"
    assert all(1 <= len(step) <= at_once for _, step in steps)
    done = Counter((number, means) for number, step in steps for means in step)
    wanted = {Means.KILL: kill, Means.PAUSE: pause, Means.CUT: cut}
    assert done == +Counter(
        {(at, means): n for at in range(1, rounds + 1) for means, n in wanted.items()}
    )
    assert plan.strikes == done.total()


@given(st.lists(st.sampled_from(Means), min_size=1, max_size=4), st.integers())
def test_no_broker_is_struck_twice_at_once_nor_a_link_of_one_that_is(
    step: list[Means], seed: int
) -> None:
    brokers = list("abcdefgh")
    links = list(combinations(brokers, 2))
    strikes = draw(step, random.Random(seed), brokers, links)
    assert sorted(each.means for each in strikes) == sorted(step)
    struck = [each.uid for each in strikes if each.means is not Means.CUT]
    cuts = [{each.uid, each.other} for each in strikes if each.means is Means.CUT]
    assert len(struck) == len(set(struck))
    assert all(len(cut) == 2 and not cut.intersection(struck) for cut in cuts)
    assert len({frozenset(cut) for cut in cuts}) == len(cuts)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ([Means.KILL] * 3, "3 of 3 brokers are to be struck at once"),
        ([Means.CUT] * 2, "2 links are to be cut, and 1 could be"),
        ([Means.KILL, Means.KILL, Means.CUT], "1 links are to be cut, and 0 could be"),
    ],
)
def test_what_cannot_be_drawn_is_refused(step: list[Means], why: str) -> None:
    with pytest.raises(DrillRefused, match=why):
        draw(step, random.Random(1), ["a", "b", "c"], [("a", "b")])
