"""The log at the source."""

from __future__ import annotations

import msgspec
import pytest

from ges.order import recall
from ges.order.flow_order import CHANGED_NS, FlowOrdering
from ges.order.recall import ANSWER_BYTES, FLOW_BYTES, KEPT_NS, ROAMED_NS, RecallLog
from ges.order.recalls import Recalls
from ges.telling.post import ANYBODY, Mail
from ges.wire.events import Flow
from ges.wire.recall_messages import MAX_LISTED, RangeDone, RangeQuery, WantedRange
from overlay.ids import LinkClass
from tests.ges.order.network_model import event
from tests.helpers.clusters import HandCluster
from tests.helpers.runs import numbers_of, run_of

FLOW: Flow = (b"p" * 16, 1, LinkClass.NORMAL)
OTHER: Flow = (b"q" * 16, 1, LinkClass.SECURE)
EDGE = 3
ALL = 2**64 - 1


def ask(
    log: RecallLog, first: int, last: int, *chosen: int, flow: Flow = FLOW, now: int = 0
) -> tuple[list[int], RangeDone]:
    """Return the events of an answer, and its end."""
    wanted = WantedRange(9, *flow, first, last, chosen)
    events, (done,) = log.answer(RangeQuery(EDGE, (wanted,)), now)
    assert done.number == 9
    assert done.sent == tuple(numbers_of(events))
    return numbers_of(events), done


def test_it_answers_with_what_was_for_the_asker() -> None:
    log = RecallLog()
    log.keep(run_of(FLOW, 1, count=4), 1 << EDGE, 0)
    log.keep(run_of(FLOW, 5, count=2), 1 << 7, 0)
    log.keep(run_of(FLOW, 7), 1 << 7 | 1 << EDGE, 0)
    log.keep(run_of(OTHER, 1, count=9), ALL, 0)
    sent, done = ask(log, 3, 7)
    assert sent == [3, 4, 7]
    assert (done.floor, done.last, done.before, done.listed) == (1, 7, None, ())
    assert ask(log, 2, 6)[0] == [2, 3, 4]
    assert ask(log, 1, 7, 2, 7)[0] == [2, 7]
    assert ask(log, 8, 9)[0] == []


def test_of_a_flow_that_it_does_not_know_it_knows_nothing() -> None:
    log = RecallLog()
    assert ask(log, 2, 7) == ([], RangeDone(9, 8, 7))
    assert log.unknown == log.answered == 1


def test_events_are_kept_for_10_s() -> None:
    log = RecallLog()
    log.keep(run_of(FLOW, 1, count=2), ALL, 0)
    log.keep(run_of(FLOW, 3), ALL, 5)
    assert ask(log, 1, 3, now=KEPT_NS - 1)[0] == [1, 2, 3]
    sent, done = ask(log, 1, 3, now=KEPT_NS)
    assert (sent, done.floor) == ([3], 3)
    assert ask(log, 1, 3, now=KEPT_NS + 5) == ([], RangeDone(9, 4, 3))
    assert log.bytes == 0


def test_a_publisher_keeps_4_mib_and_all_of_them_64(monkeypatch: pytest.MonkeyPatch) -> None:
    log = RecallLog()
    mib = 1024 * 1024 - 1024
    for each in range(1, 10):
        log.keep(event(FLOW, each, bytes(mib)), ALL, 0)
    log.keep(event(OTHER, 1, bytes(mib)), ALL, 0)
    assert ask(log, 1, 9)[1].floor == 6
    assert log.bytes < FLOW_BYTES + 1024 * 1024
    assert ask(log, 1, 1, flow=OTHER)[0] == [1]
    monkeypatch.setattr(recall, "ALL_BYTES", 3 * 1024 * 1024)
    assert ask(log, 1, 9)[1].floor == 8
    assert ask(log, 1, 1, flow=OTHER)[0] == [1]


