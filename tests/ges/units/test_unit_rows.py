"""Whose arc is where: every place of a context lies in one unit, whatever becomes of the units."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ges.telling.arcs import WHOLE, Arc
from ges.units.unit_rows import (
    Rows,
    folded,
    free_number,
    is_sound,
    joined,
    split,
    tidied,
    unit_arcs,
    unit_at,
    within,
)
from ges.wire.unit_messages import UnitRow, UnitTable
from ring.geometry import RING_SIZE
from tests.helpers.examples import examples

ME = "a" * 32
PLACE = st.integers(0, RING_SIZE - 1)


def table(rows: Rows, arc: Arc = WHOLE, limit: int = 64) -> UnitTable:
    return UnitTable(1, 1, ME, rows, arc.lo, arc.hi, limit)


@st.composite
def contexts(draw: st.DrawFn) -> UnitTable:
    """Return the units of a context somewhere on the ring."""
    lo = draw(PLACE)
    size = draw(st.integers(1000, RING_SIZE))
    inner = draw(st.lists(st.integers(1, size - 1), max_size=10, unique=True))
    places = [(lo + at) % RING_SIZE for at in (0, *sorted(inner))]
    numbers = draw(st.permutations(range(12)))
    rows = tuple(UnitRow(number, at) for number, at in zip(numbers, places, strict=False))
    return table(rows, Arc(lo, (lo + size) % RING_SIZE))


@given(contexts(), PLACE)
def test_each_place_of_a_context_lies_in_one_unit(context: UnitTable, place: int) -> None:
    assert is_sound(context)
    holding = [row for row, arc in unit_arcs(context) if arc.holds(place)]
    found = unit_at(context, place)
    assert [found[0]] == holding if found is not None else holding == []


@given(contexts(), contexts())
def test_rows_of_any_context_make_sound_rows_of_another(one: UnitTable, other: UnitTable) -> None:
    arc = Arc(other.lo, other.hi)
    assert is_sound(table(within(one.rows, arc), arc))


@given(contexts(), st.integers(0, 999))
def test_a_part_of_a_context_keeps_the_units_of_each_place(context: UnitTable, seed: int) -> None:
    """What a context becomes after a split says the same of each place."""
    rng = random.Random(seed)
    row, inner = rng.choice(unit_arcs(context))
    part = Arc(row.lo, context.hi)
    if Arc(context.lo, context.hi) == part or not Arc(context.lo, context.hi).covers(part):
        return
    half = table(within(context.rows, part), part)
    found, before = unit_at(half, inner.lo), unit_at(context, inner.lo)
    assert found is not None
    assert before is not None
    assert found == before


@settings(max_examples=examples(200))
@given(contexts(), st.integers(0, 2**16))
def test_split_and_fold_leave_sound_rows_and_change_one_unit(context: UnitTable, seed: int) -> None:
    rng = random.Random(seed)
    row, arc = rng.choice(unit_arcs(context))
    room = (arc.hi - arc.lo) % RING_SIZE or RING_SIZE
    if room < 2:
        return
    at = (arc.lo + rng.randrange(1, room)) % RING_SIZE
    more = split(context.rows, row.lo, at, 64)
    assert more is not None
    here = Arc(context.lo, context.hi)
    assert is_sound(table(more, here))
    assert {each.number: each.lo for each in context.rows}.items() <= {
        each.number: each.lo for each in more
    }.items(), "all that there were keep their numbers, and begin where they did"
    assert folded(more, at) == context.rows


def test_a_context_that_is_full_has_no_number_for_one_more() -> None:
    rows = tuple(UnitRow(number, number * 10) for number in range(4))
    assert free_number(rows, 4) is None
    assert split(rows, 0, 5, 4) is None


def test_the_first_unit_is_folded_into_the_next() -> None:
    rows = (UnitRow(3, 100), UnitRow(5, 200), UnitRow(7, 300))
    assert folded(rows, 100) == (UnitRow(5, 100), UnitRow(7, 300))


def test_units_of_a_context_that_is_joined_keep_their_numbers_where_these_are_free() -> None:
    context, part = Arc(0, 1000), Arc(500, 1000)
    rows = (UnitRow(0, 0), UnitRow(1, 200))
    gone = (UnitRow(1, 500), UnitRow(2, 700))
    assert joined(rows, gone, part, context, 64) == (
        UnitRow(0, 0),
        UnitRow(1, 200),
        UnitRow(3, 500),
        UnitRow(2, 700),
    )


@given(contexts(), contexts(), st.integers(3, 64), st.floats(0, 0.9), st.floats(0.1, 1))
def test_whatever_part_is_joined_the_rows_are_sound(
    whole: UnitTable, other: UnitTable, limit: int, begin: float, share: float
) -> None:
    context = Arc(whole.lo, whole.hi)
    room = (context.hi - context.lo) % RING_SIZE or RING_SIZE
    start = int(begin * room)
    end = start + max(1, int(share * (room - start)))
    arc = Arc(*((context.lo + at) % RING_SIZE for at in (start, end)))
    rows = joined(whole.rows, within(other.rows, arc), arc, context, limit)
    assert is_sound(table(rows, context))


@pytest.mark.parametrize(
    "rows",
    [
        (UnitRow(0, 1),),
        (UnitRow(0, 0), UnitRow(0, 5)),
        (UnitRow(0, 0), UnitRow(1, 5), UnitRow(2, 5)),
        (UnitRow(0, 0), UnitRow(1, 9), UnitRow(2, 5)),
    ],
    ids=["begins-late", "number-twice", "place-twice", "out-of-order"],
)
def test_rows_that_leave_a_place_in_doubt_are_not_sound(rows: Rows) -> None:
    assert not is_sound(table(rows))


def test_a_name_that_two_units_have_is_that_of_the_first() -> None:
    rows = (UnitRow(0, 0, 1, "a"), UnitRow(1, 5), UnitRow(2, 9, 1, "b"), UnitRow(3, 12, 1, "a"))
    assert [row.name for row in tidied(rows, may_have_names=True)] == ["a", "", "b", ""]
    assert [row.name for row in tidied(rows, may_have_names=False)] == ["", "", "", ""]
    assert tidied(rows[:3], may_have_names=True) == rows[:3]
