"""Where the places of a unit come to lie when it moves."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ges.telling.arcs import Arc
from ges.units.relocated import Shift
from ges.units.table import arc_of
from ges.units.table import is_sound as is_members
from ges.units.unit_rows import is_sound, unit_arcs
from ges.wire.unit_messages import MemberRow, MemberTable, UnitRow, UnitTable
from overlay.ids import Peer
from ring.geometry import RING_SIZE
from ring.wire.messages import Member

PLACES = st.integers(0, RING_SIZE - 1)
WIDTHS = st.integers(2**18, 2**31)


@st.composite
def shifts(draw: st.DrawFn) -> Shift:
    lo, to_lo = draw(PLACES), draw(PLACES)
    before = Arc(lo, (lo + draw(WIDTHS)) % RING_SIZE)
    return Shift(before, Arc(to_lo, (to_lo + draw(WIDTHS)) % RING_SIZE))


def peer(number: int) -> Peer:
    return Peer(f"{number:032x}", 1, f"chordal://{number}.test:9470")


def test_the_example() -> None:
    shift = Shift(Arc(1000, 2000), Arc(9000, 9500))
    assert [shift.place(each) for each in (1000, 1200, 1600)] == [9000, 9100, 9300]
    assert shift.arc(Arc(1600, 2000)) == Arc(9300, 9500), "it ends where the unit ends"


@given(shifts(), st.lists(st.integers(0, 63), min_size=2, max_size=8, unique=True))
def test_units_keep_their_numbers_and_their_order(shift: Shift, eighths: list[int]) -> None:
    width = (shift.before.hi - shift.before.lo) % RING_SIZE
    places = [(shift.before.lo + width * at // 64) % RING_SIZE for at in sorted({0, *eighths})]
    rows = tuple(UnitRow(n, lo) for n, lo in enumerate(places))
    table = UnitTable(1, 5, "a" * 32, rows, shift.before.lo, shift.before.hi, 64)
    assert is_sound(table)
    moved = shift.units(table)
    assert is_sound(moved)
    assert arc_of(moved) == shift.after
    assert [row.number for row in moved.rows] == [row.number for row in table.rows]
    inside = {row.number: arc for row, arc in unit_arcs(table)}
    for row, arc in unit_arcs(moved):
        assert shift.arc(inside[row.number]) == arc, "the same for who knows that part alone"


@given(shifts(), st.lists(st.integers(0, 255), min_size=1, max_size=16, unique=True))
def test_members_keep_their_slots_and_rest_until_they_come(shift: Shift, parts: list[int]) -> None:
    width = (shift.before.hi - shift.before.lo) % RING_SIZE
    rows = tuple(
        MemberRow(slot, Member(peer(slot), (shift.before.lo + width * at // 256) % RING_SIZE), 2)
        for slot, at in enumerate(parts)
    )
    table = MemberTable(7, peer(0).uid, rows, lo=shift.before.lo, hi=shift.before.hi)
    moved = shift.members(table)
    assert is_members(moved)
    assert {row.uid: row.slot for row in moved.rows} == {row.uid: row.slot for row in rows}
    assert all(row.resting for row in moved.rows)
    assert all(shift.after.holds(row.member.ring_id) for row in moved.rows)
    order = sorted(rows, key=lambda row: shift.before.at(row.member.ring_id))
    after = {row.uid: shift.after.at(row.member.ring_id) for row in moved.rows}
    assert all(after[left.uid] < after[right.uid] for left, right in pairwise(order))


def test_who_stands_outside_of_the_cluster_has_no_slot_there() -> None:
    rows = tuple(MemberRow(n, Member(peer(n), at), 2) for n, at in enumerate((1100, 5000)))
    table = MemberTable(1, peer(0).uid, rows, lo=1000, hi=2000)
    moved = Shift(Arc(1000, 2000), Arc(9000, 9500)).members(table)
    assert [row.slot for row in moved.rows] == [0]
