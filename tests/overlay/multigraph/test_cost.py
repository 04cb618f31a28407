"""The cost of a link: what makes it dearer, and when a change counts."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from overlay.ids import NANOS_PER_SECOND, LinkClass, nanos
from overlay.multigraph.cost import CALM_NS, MAX_COST_NS, Steady, cost_ns
from overlay.multigraph.weights import LinkKey, Weights
from tests.helpers.strategies import structs

NORMAL, EXPRESS, SECURE = LinkClass.NORMAL, LinkClass.EXPRESS, LinkClass.SECURE
KEY: LinkKey = ("b" * 32, NORMAL)
HOP_NS = nanos(0.00005)  #: 50 us, as documented
MS = nanos(0.001)


def rtt(milliseconds: float) -> Weights:
    return Weights(nanos(milliseconds / 1000), 0)


def test_a_quiet_link_costs_half_its_round_trip_and_a_hop() -> None:
    assert cost_ns(NORMAL, rtt(10)) == 5 * MS + HOP_NS


def test_express_pays_for_variation_and_the_others_do_not() -> None:
    weights = Weights(10 * MS, MS)
    assert cost_ns(EXPRESS, weights) == 7 * MS + HOP_NS
    assert cost_ns(NORMAL, weights) == cost_ns(SECURE, weights) == 5 * MS + HOP_NS


def test_load_makes_dearer_up_to_four_times() -> None:
    assert cost_ns(NORMAL, Weights(10 * MS, 0, 1000, 500)) == 10 * MS + HOP_NS
    assert cost_ns(NORMAL, Weights(10 * MS, 0, 1000, 5000)) == 20 * MS + HOP_NS


def test_a_long_queue_counts_for_what_it_takes_to_drain() -> None:
    assert cost_ns(NORMAL, Weights(10 * MS, 0, 1000, 0, 40 * MS)) == 40 * MS + HOP_NS


def test_resets_make_dearer_and_secure_links_most() -> None:
    weights = Weights(10 * MS, 0, 0, 0, 0, 2000)
    assert cost_ns(NORMAL, weights) == 10 * MS + HOP_NS
    assert cost_ns(SECURE, weights) == 15 * MS + HOP_NS


@given(structs(Weights), st.sampled_from(LinkClass))
def test_whatever_a_stranger_says_a_cost_is_positive_and_bounded(
    weights: Weights, link_class: LinkClass
) -> None:
    assert 0 < cost_ns(link_class, weights) <= MAX_COST_NS


def test_the_first_measurement_counts_and_small_changes_do_not() -> None:
    steady = Steady()
    assert steady.get(KEY) is None
    assert steady.offer(KEY, rtt(10), 0)
    assert not steady.offer(KEY, rtt(12), 1)
    assert not steady.offer(KEY, rtt(8), 2)
    assert steady.get(KEY) == rtt(10)


def test_a_rise_counts_at_once_and_a_fall_when_it_has_lasted() -> None:
    steady = Steady()
    steady.offer(KEY, rtt(10), 0)
    assert steady.offer(KEY, rtt(20), 1)
    assert not steady.offer(KEY, rtt(10), 2)
    assert not steady.offer(KEY, rtt(10), 1 + CALM_NS)
    assert steady.offer(KEY, rtt(10), 2 + CALM_NS)
    assert steady.get(KEY) == rtt(10)


def test_a_fall_that_does_not_last_does_not_count() -> None:
    steady = Steady()
    steady.offer(KEY, rtt(20), 0)
    steady.offer(KEY, rtt(10), 1)
    steady.offer(KEY, rtt(20), 2)
    assert not steady.offer(KEY, rtt(10), 3 + CALM_NS)
    assert steady.get(KEY) == rtt(20)


def test_on_links_of_microseconds_a_ratio_is_not_enough() -> None:
    steady = Steady()
    steady.offer(KEY, rtt(0.1), 0)
    assert not steady.offer(KEY, rtt(0.3), 1)


@given(st.integers(), st.integers(min_value=1, max_value=200))
def test_noise_of_a_fifth_changes_nothing(seed: int, milliseconds: int) -> None:
    rng = random.Random(seed)
    steady = Steady()
    steady.offer(KEY, rtt(milliseconds), 0)
    for second in range(1, 300):
        noisy = rtt(milliseconds * rng.uniform(0.8, 1.2))
        assert not steady.offer(KEY, noisy, second * NANOS_PER_SECOND)


@given(st.lists(st.floats(min_value=0.1, max_value=1000), max_size=120))
def test_whatever_is_measured_falls_are_rare(milliseconds: list[float]) -> None:
    steady = Steady()
    shown = None
    falls = 0
    for second, value in enumerate(milliseconds):
        steady.offer(KEY, rtt(value), second * NANOS_PER_SECOND)
        weights = steady.get(KEY)
        assert weights is not None
        falls += shown is not None and weights.rtt_ns < shown
        shown = weights.rtt_ns
    assert falls <= len(milliseconds) * NANOS_PER_SECOND // CALM_NS


def test_a_link_that_is_gone_begins_anew() -> None:
    steady = Steady()
    steady.offer(KEY, rtt(10), 0)
    assert steady.drop(KEY)
    assert not steady.drop(KEY)
    assert steady.offer(KEY, rtt(1), 1)
