"""Arithmetic on the circle of ring ids, against counting steps on it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ring.geometry import FIRST_ID, RING_SIZE, SECOND_ID, between, clockwise, distance, gap, midway

IDS = st.one_of(st.integers(0, RING_SIZE - 1), st.integers(0, 3), st.just(RING_SIZE - 1))


def test_the_first_two_ids_are_the_published_ones() -> None:
    """Paper 004, section 3.2."""
    assert (FIRST_ID, SECOND_ID, RING_SIZE) == (0, 65535, 4294967296)


@given(IDS, IDS)
def test_there_and_back_is_once_round(a: int, b: int) -> None:
    assert (a + clockwise(a, b)) % RING_SIZE == b
    assert clockwise(a, b) + clockwise(b, a) == (0 if a == b else RING_SIZE)
    assert gap(a, b) == (clockwise(a, b) or RING_SIZE)


@given(IDS, IDS)
def test_a_distance_is_the_shorter_way_round(a: int, b: int) -> None:
    assert b in ((a + distance(a, b)) % RING_SIZE, (a - distance(a, b)) % RING_SIZE)
    assert 0 <= distance(a, b) == distance(b, a) <= RING_SIZE // 2


@given(IDS, IDS)
def test_midway_halves_the_gap(a: int, b: int) -> None:
    middle = midway(a, b)
    if gap(a, b) == 1:
        assert middle == a
    else:
        assert between(a, middle, b)
        assert clockwise(a, middle) == gap(a, b) // 2


@given(IDS, IDS, IDS)
def test_between_means_met_on_the_way_right(a: int, x: int, b: int) -> None:
    on_the_way = x not in (a, b) and (a == b or clockwise(a, x) + clockwise(x, b) < RING_SIZE)
    assert between(a, x, b) == (on_the_way and clockwise(a, x) < gap(a, b))
    if len({a, x, b}) == 3:
        assert between(a, x, b) != between(b, x, a)
