"""Order and once where numbers have gaps: the papers' tables, and doubt."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Iterable, Sequence

import pytest

from ges.gateways.graph import Graph, Link
from ges.gateways.next_hops import NextHops
from ges.order import flow_order
from ges.order.flow_order import (
    ASK_AGAIN_NS,
    BATCH_NS,
    CHANGED_NS,
    CHOSEN_BYTES,
    FLOW_BYTES,
    MAX_OPEN,
    PATIENCE_NS,
    UNKNOWN_NS,
    FlowOrdering,
)
from ges.order.recall import ANSWER_BYTES, RecallLog
from ges.order.via import Tokens
from ges.wire.event_runs import EventRun
from ges.wire.events import Flow
from ges.wire.recall_messages import FlowTail, ListedEvent, RangeDone, RangeQuery, WantedRange
from overlay.ids import LinkClass, nanos
from tests.ges.order.network_model import event
from tests.helpers.runs import run_of

FLOW: Flow = (b"p" * 16, 1, LinkClass.NORMAL)
A, B, C = 10, 11, 12  #: ways
EDGE = 4  #: slot


def numbers(runs: Iterable[EventRun]) -> list[int]:
    """Return the sequences of events."""
    return [run.head.sequence + at for run in runs for at in range(run.count)]


def come(
    order: FlowOrdering,
    sequence: int,
    via: int = A,
    now: int = 0,
    *,
    count: int = 1,
    source: int = 1,
    marked: bool = False,
) -> list[int]:
    """Let events come; return what is delivered."""
    run = run_of(FLOW, sequence, count=count)
    return numbers(order.admit(run, now, via=via, source=source, marked=marked))


def asked(order: FlowOrdering, now: int = 0) -> list[tuple[int, int, int]]:
    """Return source, first and last of each question that is to be asked now."""
    return [
        (source, each.first, each.last)
        for source, batch in order.take_questions(now)
        for each in batch
    ]


def answered(order: FlowOrdering, logs: dict[int, RecallLog], now: int = 0) -> list[int]:
    """Let the brokers with logs answer until nothing is asked; return what is delivered."""
    ready: list[int] = []
    while batches := order.take_questions(now):
        for source, batch in batches:
            events, ends = logs[source].answer(RangeQuery(EDGE, batch), now)
            ready += [n for run in events for n in numbers(order.recalled(run))]
            ready += [n for end in ends for n in numbers(order.settle(end, now))]
        now += BATCH_NS
    return ready


def log_of(sequences: Sequence[int], destinations: int = -1, payload: bytes = b"x") -> RecallLog:
    """Return a log of these events."""
    log = RecallLog()
    for each in sequences:
        log.keep(event(FLOW, each, payload), destinations, 0)
    return log


# The papers


def test_table_2() -> None:
    """Two brokers send the same events to a third one, each by its own way."""
    order = FlowOrdering()
    rows = ["1--23-45-", "-123---45"]  # by time, of A and of B
    taken: list[tuple[int, int, str]] = []
    dropped: list[tuple[int, int, str]] = []
    for at in range(9):
        for name, via, row in zip("AB", (A, B), rows, strict=True):
            if row[at] != "-":
                got = come(order, int(row[at]), via, at)
                (taken if got else dropped).append((at + 1, int(row[at]), name))
    assert taken == [(1, 1, "A"), (3, 2, "B"), (4, 3, "B"), (7, 4, "A"), (8, 5, "A")]
    assert sorted(dropped) == [(2, 1, "B"), (4, 2, "A"), (5, 3, "A"), (8, 4, "B"), (9, 5, "B")]
    assert asked(order) == []


def roamed() -> dict[int, RecallLog]:
    """Return logs: the publisher was at broker 1 with e1 to e3, and is at 2 now."""
    first, second = log_of([1, 2, 3]), RecallLog()
    second.attach(FLOW, 1, 0)
    for each in (4, 5):
        second.keep(event(FLOW, each), -1, 0)
    return {1: first, 2: second}


def test_table_3() -> None:
    """The publisher roams, and e4 and e5 overtake e1 to e3."""
    logs, order = roamed(), FlowOrdering()
    assert logs[2].has_roamed(FLOW, 0)
    assert come(order, 4, B, source=2, marked=True) == []
    assert come(order, 5, B, source=2, marked=True) == []
    assert answered(order, logs) == [1, 2, 3, 4, 5]
    assert [come(order, each, A) for each in (1, 2, 3)] == [[], [], []]  # at t+5


def test_table_3_where_the_late_ones_come_before_the_answer() -> None:
    order = FlowOrdering()
    assert come(order, 4, B, source=2, marked=True) == []
    assert come(order, 5, B, source=2, marked=True) == []
    assert [come(order, each, A) for each in (1, 2, 3)] == [[1], [2], [3, 4, 5]]
    assert asked(order) == []


def test_figure_12b() -> None:
    """From A-C to A-B-C: e1 to e3 are not acknowledged and go first, then e4 and e5."""
    order = FlowOrdering()
    assert come(order, 1, A, count=2) == [1, 2]
    got = [come(order, each, B, marked=each <= 3) for each in (1, 2, 3, 4, 5)]
    assert got == [[], [], [3], [4], [5]]
    assert asked(order) == []


# Ways


def test_a_to_b_to_a_within_a_change_of_a_link_cost() -> None:
    """Destination 9 moves from hop 1 to hop 2 and back: hop 1 does not look as before."""

    def graph(cost: int) -> Graph:
        return Graph(
            Link(a, b, c, 1) for a, b, c in ((0, 1, cost), (1, 9, 1), (0, 2, 5), (2, 9, 1))
        )

    hops, tokens = NextHops(0), Tokens[int](random.Random(1))

    def way(cost: int) -> int:
        onto = hops.update(graph(cost)).onto
        tokens.renew(hop for hop in range(64) if onto >> hop & 1)
        return tokens.onto(tokens.start(FLOW), hops.next_hop(9))

    first, second, third = way(1), way(50), way(1)
    assert hops.next_hop(9) == 1
    order = FlowOrdering()
    assert come(order, 1, first) == [1]
    assert come(order, 4, third) == []  # 3 is still under way over hop 2
    assert asked(order) == [(1, 2, 3)]
    assert come(order, 3, second) == []
    assert answered(order, {}) == []
    assert numbers(order.settle(RangeDone(1, 1, 3), 0)) == [3, 4]
    assert way(1) == third == way(1)  # nothing has moved since


def test_what_comes_the_same_way_is_delivered_at_once() -> None:
    order = FlowOrdering()
    assert come(order, 1) == [1]
    assert come(order, 7) == [7]
    assert come(order, 20, count=3) == [20, 21, 22]
    assert come(order, 23, B) == [23]  # no gap, no doubt
    assert come(order, 30, B) == [30]
    assert (order.doubts, order.holds, order.lost) == (0, 0, 0)


def test_another_way_with_a_gap_is_doubt() -> None:
    """The example at the head of the module."""
    order = FlowOrdering()
    assert [come(order, each, A) for each in (1, 2, 3, 7)] == [[1], [2], [3], [7]]
    assert come(order, 12, B) == []
    assert come(order, 9, A) == []
    assert come(order, 13, B) == []
    assert answered(order, {1: log_of([8, 9, 12, 13])}) == [8, 9, 12, 13]
    assert come(order, 15, B) == [15]


def test_a_mark_is_doubt_on_the_same_way() -> None:
    order = FlowOrdering()
    assert come(order, 1) == [1]
    assert come(order, 5, marked=True) == []
    assert answered(order, {1: log_of([1, 5], 0)}) == [5]
    assert come(order, 6, marked=True) == [6]


def test_what_nobody_knows_of_may_be_on_its_way_for_a_second() -> None:
    """A publisher has moved: the broker where it is now has only what it published there."""
    order = FlowOrdering()
    assert come(order, 1) == [1]
    assert come(order, 5, B) == []
    assert answered(order, {1: log_of([5], 0)}) == []
    assert numbers(order.expire(UNKNOWN_NS - 1)) == []
    assert come(order, 3, A) == []
    assert numbers(order.expire(UNKNOWN_NS)) == [3, 5]


def test_a_second_change_of_the_way_is_a_second_question() -> None:
    order = FlowOrdering()
    assert come(order, 1) == [1]
    assert come(order, 5, B) == come(order, 9, C) == []
    assert come(order, 12, C) == []
    assert asked(order) == [(1, 2, 4), (1, 6, 8)]
    assert numbers(order.settle(RangeDone(2, 1, 8), 0)) == []
    assert numbers(order.settle(RangeDone(1, 1, 4), 0)) == [5, 9, 12]


def test_what_was_held_is_not_asked_for_when_it_has_come() -> None:
    order = FlowOrdering()
    assert come(order, 1) == [1]
    assert come(order, 4, B) == []
    assert come(order, 2, A) == [2]
    assert asked(order) == [(1, 3, 3)]
    assert come(order, 3, A) == [3, 4]
    assert order.next_deadline() is None


def test_a_run_that_has_partly_come_is_cut() -> None:
    order = FlowOrdering()
    assert come(order, 1, count=4) == [1, 2, 3, 4]
    assert come(order, 3, B, count=4) == [5, 6]
    assert come(order, 8, B) == [8]
    assert order.too_late == 2


# First contact, moves, deaths


def test_a_first_contact_is_doubt_only_for_a_while_after_a_change() -> None:
    calm, changed = FlowOrdering(), FlowOrdering()
    changed.doubt(0)
    assert come(calm, 7) == [7]
    assert come(changed, 7, now=CHANGED_NS - 1) == []
    assert asked(changed, CHANGED_NS) == [(1, 1, 6)]
    late = FlowOrdering()
    late.doubt(0)
    assert come(late, 7, now=CHANGED_NS) == [7]


def test_a_subscriber_that_roams_gets_no_past_at_its_new_broker() -> None:
    """Events 1 to 4 were not for its new broker, so the source sends none of them."""
    log = log_of([1, 2, 3, 4], destinations=0b1000)
    log.keep(event(FLOW, 5), 1 << EDGE, 0)
    order = FlowOrdering()
    order.doubt(0)
    assert come(order, 5) == []
    assert answered(order, {1: log}) == [5]


def test_a_publisher_that_comes_back_is_asked_for_where_it_was() -> None:
    """It was at 1 with 1 to 3, at 2 with 4 to 6, and is at 1 again with 7."""
    logs = {1: log_of([1, 2, 3]), 2: RecallLog()}
    logs[2].attach(FLOW, 1, 0)
    for each in (4, 5, 6):
        logs[2].keep(event(FLOW, each), -1, 0)
    logs[1].attach(FLOW, 2, 0)
    logs[1].keep(event(FLOW, 7), -1, 0)
    order = FlowOrdering()
    assert come(order, 1) == [1]
    assert come(order, 7, B) == []
    assert answered(order, logs) == [2, 3, 4, 5, 6, 7]


def test_brokers_that_name_each_other_are_not_asked_for_ever() -> None:
    order = FlowOrdering()
    assert come(order, 1) == [1]
    assert come(order, 5, B) == []
    for at in range(1, 10):
        assert numbers(order.settle(RangeDone(at, 5, 4, before=at % 2), at * BATCH_NS)) == []
        if not asked(order, (at + 1) * BATCH_NS):
            break
    assert at == flow_order.MAX_STEPS + 1
    assert numbers(order.expire(2 * UNKNOWN_NS)) == [5]


def test_a_source_that_died_is_waited_for_4_s() -> None:
    order = FlowOrdering()
    assert come(order, 1) == [1]
    assert come(order, 5, B, now=100) == []
    assert asked(order, 100) == [(1, 2, 4)]
    assert order.next_deadline() == 100 + ASK_AGAIN_NS
    assert order.expire(99 + PATIENCE_NS) == []
    assert asked(order, 99 + PATIENCE_NS) == [(1, 2, 4)], "questions and answers may be lost"
    assert order.next_deadline() == 100 + PATIENCE_NS == 100 + nanos(4)
    assert numbers(order.expire(100 + PATIENCE_NS)) == [5]
    assert (order.lost, order.next_deadline()) == (1, None)
    assert come(order, 3, A) == []  # too late: 5 has been delivered
    assert come(order, 6, B) == [6]
    assert order.settle(RangeDone(1, 1, 4), 0) == ()


# Answers


def test_what_is_more_than_an_answer_holds_is_listed_and_chosen() -> None:
    """Each event is a third of an answer; the odd ones are of a topic that nobody wants here."""
    log = RecallLog()
    for each in range(2, 12):
        topic = b"no" if each % 2 else b"yes"
        log.keep(event(FLOW, each, bytes(ANSWER_BYTES // 3), topic), -1, 0)
    order = FlowOrdering(lambda topic: topic == b"yes")
    assert come(order, 1) == [1]
    assert come(order, 12, B) == []
    assert answered(order, {1: log}) == [2, 3, 4, 6, 8, 10, 12]
    assert log.answered == 3


def test_an_answer_that_overtakes_its_events_waits_for_them() -> None:
    order = FlowOrdering()
    assert come(order, 1) == [1]
    assert come(order, 5, B) == []
    assert asked(order) == [(1, 2, 4)]
    assert order.settle(RangeDone(1, 1, 4, sent=(3, 4)), 0) == []
    assert asked(order, BATCH_NS) == []
    assert numbers(order.recalled(event(FLOW, 4))) == []
    assert numbers(order.recalled(event(FLOW, 3))) == [3, 4, 5]


def test_what_was_sent_and_does_not_come_is_asked_for_again_and_given_up_in_time() -> None:
    """Such as to an address that this broker has no more."""
    order = FlowOrdering()
    assert come(order, 1) == [1]
    assert come(order, 5, B) == []
    assert asked(order) == [(1, 2, 4)]
    number, now = 1, 0
    for at in (ASK_AGAIN_NS, 2 * ASK_AGAIN_NS, 4 * ASK_AGAIN_NS):
        assert order.settle(RangeDone(number, 1, 4, sent=(3, 4)), now) == []
        assert asked(order, now + BATCH_NS) == []
        assert order.expire(at) == []
        ((_, (again,)),) = order.take_questions(at)
        assert (again.first, again.last, again.chosen) == (3, 4, (3, 4))
        number, now = again.number, at
    assert numbers(order.expire(PATIENCE_NS)) == [5], "however often it was answered"
    assert order.lost == 1


def test_an_answer_that_does_not_reach_the_end_is_asked_on_from_there() -> None:
    order = FlowOrdering()
    assert come(order, 1) == [1]
    assert come(order, 9, B) == []
    assert asked(order) == [(1, 2, 8)]
    order.settle(RangeDone(1, 1, 5, listed=(ListedEvent(4, b"t"),)), 0)
    ((_, batch),) = order.take_questions(BATCH_NS)
    assert [(each.first, each.last, each.chosen) for each in batch] == [(4, 4, (4,)), (6, 8, ())]


def test_an_answer_cannot_bring_what_was_not_in_doubt() -> None:
    order = FlowOrdering()
    assert come(order, 1) == [1]
    assert order.recalled(event(FLOW, 5)) == ()
    other = event((b"q" * 16, 1, LinkClass.NORMAL), 1)
    assert order.recalled(other) == ()
    assert come(order, 2) == [2]


def test_questions_to_one_source_go_together_and_not_too_often() -> None:
    order = FlowOrdering()
    for at in range(3):
        flow: Flow = (bytes([at]) * 16, 1, LinkClass.NORMAL)
        order.admit(event(flow, 1), 0, via=A, source=7)
        order.admit(event(flow, 3), 0, via=B, source=7)
    ((source, batch),) = order.take_questions(0)
    assert (source, len(batch)) == (7, 3)
    assert all(isinstance(each, WantedRange) for each in batch)
    come(order, 1, source=7)
    come(order, 3, B, source=7)
    assert asked(order, BATCH_NS - 1) == []
    assert order.next_deadline() == BATCH_NS
    assert asked(order, BATCH_NS) == [(7, 2, 2)]


# Limits


def test_too_many_questions_of_one_flow_give_the_first_up() -> None:
    order = FlowOrdering()
    come(order, 1)
    got = [come(order, 1 + 2 * at, A + at) for at in range(1, MAX_OPEN + 2)]
    assert got[-1] == [3]
    assert order.lost == 1


def test_too_much_that_waits_gives_the_first_question_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_order, "MAX_HELD", 3)
    order = FlowOrdering()
    come(order, 1)
    assert [come(order, each, B) for each in (3, 4, 5)] == [[], [], []]
    assert come(order, 6, B) == [3, 4, 5, 6]
    assert (order.holds, order.lost, order.next_deadline()) == (0, 1, None)


def test_the_bytes_that_wait_are_counted_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_order, "MAX_HELD_BYTES", 1100)
    order = FlowOrdering()
    come(order, 1)
    for first in range(3, 100, 2):
        assert come(order, first, A + first) == []
        assert come(order, first - 1, A) == [first - 1, first]
    assert order.lost == 0
    assert come(order, 102, A) == []
    assert come(order, 103, A) == come(order, 104, A) == []
    assert come(order, 105, A) == [102, 103, 104, 105]


def test_the_flow_longest_without_an_event_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_order, "MAX_PUBLISHERS", 2)
    order = FlowOrdering()
    flows: list[Flow] = [(bytes([at]) * 16, 1, LinkClass.NORMAL) for at in range(3)]
    order.admit(event(flows[0], 1), 0, via=A)
    order.admit(event(flows[1], 1), 0, via=A)
    order.admit(event(flows[1], 4), 0, via=B)
    order.admit(event(flows[0], 2), 0, via=A)
    order.admit(event(flows[2], 1), 0, via=A)
    assert set(order.flows) == {flows[0], flows[2]}
    assert order.holds == 0
    assert order.take_questions(0) == []
    assert order.expire(PATIENCE_NS) == []


def test_it_says_what_became_of_a_number() -> None:
    order = FlowOrdering()
    assert come(order, 3) == [3]
    assert come(order, 7, B) == []  # by another way: 4 to 6 may be missing

    def state(sequence: int) -> list[tuple[int, str]]:
        return list(order.look_up(FLOW[0], FLOW[2], sequence))

    assert state(2) == state(3) == [(1, "done")]
    assert state(5) == [(1, "asked")]
    assert state(7) == [(1, "held")]
    assert state(8) == [(1, "never")]
    assert list(order.look_up(FLOW[0], LinkClass.SECURE, 3)) == []
    assert list(order.look_up(b"q" * 16, FLOW[2], 3)) == []


def flow_of(at: int) -> Flow:
    return (at.to_bytes(16, "big"), 1, LinkClass.NORMAL)


def test_the_flows_that_are_forgotten_first_are_those_nothing_is_asked_about() -> None:
    order = FlowOrdering()
    for at in range(4):
        order.admit(event(flow_of(at), 1), 0, via=A)
    order.learn(FlowTail(*flow_of(0), 1, 5), 1, 0)  # 2 to 5 may be missing
    order.admit(event(flow_of(1), 4), 0, via=B)  # it waits
    order.shed(order.memory - 1)
    assert list(order.flows) == [flow_of(0), flow_of(3), flow_of(1)], "longest without an event"
    order.shed(0)
    assert list(order.flows) == [flow_of(1)], "what waits is not lost"
    assert (order.lost, order.holds) == (1, 1)
    assert numbers(order.expire(PATIENCE_NS)) == [4]
    order.shed(0)
    assert (list(order.flows), order.memory, order.next_deadline()) == ([], 0, None)


def test_a_bound_gives_the_first_question_up() -> None:
    order = FlowOrdering()
    order.bound(1100)
    assert come(order, 1) == [1]
    assert [come(order, each, B) for each in (3, 4, 5)] == [[], [], []]
    assert come(order, 6, B) == [3, 4, 5, 6]


def test_the_memory_that_it_tells_is_what_it_takes() -> None:
    """With what is asked, by range and by number, and what waits."""
    order = FlowOrdering()

    def fill() -> None:
        for at in range(1000):
            order.admit(event(flow_of(at), 2**40), 0, via=A)
            if at % 3 == 1:
                order.learn(FlowTail(*flow_of(at), 2**40, 2**40 + 5), 2**60 + at, 0)
            elif at % 3 == 2:
                order.admit(event(flow_of(at), 2**40 + 5), 0, via=B, source=1)

    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        fill()
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.8 < order.memory / taken < 1.4
    order.shed(0)
    assert order.memory < 0.5 * taken


def test_numbers_that_are_chosen_count_until_they_are_settled() -> None:
    order = FlowOrdering()
    assert come(order, 1) == [1]
    assert come(order, 10, B) == []
    before = order.memory
    listed = tuple(ListedEvent(each, b"t") for each in range(2, 10))
    order.settle(RangeDone(1, 1, 9, listed=listed), 0)
    assert order.memory == before + 8 * CHOSEN_BYTES
    for each in range(2, 9):
        order.recalled(run_of(FLOW, each))
    assert numbers(order.recalled(run_of(FLOW, 9))) == [9, 10]
    assert order.memory == FLOW_BYTES
