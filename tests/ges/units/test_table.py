"""The table of members: which of two counts, and who gets which slot."""

from __future__ import annotations

from itertools import permutations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.telling.changes import Change, Changes
from ges.units.table import (
    LINGER_NS,
    REST_NS,
    TAKEOVER_EPOCHS,
    ClusterTable,
    advanced,
    digest_of,
    founded,
    is_sound,
)
from ges.wire.unit_messages import MAX_SLOTS, MemberChange, MemberRow, MemberTable, Waiting
from overlay.circular import HIGHEST
from overlay.ids import Peer
from ring.wire.messages import Member

A, B, C = "a" * 32, "b" * 32, "c" * 32


def member(uid: str, ring_id: int = 0) -> Member:
    return Member(Peer(uid, 1, f"chordal://{uid[:4]}.test:1"), ring_id)


def row(slot: int, uid: str, *, resting: bool = False) -> MemberRow:
    return MemberRow(slot, member(uid, slot), 1, resting)


def uid(number: int) -> str:
    return f"{number:032x}"


def full(resting: frozenset[int] = frozenset()) -> MemberTable:
    rows = (row(slot, uid(slot), resting=slot in resting) for slot in range(MAX_SLOTS))
    return MemberTable(1, A, tuple(rows))


def holding(table: MemberTable, now: int = 0, changes: Changes | None = None) -> ClusterTable:
    held = ClusterTable(changes or Changes())
    held.put(table, now)
    return held


TABLES = [
    MemberTable(7, C, ()),
    MemberTable(6, A, ()),
    MemberTable(6, B, (row(1, A),)),
    MemberTable(6, B, (row(2, A),)),
    MemberTable(5, A, (row(1, A),)),
]


def test_the_later_epoch_counts_then_the_smaller_steward_and_never_both() -> None:
    for one, other in permutations(TABLES, 2):
        assert holding(one).beats(other) is holding(other).loses(one)
        assert holding(one).beats(other) is not holding(one).loses(other)
    for later, earlier in ((0, 1), (1, 2), (1, 3), (2, 4), (3, 4)):
        assert holding(TABLES[later]).beats(TABLES[earlier])
    assert not holding(TABLES[0]).beats(TABLES[0])
    assert not holding(TABLES[0]).loses(TABLES[0])


def test_a_takeover_counts_more_than_what_the_steward_before_changed_meanwhile() -> None:
    straggler, heir = holding(founded(row(0, A))), holding(founded(row(0, A)))
    for slot in range(1, TAKEOVER_EPOCHS):
        straggler.put(
            straggler.changed([row(slot, uid(slot))], A, takes_over=False, waiting=Waiting.NOBODY),
            0,
        )
    heir.put(heir.changed([], B, takes_over=True, waiting=Waiting.NOBODY), 0)
    assert heir.table is not None
    assert straggler.loses(heir.table)


def test_epochs_have_no_end() -> None:
    last = holding(MemberTable(HIGHEST, A, ()))
    assert last.loses(MemberTable(advanced(HIGHEST, 1), C, ()))
    assert 1 <= advanced(HIGHEST - 3, TAKEOVER_EPOCHS) <= TAKEOVER_EPOCHS


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from((A, B, C)), st.booleans())))
def test_a_change_makes_the_same_table_everywhere(changes: list[tuple[int, str, bool]]) -> None:
    steward, other = holding(founded(row(0, A))), holding(founded(row(0, A)))
    for slot, who, resting in changes:
        rows = (row(slot, who, resting=resting),)
        base = steward.digest
        table = steward.changed(rows, A, takes_over=False, waiting=Waiting.NOBODY)
        steward.put(table, 0)
        change = MemberChange(base, steward.digest, table.epoch, A, rows)
        then = other.after(change)
        assert then == table
        assert is_sound(table)
        other.put(table, 0)
        assert other.after(change) is None, "it is for the table before"


def test_a_change_that_makes_another_table_than_it_says_is_not_believed() -> None:
    held = holding(founded(row(0, A)))
    table = held.changed([row(1, B)], A, takes_over=False, waiting=Waiting.NOBODY)
    right = MemberChange(held.digest, digest_of(table), table.epoch, A, (row(1, B),))
    assert held.after(right) == table
    assert held.after(msgspec.structs.replace(right, rows=(row(2, B),))) is None


@pytest.mark.parametrize(
    "rows", [(row(1, A), row(1, B)), (row(1, A), row(2, A)), (row(2, A), row(1, B))]
)
def test_a_slot_or_a_broker_twice_is_unsound(rows: tuple[MemberRow, ...]) -> None:
    assert not is_sound(MemberTable(1, A, rows))
    assert is_sound(MemberTable(1, A, rows[:1]))


def test_a_broker_keeps_its_slot_then_has_its_wish_then_the_lowest_free_one() -> None:
    held = holding(MemberTable(1, A, (row(0, A), row(3, B, resting=True))))
    assert held.free_slot(member(B), 9, 0) == 3
    assert held.free_slot(member(C), 9, 0) == 9
    assert held.free_slot(member(C), 3, 0) == 1
    assert held.free_slot(member(C), None, 0) == 1
    assert held.free_slot(member(C), None, 0, {1, 2}) == 4


def test_slots_of_the_dead_rest_and_the_one_at_rest_longest_goes_first() -> None:
    held = holding(full(frozenset({5})), 0)
    held.put(full(frozenset({5, 2})), 10)
    newcomer = member("f" * 32)
    assert held.free_slot(newcomer, 5, REST_NS - 1) is None
    assert held.free_slot(newcomer, None, REST_NS + 20) == 5
    assert held.free_slot(newcomer, None, REST_NS + 20, {5}) == 2
    assert held.free_slot(member(uid(2)), None, 20) == 2, "but its own it has at once"


def test_a_full_table_has_no_slot() -> None:
    held = holding(full())
    assert held.is_full
    assert held.free_slot(member("f" * 32), 5, 10 * REST_NS) is None


def test_who_is_not_in_a_table_that_has_won_keeps_its_slot_for_a_while() -> None:
    changes = Changes()
    news = changes.follow((Change.MEMBERS,))
    held = holding(MemberTable(1, A, (row(0, A), row(1, B))), changes=changes)
    held.put(MemberTable(70, C, (row(2, C),)), 1)
    assert {uid: each.slot for uid, each in held.live.items()} == {A: 0, B: 1, C: 2}
    assert held.granted(A) is None
    assert held.lingers_until() == 1 + LINGER_NS
    news.clear()
    held.end_lingering(LINGER_NS)
    assert not news
    held.end_lingering(1 + LINGER_NS)
    assert held.live.keys() == {C}
    assert news == {Change.MEMBERS}


def test_nobody_lingers_in_a_slot_that_somebody_else_has() -> None:
    held = holding(MemberTable(1, A, (row(0, A), row(1, B))))
    held.put(MemberTable(70, C, (row(1, C),)), 1)
    assert held.live.keys() == {A, C}
    assert held.free_slot(member(B), 0, 1) == 2, "0 is still of the one that lingers"
    assert held.free_slot(member(A), 0, 1) == 0


def test_who_leaves_by_a_change_or_is_seen_to_die_does_not_linger() -> None:
    held = holding(MemberTable(1, A, (row(0, A), row(1, B))))
    held.put(MemberTable(2, A, (row(0, A), row(1, B, resting=True))), 1, follows=True)
    assert held.live.keys() == {A}
    held.put(MemberTable(70, C, (row(2, C),)), 1)
    held.let_go(A)
    assert held.live.keys() == {C}
