"""One broker's membership and office: the test says what it sees of the ring."""

from __future__ import annotations

import msgspec
import pytest

from ges.telling.arcs import WHOLE
from ges.telling.changes import Changes
from ges.telling.shared import PULL_NS, Asking, Sharing, pack_rows
from ges.units.membership import GRACE_NS, MAX_HOPS, REPORT_NS, Membership
from ges.units.steward import BATCH_NS, MAX_WANTED, PATIENCE_NS, Steward
from ges.units.table import TAKEOVER_EPOCHS, ClusterTable, version_of
from ges.units.whole_tables import ComparedTable, WholeTables
from ges.wire.telling_messages import Held, HeldRow, Kind, RowsWanted, Told
from ges.wire.unit_messages import (
    MemberChange,
    MemberLost,
    MemberRow,
    MemberTable,
    SlotWanted,
    StewardHandover,
)
from overlay.ids import Peer
from overlay.machine import Effect, Message, Send
from overlay.wire.frames import PROTOCOL_VERSION
from ring.wire.messages import Member


def member(number: int, incarnation: int = 1) -> Member:
    """Return the broker that stands at this ring id; its uid says it, too."""
    peer = Peer(f"{number:032x}", incarnation, f"chordal://{number}.test:1")
    return Member(peer, number)


def row(slot: int, number: int) -> MemberRow:
    return MemberRow(slot, member(number), PROTOCOL_VERSION)


def sent(effects: list[Effect]) -> list[tuple[int, Message]]:
    return [(int(e.uid, 16), e.message) for e in effects if isinstance(e, Send)]


def kinds(effects: list[Effect]) -> list[tuple[int, type[Message]]]:
    return [(number, type(message)) for number, message in sent(effects)]


class Broker:
    """A broker at ring id 50 whose neighbours are 40 and 60, and which is linked to 10 as well."""

    def __init__(self, *linked: int, left: int | None = 40, right: int | None = 60) -> None:
        self.member: Member | None = member(50)
        self.peer = member(50).peer
        self.left = None if left is None else member(left)
        self.right = None if right is None else member(right)
        around = [n for n in (left, right) if n is not None]
        self.linked = {member(n).uid: n for n in linked or (10, *around)}
        self.gone: set[str] = set()
        self.table = ClusterTable(Changes())
        sharing = Sharing(self, lambda: WHOLE)
        self.asking = Asking(Kind.TABLES, WholeTables(self.tables))
        self.steward = Steward(self, self.table, sharing.spread)
        told = sharing.spread, sharing.comparison, self.asking.on_differs
        self.membership = Membership(self, self.table, self.steward, *told)
        sharing.comparison.register(Kind.MEMBERS, ComparedTable(self.table, self.asking))

    @property
    def live(self) -> dict[str, MemberRow]:
        return dict(self.table.live)

    def tables(self) -> list[MemberTable]:
        return [] if self.table.table is None else [self.table.table]

    def note_there(self, uid: str) -> None:
        self.gone.discard(uid)

    def hold(self, epoch: int, steward: int, *rows: MemberRow) -> MemberTable:
        table = MemberTable(epoch, member(steward).uid, rows)
        self.table.put(table, 0)
        return table

    def follow(self, now: int) -> list[Effect]:
        return [*self.steward.follow(now), *self.membership.follow(now)]


OWN = row(3, 50)


def first(*rows: MemberRow) -> Broker:
    """Return a broker that stands first, where 40 was the steward."""
    broker = Broker(60, 90, left=90)
    broker.hold(7, 40, *(rows or (OWN,)))
    return broker


def change_of(effects: list[Effect]) -> MemberChange:
    told = next(message for _, message in sent(effects) if isinstance(message, Told))
    return msgspec.msgpack.decode(told.content, type=MemberChange)


# Office


def test_who_stands_first_waits_for_the_table_and_then_takes_over() -> None:
    broker = first()
    assert broker.steward.follow(0) == []
    assert broker.steward.next_deadline() == PATIENCE_NS
    assert broker.steward.follow(PATIENCE_NS - 1) == []
    change = change_of(broker.steward.follow(PATIENCE_NS))
    assert (change.epoch, change.steward) == (7 + TAKEOVER_EPOCHS, broker.peer.uid)
    assert broker.steward.is_in_office
    assert broker.steward.follow(PATIENCE_NS + 1) == []


def test_who_has_seen_the_steward_die_takes_over_at_once() -> None:
    broker = first()
    broker.gone.add(member(40).uid)
    assert change_of(broker.steward.follow(0)).epoch == 7 + TAKEOVER_EPOCHS


def test_a_table_that_is_handed_over_is_gone_on_with_in_the_next_epoch() -> None:
    broker = first()
    assert broker.table.table is not None
    handover = StewardHandover(broker.table.table)
    effects = broker.membership.on_handover(member(60).uid, handover, 0)
    assert change_of(effects).epoch == 8
    assert broker.steward.is_in_office