def test_bytes_that_several_runs_share_are_counted_once() -> None:
    log = RecallLog()
    run = run_of(FLOW, 1, count=10, size=1000)
    for part in run.split():
        log.keep(part, ALL, 0)
    assert len(run.data) < log.bytes < 1.5 * len(run.data)


def test_an_answer_has_64_kib_of_events_and_lists_the_rest() -> None:
    log = RecallLog()
    for each in range(1, 6):
        log.keep(event(FLOW, each, bytes(20_000), b"a/b"), ALL, 0)
    sent, done = ask(log, 1, 5)
    assert sent == [1, 2, 3]
    assert [(each.sequence, each.topic) for each in done.listed] == [(4, b"a/b"), (5, b"a/b")]


def test_one_event_larger_than_an_answer_is_sent_all_the_same() -> None:
    log = RecallLog()
    for each in (1, 2):
        log.keep(event(FLOW, each, bytes(2 * ANSWER_BYTES)), ALL, 0)
    assert ask(log, 1, 2)[0] == [1]
    assert ask(log, 1, 2, 2)[0] == [2]


def test_the_questions_of_one_message_share_an_answer() -> None:
    log = RecallLog()
    flows = (FLOW, (OTHER[0], 1, LinkClass.NORMAL))
    for flow in flows:
        log.keep(event(flow, 1, bytes(ANSWER_BYTES - 1000)), ALL, 0)
    wanted = tuple(WantedRange(at, *flow, 1, 1) for at, flow in enumerate(flows))
    events, ends = log.answer(RangeQuery(EDGE, wanted), 0)
    assert [run.head.flow for run in events] == [FLOW]
    assert [len(done.listed) for done in ends] == [0, 1]


def test_secure_events_are_not_listed_but_sent() -> None:
    """A list goes over links that are not secure, and has topics in it."""
    log = RecallLog()
    flow = (FLOW[0], 1, LinkClass.SECURE)
    for number in (1, 2):
        log.keep(event(flow, number, bytes(ANSWER_BYTES - 1000)), ALL, 0)
    events, ends = log.answer(RangeQuery(EDGE, (WantedRange(0, *flow, 1, 2),)), 0)
    assert [run.head.sequence for run in events] == [1, 2]
    assert [done.listed for done in ends] == [()]


def test_a_list_that_is_full_says_how_far_it_goes() -> None:
    log = RecallLog()
    log.keep(event(FLOW, 1, bytes(2 * ANSWER_BYTES)), ALL, 0)
    for first in range(2, 2000, 100):
        log.keep(run_of(FLOW, first, count=100), ALL, 0)
    sent, done = ask(log, 1, 2001)
    assert (sent, len(done.listed)) == ([1], MAX_LISTED)
    assert done.last == MAX_LISTED + 1 == done.listed[-1].sequence


def test_a_publisher_that_came_names_where_it_was() -> None:
    log = RecallLog()
    log.attach(FLOW, 8, 0)
    assert log.has_roamed(FLOW, ROAMED_NS - 1)
    assert not log.has_roamed(FLOW, ROAMED_NS)
    assert ask(log, 2, 3) == ([], RangeDone(9, 4, 3, 8))
    log.keep(run_of(FLOW, 4, count=2), ALL, 0)
    assert ask(log, 2, 5) == ([4, 5], RangeDone(9, 4, 5, 8, (4, 5)))
    assert not log.has_roamed(OTHER, 0)


def test_between_two_stays_others_know() -> None:
    log = RecallLog()
    log.keep(run_of(FLOW, 1, count=3), ALL, 0)
    log.attach(FLOW, 8, 0)
    log.attach(FLOW, 6, 0)  # it had published nothing here meanwhile
    log.keep(run_of(FLOW, 7), ALL, 0)
    assert ask(log, 2, 7)[1] == RangeDone(9, 7, 7, 6, (7,))
    assert ask(log, 2, 6) == ([], RangeDone(9, 7, 6, 6))
    assert ask(log, 2, 3) == ([2, 3], RangeDone(9, 1, 3, None, (2, 3)))


