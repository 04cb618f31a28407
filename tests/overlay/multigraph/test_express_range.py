"""The express range: who is in, who is out, and how seldom that changes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.errors import ConfigError
from overlay.ids import NANOS_PER_SECOND, nanos
from overlay.multigraph.express_range import (
    DEMOTE_NS,
    PROMOTE_NS,
    WELL_INSIDE,
    ExpressRange,
    check_range,
    latency_ns,
)
from overlay.multigraph.weights import Weights

MS = nanos(0.001)


def latency(milliseconds: float) -> Weights:
    return Weights(round(2 * milliseconds * MS), 0)


def test_latency_is_half_the_round_trip_and_one_deviation() -> None:
    assert latency_ns(Weights(6 * MS, MS)) == 4 * MS


def test_the_first_measurement_decides_at_once() -> None:
    standing = ExpressRange(5 * MS)
    assert not standing.is_inside("b")
    assert standing.judge("b", latency(5), 0)
    assert not standing.judge("c", latency(5.1), 0)
    assert (standing.is_inside("b"), standing.is_inside("c")) == (True, False)
    assert (standing.demotions, standing.promotions) == (0, 0)


def test_a_link_is_demoted_when_it_has_been_outside_for_a_while() -> None:
    standing = ExpressRange(5 * MS)
    standing.judge("b", latency(1), 0)
    assert standing.judge("b", latency(6), 1)
    assert standing.judge("b", latency(6), DEMOTE_NS)
    assert not standing.judge("b", latency(6), DEMOTE_NS + 1)
    assert standing.demotions == 1


def test_one_slow_round_trip_does_not_demote() -> None:
    standing = ExpressRange(5 * MS)
    standing.judge("b", latency(1), 0)
    standing.judge("b", latency(50), 1)
    standing.judge("b", latency(1), 2)
    assert standing.judge("b", latency(50), DEMOTE_NS + 2)


def test_a_link_is_promoted_when_it_has_been_well_inside_for_longer() -> None:
    standing = ExpressRange(5 * MS)
    standing.judge("b", latency(9), 0)
    assert not standing.judge("b", latency(4.5), 1)
    assert not standing.judge("b", latency(4.5), 1 + PROMOTE_NS), "inside, but not well inside"
    assert not standing.judge("b", latency(3.9), 2 + PROMOTE_NS)
    assert not standing.judge("b", latency(3.9), 1 + 2 * PROMOTE_NS)
    assert standing.judge("b", latency(3.9), 2 + 2 * PROMOTE_NS)
    assert (standing.demotions, standing.promotions) == (0, 1)


@given(st.integers())
def test_a_latency_that_wanders_about_the_limit_changes_the_standing_once(seed: int) -> None:
    rng = random.Random(seed)
    standing = ExpressRange(5 * MS)
    standing.judge("b", latency(4), 0)
    for second in range(1, 400):
        wandering = 5 * rng.uniform(WELL_INSIDE + 0.01, 1.2)
        standing.judge("b", latency(wandering), second * NANOS_PER_SECOND)
    assert standing.demotions + standing.promotions <= 1


@given(st.lists(st.floats(min_value=0, max_value=20), max_size=300))
def test_whatever_is_measured_the_standing_seldom_changes(latencies: list[float]) -> None:
    standing = ExpressRange(5 * MS)
    half = NANOS_PER_SECOND // 2
    for number, value in enumerate(latencies):
        standing.judge("b", latency(value), number * half)
    changes = standing.demotions + standing.promotions
    assert changes <= 2 + 2 * len(latencies) * half // (DEMOTE_NS + PROMOTE_NS)


def test_without_a_range_nobody_is_inside() -> None:
    standing = ExpressRange(0)
    assert not standing.judge("b", Weights(1_000, 0), 0)


def test_a_link_that_is_gone_begins_anew() -> None:
    standing = ExpressRange(5 * MS)
    standing.judge("b", latency(9), 0)
    standing.forget("b")
    standing.forget("b")
    assert standing.judge("b", latency(4.9), 1)


@pytest.mark.parametrize("range_ns", [-1, nanos(10) + 1])
def test_a_range_that_makes_no_sense_is_refused(range_ns: int) -> None:
    with pytest.raises(ConfigError, match=r"an express range of .* ms: give 0"):
        check_range(range_ns)