def test_a_table_handed_over_that_counts_less_is_not_taken() -> None:
    broker = first()
    older = StewardHandover(MemberTable(6, member(60).uid, ()))
    assert kinds(broker.membership.on_handover(member(60).uid, older, 0)) == [(60, Held)]
    assert not broker.steward.is_in_office


def test_a_steward_that_is_displaced_hands_over_once() -> None:
    broker = Broker()
    table = broker.hold(7, 50, OWN)
    assert sent(broker.steward.follow(0)) == [(10, StewardHandover(table))]
    assert broker.steward.follow(1) == []
    assert not broker.steward.is_in_office


def test_a_table_handed_over_goes_on_until_it_is_with_the_first() -> None:
    broker = Broker()
    handover = StewardHandover(broker.hold(7, 60, OWN))
    assert sent(broker.membership.on_handover(member(60).uid, handover, 0)) == [(10, handover)]
    assert not broker.steward.is_in_office


def test_a_new_steward_puts_those_that_linger_into_the_table() -> None:
    """The one that was cut off has a table without the others, and it counts more."""
    broker = first()
    broker.hold(7, 50, OWN, row(4, 70))
    alone = StewardHandover(MemberTable(71, member(60).uid, (row(5, 60),)))
    effects = broker.membership.on_handover(member(60).uid, alone, 0)
    assert {each.slot for each in change_of(effects).rows} == {OWN.slot, 4}
    assert broker.live.keys() == {member(n).uid for n in (50, 60, 70)}


def test_of_whom_a_table_says_that_it_lives_it_is_not_told_at_once_that_it_is_gone() -> None:
    broker = in_office()
    broker.gone.add(member(55).uid)
    broker.membership.on_members(
        member(40).uid, MemberTable(99, member(40).uid, (OWN, row(4, 55))), 0
    )
    assert not broker.gone
    assert broker.membership.follow(0) == []


def test_a_broker_that_is_alone_founds_the_table_with_slot_0() -> None:
    broker = Broker(left=None, right=None)
    broker.follow(0)
    assert broker.live == {broker.peer.uid: row(0, 50)}
    assert broker.steward.is_in_office


def in_office(*rows: MemberRow) -> Broker:
    broker = first()
    broker.hold(7, 50, *(rows or (OWN,)))
    return broker


def test_what_is_wanted_in_one_moment_is_granted_at_once() -> None:
    broker = in_office()
    for number in (70, 80):
        broker.membership.on_slot_wanted(SlotWanted(member(number), 1, 3, 0), 5)
    assert broker.steward.handle_timers(5 + BATCH_NS - 1) == []
    change = change_of(broker.steward.handle_timers(5 + BATCH_NS))
    assert change.epoch == 8
    assert [(each.slot, each.member.ring_id) for each in change.rows] == [(0, 70), (1, 80)]


def test_an_earlier_life_does_not_undo_a_later_one() -> None:
    later = MemberRow(4, member(70, incarnation=5), 1)
    broker = in_office(OWN, later)
    broker.membership.on_slot_wanted(SlotWanted(member(70, incarnation=4), 1, None, 0), 0)
    broker.membership.on_member_lost(MemberLost(member(70, incarnation=4), 0), 0)
    assert broker.steward.handle_timers(BATCH_NS) == []
    assert broker.live[later.uid] == later


def test_no_report_takes_the_slot_of_the_steward_or_of_one_that_stands_elsewhere() -> None:
    broker = in_office(OWN, row(4, 70))
    moved = msgspec.structs.replace(member(70), ring_id=71)
    for lost in (member(50), moved):
        broker.membership.on_member_lost(MemberLost(lost, 0), 0)
    assert broker.steward.handle_timers(BATCH_NS) == []
    broker.membership.on_member_lost(MemberLost(member(70), 0), 0)
    [resting] = change_of(broker.steward.handle_timers(2 * BATCH_NS)).rows
    assert (resting.slot, resting.resting) == (4, True)


def test_so_many_may_want_a_slot_at_once() -> None:
    broker = in_office()
    for number in range(100, 100 + MAX_WANTED + 5):
        broker.membership.on_slot_wanted(SlotWanted(member(number), 1, None, 0), 0)
    assert len(broker.steward._wanted) == MAX_WANTED


# Membership


def test_a_newcomer_pulls_the_table_and_asks_for_a_slot() -> None:
    broker = Broker()
    assert kinds(broker.follow(0)) == [(60, RowsWanted)]
    table = MemberTable(7, member(10).uid, (row(0, 10),))
    assert broker.membership.on_members(member(60).uid, table, 1) == []
    wanted = SlotWanted(member(50), PROTOCOL_VERSION, None, 1)
    assert sent(broker.follow(1)) == [(10, wanted)]
    assert broker.follow(2) == []


def test_who_asks_again_tries_another_way() -> None:
    broker = Broker()
    broker.hold(7, 10, row(0, 10))
    asked, now = [], 0
    for _ in range(4):
        asked += [n for n, kind in kinds(broker.follow(now)) if kind is SlotWanted]
        due = broker.membership.next_deadline()
        assert due is not None
        now = due
    assert asked == [10, 40, 10, 40]