def test_flows_and_stays_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "MAX_FLOWS", 2)
    log = RecallLog()
    flows: list[Flow] = [(bytes([at]) * 16, 1, LinkClass.NORMAL) for at in range(3)]
    for flow in flows:
        log.keep(run_of(flow, 1, count=2), ALL, 0)
    assert [ask(log, 1, 2, flow=flow)[0] for flow in flows] == [[], [1, 2], [1, 2]]
    for at in range(recall.MAX_STAYS + 5):
        log.attach(flows[2], 5, 0)
        log.keep(run_of(flows[2], 10 * at + 10), ALL, 0)
    assert len(log._flows[flows[2]].stays) == recall.MAX_STAYS


def test_questions_and_answers_go_over_the_wire() -> None:
    query = RangeQuery(EDGE, (WantedRange(1, *OTHER, 2, 9, (3, 4)),))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(query), type=RangeQuery) == query
    done = RangeDone(1, 2, 9, 63, (3,))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(done), type=RangeDone) == done
    bad = msgspec.msgpack.encode(msgspec.structs.replace(done, before=2**32))
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(bad, type=RangeDone)


def test_it_finds_an_event_by_its_number_in_each_life_of_its_publisher() -> None:
    log = RecallLog()
    later: Flow = (FLOW[0], 2, FLOW[2])
    log.keep(run_of(FLOW, 1, count=4), 0b10, 0)
    log.keep(run_of(FLOW, 5, count=2), 0b100, 7)
    log.keep(run_of(later, 4), -1, 8)
    log.keep(run_of(OTHER, 4), ALL, 9)

    def found(sequence: int, now: int = 9) -> list[tuple[int, int, int]]:
        logged = log.find(FLOW[0], FLOW[2], sequence, now)
        return [(each.incarnation, each.destinations, each.at) for each in logged]

    assert found(4) == [(1, 0b10, 0), (2, -1, 8)]
    assert found(6) == [(1, 0b100, 7)]
    assert found(7) == []
    assert found(4, KEPT_NS) == [(2, -1, 8)]


def test_who_has_no_slot_is_told_the_topics_and_chooses() -> None:
    """Nobody knows what it was named by when the events were published."""
    log = RecallLog()
    log.keep(run_of(FLOW, 1, count=2), 1 << EDGE, 0)
    log.keep(run_of(FLOW, 3), 1 << 7, 0)
    wanted = WantedRange(9, *FLOW, 1, 3, ())
    events, (done,) = log.answer(RangeQuery(0, (wanted,), None, 5), 0, -1)
    assert (events, done.sent) == ([], ())
    assert [each.sequence for each in done.listed] == [1, 2, 3]
    chosen = WantedRange(10, *FLOW, 1, 3, (1, 3))
    events, (done,) = log.answer(RangeQuery(0, (chosen,), None, 5), 0, -1)
    assert (numbers_of(events), done.sent) == ([1, 3], (1, 3))


@pytest.mark.parametrize(("later", "by_place"), [(0, True), (CHANGED_NS, False)])
def test_a_broker_that_is_back_asks_as_if_it_had_no_slot(later: int, by_place: bool) -> None:
    """No event named it while it was off the ring: the source would say that none was for it."""
    here, there = "a" * 32, "b" * 32
    cluster = HandCluster()
    cluster.found(here, {here: 1000, there: 2000})
    recalls = Recalls(FlowOrdering(), RecallLog(), cluster)
    recalls.place = 1000
    recalls.ordering.admit(run_of(FLOW, 1), 0, via=1, source=2000)
    recalls.ordering.doubt(0)
    assert recalls.ordering.admit(run_of(FLOW, 5), 0, via=2, source=2000) == []
    (mail,) = recalls.questions(later).mail
    wanted = (WantedRange(1, *FLOW, 2, 4, ()),)
    if by_place:
        assert mail == Mail(ANYBODY, RangeQuery(0, wanted, None, 1000), 2000)
    else:
        assert mail == Mail(there, RangeQuery(cluster.slots[here], wanted))
