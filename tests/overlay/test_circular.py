"""Numbers without an end."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from overlay.circular import HIGHEST, following, is_after, preceding
from overlay.ids import WireCount

NUMBERS = st.integers(1, HIGHEST) | st.sampled_from([1, 2, HIGHEST // 2, HIGHEST - 1, HIGHEST])


@given(NUMBERS | st.just(0))
def test_after_every_number_there_is_a_later_one_that_can_be_told(number: int) -> None:
    after = following(number)
    assert is_after(after, number)
    assert after > 0
    assert msgspec.convert(after, WireCount) == after


@given(NUMBERS)
def test_before_every_number_there_is_an_earlier_one(number: int) -> None:
    before = preceding(number)
    assert following(before) == number
    assert is_after(number, before)
    assert 0 < before <= HIGHEST


@given(NUMBERS, NUMBERS)
def test_of_two_that_differ_exactly_one_is_later(one: int, other: int) -> None:
    assert is_after(one, other) + is_after(other, one) == (one != other)


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_what_was_counted_from_the_beginning_is_in_order(one: int, other: int) -> None:
    assert is_after(one, other) == (one > other)
