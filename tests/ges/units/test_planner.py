"""The steward of a context: the test says what units report, and looks at the table."""

from __future__ import annotations

import pytest

from ges.telling.arcs import Arc
from ges.telling.changes import Changes
from ges.telling.spread import Spread
from ges.units.office import PATIENCE_NS
from ges.units.planner import (
    FRESH_NS,
    HEARD_NS,
    PAUSE_NS,
    URGENT_NS,
    Planner,
    UnitsConfig,
)
from ges.units.table import TAKEOVER_EPOCHS
from ges.units.units_held import UnitsHeld
from ges.wire.unit_messages import MemberRow, UnitHandover, UnitReport, UnitRow, UnitTable
from overlay.ids import Peer, nanos
from overlay.machine import Effect, Message, Send
from ring.wire.messages import Member

LATER = PAUSE_NS + nanos(1)


def member(number: int) -> Member:
    peer = Peer(f"{number:032x}", 1, f"chordal://{number}.test:1")
    return Member(peer, number)


def sent(effects: list[Effect]) -> list[tuple[int, Message]]:
    return [(int(e.uid, 16), e.message) for e in effects if isinstance(e, Send)]


class Broker:
    """A broker at place 50 that stands first, in a context that is the whole ring."""

    def __init__(self, limit: int = 8, left: int = 900) -> None:
        self.member: Member | None = member(50)
        self.peer = member(50).peer
        self.left: Member | None = member(left)
        self.right: Member | None = member(60)
        self.linked = {member(n).uid: n for n in {60, 900, left}}
        self.gone: set[str] = set()
        self.live: dict[str, MemberRow] = {}
        self.held = UnitsHeld(3, Changes())
        self.spread = Spread(self)
        self.planner = Planner(self, self.held, self.spread, UnitsConfig(limit))
        self.planner.found(0)

    @property
    def rows(self) -> list[tuple[int, int]]:
        assert self.held.table is not None
        return [(row.number, row.lo) for row in self.held.table.rows]

    @property
    def epoch(self) -> int:
        assert self.held.table is not None
        return self.held.table.epoch

    def report(
        self,
        lo: int,
        hi: int,
        size: int,
        now: int,
        split_at: int | None = None,
        *,
        urgent: bool = False,
        edges: tuple[int, int] | None = None,
    ) -> list[Effect]:
        second, last = edges or (None, None)
        report = UnitReport(3, lo, hi, size, split_at, urgent, 0, second, last)
        return self.planner.on_report(report, now)

    def hold(self, *rows: tuple[int, int], epoch: int = 5, by: int = 50) -> None:
        made = tuple(UnitRow(number, lo) for number, lo in rows)
        self.held.put(UnitTable(3, epoch, member(by).uid, made, 0, 0, self.planner.limit))


def test_a_unit_is_split_where_it_says_and_the_left_half_keeps_the_number() -> None:
    broker = Broker()
    effects = broker.report(0, 0, 7, LATER, split_at=400)
    assert broker.rows == [(0, 0), (1, 400)]
    assert sent(effects), "all are told"
    assert broker.epoch == 2
    broker.report(0, 400, 7, 2 * LATER, split_at=200)
    assert broker.rows == [(0, 0), (2, 200), (1, 400)]


def test_a_report_of_an_arc_of_before_a_change_counts_for_nothing() -> None:
    broker = Broker()
    broker.hold((0, 0), (1, 400))
    broker.report(0, 0, 7, LATER, split_at=600)
    broker.report(300, 400, 7, LATER, split_at=350)
    assert broker.rows == [(0, 0), (1, 400)]


@pytest.mark.parametrize("place", [0, 400, 700])
def test_a_unit_is_not_split_outside_of_its_arc_or_where_it_begins(place: int) -> None:
    broker = Broker()
    broker.hold((0, 0), (1, 400))
    broker.report(0, 400, 7, LATER, split_at=place)
    assert broker.rows == [(0, 0), (1, 400)]


def test_between_two_splits_of_a_unit_is_a_pause_but_who_waits_waits_less() -> None:
    broker = Broker()
    broker.report(0, 0, 7, LATER, split_at=400)
    broker.report(0, 400, 7, LATER + PAUSE_NS - 1, split_at=200)
    broker.report(0, 400, 9, LATER + URGENT_NS - 1, split_at=200, urgent=True)
    assert broker.rows == [(0, 0), (1, 400)]
    broker.report(0, 400, 9, LATER + URGENT_NS, split_at=200, urgent=True)
    assert broker.rows == [(0, 0), (2, 200), (1, 400)]


def test_two_small_neighbours_are_folded_after_a_pause() -> None:
    broker = Broker()
    broker.report(0, 0, 7, 0, split_at=400)
    broker.report(0, 400, 2, PAUSE_NS - 1)
    broker.report(400, 0, 3, PAUSE_NS - 1)
    assert broker.rows == [(0, 0), (1, 400)]
    broker.report(400, 0, 4, PAUSE_NS)
    assert len(broker.rows) == 2, "6 is more than 5/8 of 8"
    broker.report(400, 0, 3, PAUSE_NS)
    assert broker.rows == [(0, 0)]


def test_what_was_reported_long_ago_is_no_reason_to_fold() -> None:
    broker = Broker()
    broker.hold((0, 0), (1, 400))
    broker.report(0, 400, 2, LATER)
    broker.report(400, 0, 2, LATER + FRESH_NS)
    assert len(broker.rows) == 2