def test_who_has_its_slot_asks_for_nothing_until_it_lives_another_life() -> None:
    broker = Broker()
    broker.hold(7, 10, row(0, 10), OWN)
    assert broker.follow(0) == []
    assert broker.membership.next_deadline() is None
    broker.member = member(50, incarnation=2)
    assert sent(broker.follow(1)) == [(10, SlotWanted(broker.member, PROTOCOL_VERSION, 3, 1))]


def test_who_adopts_a_table_in_place_of_another_tells_all_it_is_linked_to() -> None:
    broker = Broker()
    broker.hold(7, 10, row(0, 10), OWN)
    other = MemberTable(90, member(60).uid, (row(0, 60),))
    effects = broker.membership.on_members(member(60).uid, other, 0)
    assert sorted(kinds(effects)) == [(10, Held), (40, Held)]
    assert broker.table.table == other


def test_a_table_that_counts_less_is_answered_so_that_its_holder_asks() -> None:
    broker = Broker()
    table = broker.hold(7, 10, row(0, 10), OWN)
    older = MemberTable(6, member(10).uid, (row(0, 10),))
    assert kinds(broker.membership.on_members(member(60).uid, older, 0)) == [(60, Held)]
    assert broker.membership.on_members(member(60).uid, table, 0) == []
    wanted = RowsWanted(Kind.TABLES, (HeldRow("0.0-0", version_of(older)),))
    [rows] = pack_rows([(Kind.MEMBER_TABLE, table)])
    assert sent(broker.asking.on_wanted(member(60).uid, wanted, 0)) == [(60, rows)]
    newer = MemberTable(8, member(10).uid, (row(0, 10),))
    wanted = RowsWanted(Kind.TABLES, (HeldRow("0.0-0", version_of(newer)),))
    assert kinds(broker.asking.on_wanted(member(60).uid, wanted, 0)) == [(60, RowsWanted)]


def test_a_table_that_makes_no_sense_is_counted() -> None:
    broker = Broker()
    broken = MemberTable(9, member(10).uid, (row(0, 10), row(0, 20)))
    assert broker.membership.on_members(member(60).uid, broken, 0) == []
    assert broker.membership.counters["tables_malformed"] == 1
    assert broker.table.table is None


def test_a_change_of_a_table_not_held_is_not_taken_and_the_table_pulled_but_not_all_the_time() -> (
    None
):
    broker = Broker()
    broker.hold(7, 10, row(0, 10), OWN)
    change = MemberChange(1, 2, 9, member(10).uid, ())
    taken, effects = broker.membership.on_change(change, member(40).uid, 0)
    assert (taken, kinds(effects)) == (False, [(40, RowsWanted)])
    assert broker.membership.on_change(change, member(40).uid, PULL_NS - 1) == (False, [])
    older = msgspec.structs.replace(change, epoch=6)
    assert broker.membership.on_change(older, member(40).uid, PULL_NS) == (True, [])


@pytest.mark.parametrize("place", [55, 50])
def test_who_stands_where_nobody_is_is_reported_after_a_moment_and_again(place: int) -> None:
    broker = Broker()
    lost = msgspec.structs.replace(member(99), ring_id=place)
    broker.hold(7, 10, row(0, 10), OWN, MemberRow(4, lost, 1), row(5, 61))
    assert broker.follow(0) == []
    assert broker.follow(GRACE_NS - 1) == []
    assert sent(broker.follow(GRACE_NS)) == [(10, MemberLost(lost, 1))]
    assert broker.follow(GRACE_NS + 1) == []
    assert sent(broker.follow(GRACE_NS + REPORT_NS)) == [(10, MemberLost(lost, 1))]
    broker.right = lost
    assert broker.follow(GRACE_NS + 2 * REPORT_NS) == [] or place == 50


def test_who_was_seen_to_die_is_reported_at_once_and_once() -> None:
    broker = Broker()
    broker.hold(7, 10, row(0, 10), OWN, row(4, 55))
    broker.gone.add(member(55).uid)
    assert sent(broker.follow(0)) == [(10, MemberLost(member(55), 1))]
    assert broker.follow(1) == []


def test_what_is_for_the_steward_goes_to_smaller_ids_alone_and_not_for_ever() -> None:
    broker = Broker()
    broker.hold(7, 10, row(0, 10), OWN)
    wanted = SlotWanted(member(70), 1, None, 5)
    [(onward, message)] = sent(broker.membership.on_slot_wanted(wanted, 0))
    assert (onward, message) == (10, msgspec.structs.replace(wanted, hops=6))
    tired = msgspec.structs.replace(wanted, hops=MAX_HOPS)
    assert broker.membership.on_slot_wanted(tired, 0) == []
    assert first().membership.on_slot_wanted(wanted, 0) == [], "first, but not in office"