def test_a_unit_without_brokers_is_folded_and_the_last_one_stays() -> None:
    broker = Broker()
    broker.hold((0, 0), (1, 400), (2, 700))
    broker.report(400, 700, 0, LATER)
    assert broker.rows == [(0, 0), (2, 700)]
    broker.report(0, 700, 0, 2 * LATER)
    assert broker.rows == [(2, 0)]
    broker.report(0, 0, 0, 3 * LATER)
    assert broker.rows == [(2, 0)]


def test_a_context_that_is_full_wants_to_be_split_itself() -> None:
    broker = Broker()
    broker.hold(*((number, 100 * number) for number in range(8)))
    broker.report(0, 100, 9, LATER, split_at=50, urgent=True)
    assert len(broker.rows) == 8
    assert broker.planner.wants_split(LATER)
    assert not broker.planner.wants_split(LATER + FRESH_NS)


def test_with_a_small_limit_a_full_unit_gives_to_the_nearest_with_room() -> None:
    broker = Broker(limit=3)
    broker.hold((0, 0), (1, 400), (2, 700))
    broker.report(400, 700, 3, LATER, edges=(500, 600))
    broker.report(700, 0, 2, LATER, edges=(800, 800))
    broker.report(0, 400, 4, LATER, split_at=200, urgent=True, edges=(100, 300))
    assert broker.rows == [(0, 0), (1, 300), (2, 600)], "each gives its last one to the next"


def test_with_a_small_limit_a_full_unit_gives_to_its_left_as_well() -> None:
    broker = Broker(limit=3)
    broker.hold((0, 0), (1, 400))
    broker.report(0, 400, 2, LATER, edges=(100, 100))
    broker.report(400, 0, 4, LATER, split_at=600, urgent=True, edges=(500, 800))
    assert broker.rows == [(0, 0), (1, 500)]


def test_with_a_small_limit_it_is_split_only_where_there_is_no_room() -> None:
    broker = Broker(limit=3)
    broker.hold((0, 0), (1, 400))
    broker.planner.join(UnitTable(3, 1, broker.peer.uid, (UnitRow(1, 400),), 400, 0, 3), LATER)
    broker.report(0, 400, 4, LATER + URGENT_NS, split_at=200, urgent=True, edges=(100, 300))
    assert len(broker.rows) == 2, "the other has not reported yet"
    at = LATER + HEARD_NS
    broker.report(0, 400, 4, at, split_at=200, urgent=True, edges=(100, 300))
    assert broker.rows == [(0, 0), (2, 200), (1, 400)]


# Office


def test_who_is_not_first_changes_nothing() -> None:
    broker = Broker(left=40)
    broker.report(0, 0, 7, LATER, split_at=400)
    assert broker.rows == [(0, 0)]


def test_a_steward_that_is_displaced_hands_the_table_over() -> None:
    broker = Broker(left=40)
    assert broker.held.table is not None
    assert sent(broker.planner.office.follow(0)) == [(40, UnitHandover(broker.held.table))]
    assert broker.planner.office.follow(1) == []


def test_a_context_that_was_split_is_taken_over_at_once_with_what_is_in_it() -> None:
    broker = Broker()
    broker.hold((0, 900), (1, 40), (2, 55), by=900)
    broker.held.put(UnitTable(3, 5, member(900).uid, broker.held.table.rows, 900, 800, 8))  # type: ignore[union-attr]
    broker.held.arc = Arc(45, 800)
    broker.planner.office.follow(0)
    assert broker.rows == [(1, 45), (2, 55)]
    assert broker.epoch == 5 + TAKEOVER_EPOCHS


def test_a_fold_waits_for_the_part_that_has_gone_and_then_goes_on_without() -> None:
    broker = Broker()
    mine = UnitTable(3, 5, broker.peer.uid, (UnitRow(0, 10), UnitRow(1, 200)), 10, 500, 8)
    broker.held.put(mine)
    broker.held.arc = Arc(10, 800)
    assert broker.planner.office.follow(0) == []
    gone = UnitTable(3, 9, member(500).uid, (UnitRow(1, 500), UnitRow(2, 600)), 500, 800, 8)
    assert sent(broker.planner.office.on_handover(UnitHandover(gone), gone, 5))
    assert broker.rows == [(0, 10), (1, 200), (3, 500), (2, 600)]

    broker = Broker()
    broker.held.put(mine)
    broker.held.arc = Arc(10, 800)
    broker.planner.office.follow(0)
    assert broker.planner.office.next_deadline() == PATIENCE_NS
    broker.planner.office.follow(PATIENCE_NS)
    assert broker.rows == [(0, 10), (1, 200)]
    broker.planner.office.on_handover(UnitHandover(gone), gone, PATIENCE_NS + 1)
    assert broker.rows == [(0, 10), (1, 200), (3, 500), (2, 600)], "it may come later"


def test_a_table_of_another_context_is_not_held() -> None:
    held = UnitsHeld(2, Changes())
    table = UnitTable(2, 5, member(1).uid, (UnitRow(0, 0),), 0, 0, 8)
    assert not held.loses(table), "the context is not known yet"
    held.is_placed = True
    assert held.loses(table)
    held.put(table)
    held.arc = Arc(0, 500)
    part = UnitTable(2, 1, member(1).uid, (UnitRow(0, 0),), 0, 500, 8)
    assert held.loses(part), "an earlier epoch, but of this context"
    assert not held.beats(part)


def test_whoever_is_off_the_ring_waits_for_no_table() -> None:
    """Its deadline would be due without end, until it has a place again."""
    broker = Broker()
    broker.hold((0, 0), by=60)
    office = broker.planner.office
    assert office.follow(0) == []
    assert office.next_deadline() == PATIENCE_NS
    broker.member = None
    assert office.follow(2 * PATIENCE_NS) == []
    assert office.next_deadline() is None
