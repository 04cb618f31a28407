"""One broker's routing: onward by tree or by secure links, out to those who match."""

from __future__ import annotations

from itertools import accumulate

import pytest
from msgspec.structs import replace

from ges.order.flow_order import HELD_BYTES
from ges.routing.reach import UNSURE
from ges.wire.event_flags import AGAIN_FLAG, SECURE_FLAG
from ges.wire.event_runs import event_runs
from ges.wire.events import NO_DUTY, Duty, read_head
from ges.wire.recall_messages import FlowTail
from overlay.links.link import Link
from overlay.net.connection import Connection
from overlay.queues.lanes import Policy
from overlay.wire.frames import EVENT, frame
from tests.helpers.router_bench import (
    NORMAL,
    PUBLISHER,
    RING,
    SECURE,
    Bench,
    cluster,
    delivered,
    event,
    limit_of,
)
from tests.helpers.runs import under_way


async def test_a_normal_event_goes_by_the_tree() -> None:
    bench = Bench("b")
    bench.publish(*event())
    assert [(limit_of(head), head.hops) for head in bench.sent("b")] == [(20, 1)]
    assert [(limit_of(head), head.hops) for head in bench.sent("c")] == [(0, 1)]
    assert bench.sent("b", SECURE) == []


async def test_a_way_that_is_left_and_taken_again_does_not_look_the_same() -> None:
    """Between arcs and arcs events name whom they are for, and may still be under way."""
    bench = Bench("b")
    for number in (1, 2):
        bench.publish(*event(number))
    bench.cluster.slot = 0
    bench.publish(*event(3))
    bench.cluster.slot = None
    bench.publish(*event(4))
    first, second, last = bench.sent("b")
    assert (first.sequence, second.sequence, last.sequence) == (1, 2, 4)
    assert first.via == second.via != last.via


async def test_a_secure_event_goes_by_secure_links_alone() -> None:
    bench = Bench("b")
    cluster(bench, "b")
    bench.publish(*event(secure=True))
    (head,) = bench.sent("b", SECURE)
    assert head.secure
    assert (head.duty.destinations, head.hops) == (0b010, 1)
    assert bench.sent("b") == bench.sent("c") == []


async def test_secure_events_that_come_together_go_by_secure_links_alone() -> None:
    """As a run they are decided at once, like normal events, but never for normal links."""
    bench = Bench("b")
    cluster(bench, "b")
    plain, secured = bench.session("t"), bench.session("t", secure=True)
    bench.publish(*event(1, secure=True))
    bodies = [event(number, secure=True)[1] for number in (2, 3)]
    data = b"".join(frame(EVENT, body) for body in bodies)
    bounds = list(accumulate((len(frame(EVENT, body)) for body in bodies), initial=0))
    for run in event_runs(data, bounds):
        bench.publish_run(run)
    assert [head.sequence for head in bench.sent("b", SECURE)] == [1, 2, 3]
    assert bench.sent("b") == bench.sent("c") == []
    assert delivered(plain) == []
    assert [payload for _, payload in delivered(secured)] == [b"1", b"2", b"3"]


async def test_a_secure_link_that_is_gone_has_no_substitute() -> None:
    bench = Bench("b")
    cluster(bench, "b")
    del bench.links["b" * 32, SECURE]
    bench.publish(*event(secure=True))
    assert bench.sent("b") == bench.sent("c") == []
    assert bench.counters["events_without_link"] == 1


async def test_what_came_before_is_not_passed_on_again() -> None:
    bench = Bench()
    for sequence in (1, 2, 2, 1):
        bench.relay(*event(sequence))
    assert [head.sequence for head in bench.sent("b")] == [1, 2]
    assert bench.counters["events_duplicate"] == 2


async def test_what_came_too_early_is_passed_on_at_once_and_delivered_in_order() -> None:
    bench = Bench()
    session = bench.session("t")
    for sequence, via in ((1, 5), (3, 6), (2, 5)):
        body = under_way(event(sequence)[1], NO_DUTY, via=via)
        bench.relay(read_head(body), body)
    assert [head.sequence for head in bench.sent("b")] == [1, 3, 2]
    assert [payload for _, payload in delivered(session)] == [b"1", b"2", b"3"]


async def test_a_new_subscription_counts_at_once() -> None:
    bench = Bench()
    early = bench.session("t")
    bench.publish(*event(1))
    late = bench.session("+")
    bench.publish(*event(2))
    assert delivered(early) == [((1,), b"1"), ((1,), b"2")]
    assert delivered(late) == [((1,), b"2")]


@pytest.mark.parametrize("how", ["unsubscribe", "forget"])
async def test_one_that_ended_counts_no_more(how: str) -> None:
    bench = Bench()
    session = bench.session("t")
    bench.publish(*event(1))
    if how == "forget":
        bench.parts.deliveries.forget(session)
    else:
        bench.parts.deliveries.unsubscribe(session, 1)
    bench.publish(*event(2))
    assert delivered(session) == [((1,), b"1")]
    assert bench.parts.deliveries.subscriptions == 0


async def test_a_number_used_again_replaces_its_filter() -> None:
    bench = Bench()
    session = bench.session("t")
    bench.subscribe(session, 1, "u", None)
    bench.publish(*event(1))
    bench.publish(*event(2, topic=b"u"))
    assert delivered(session) == [((1,), b"2")]
    assert bench.parts.deliveries.subscriptions == 1


async def test_one_client_gets_an_event_once_with_all_its_numbers() -> None:
    bench = Bench()
    session = bench.session("t", "#", "x", "+")
    bench.publish(*event())
    assert delivered(session) == [((1, 2, 4), b"1")]


async def test_classes_are_kept_apart() -> None:
    bench = Bench("b")
    cluster(bench)
    plain, secured = bench.session("#"), bench.session("#", secure=True)
    bench.subscribe(secured, 2, "#", SECURE)
    bench.subscribe(secured, 3, "#", NORMAL)
    bench.publish(*event(1, secure=True))
    bench.publish(*event(1))
    assert delivered(plain) == [((1,), b"1")]
    assert [numbers for numbers, _ in delivered(secured)] == [(1, 2), (1, 3)]


async def test_crowded_queues_are_named() -> None:
    bench = Bench(limit_bytes=230)
    session = bench.session("t")
    bench.publish(*event(1))
    assert bench.crowded == set()
    bench.publish(*event(2))
    b, c = (bench.links[name * 32, NORMAL].connection for name in "bc")
    assert isinstance(session.connection, Connection)
    assert bench.crowded == {session.connection, b, c}


async def test_off_the_ring_nothing_is_taken_or_passed_on() -> None:
    bench = Bench()
    session = bench.session("t")
    bench.update(None, {})
    head, body = event()
    assert bench.why_not(session, head) == "this broker is not on the ring at the moment"
    bench.relay(head, body)
    assert bench.sent("b") == []
    assert delivered(session) == [((1,), b"1")], "but those who are here get what comes"


async def test_why_a_secure_event_is_not_taken() -> None:
    bench = Bench("b")
    plain, secured = bench.session(), bench.session(secure=True)
    head, _ = event(secure=True)
    assert head.flags == SECURE_FLAG
    assert bench.why_not(secured, head) == UNSURE, "nobody has a slot yet"
    cluster(bench, "b")
    assert bench.why_not(secured, head) is None
    assert "chordals://" in (bench.why_not(plain, head) or "")
    cluster(bench, "b", "c")
    assert "cccccccc (ring id 20)" in (bench.why_not(secured, head) or "")
    assert bench.why_not(secured, event()[0]) is None, "a normal one is"


async def test_what_waits_counts_with_the_memory_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small events take more memory than they have bytes."""
    monkeypatch.setattr("ges.order.flow_order.MAX_HELD_BYTES", 10 * HELD_BYTES)
    bench = Bench()
    got = bench.session("#")
    bench.relay(*event(1))
    for sequence in range(3, 12):
        bench.relay(*event(sequence))
    assert len(delivered(got)) > 1, "what is missing is given up"


async def test_secure_events_are_not_dropped_for_a_slow_client() -> None:
    """Normal ones are, where the broker is set so; a secure one is never lost without a word."""
    bench = Bench("b", "c", limit_bytes=3000)
    cluster(bench)
    session = bench.session("t", secure=True)
    lane = session.connection.outbox.normal
    lane.policy = Policy.DROP_OLDEST
    for sequence in range(1, 100):
        bench.publish(*event(sequence))
    assert lane.dropped > 0
    assert not session.connection.overflowed
    for sequence in range(1, 100):
        bench.publish(*event(sequence, secure=True))
    assert session.connection.overflowed


async def test_over_named_links_what_is_sent_again_ends_and_by_the_tree_it_goes_on() -> None:
    """Named links may form a circle; the arc of the tree gets smaller with each hop."""
    bench = Bench()
    c = replace(RING["c"], peer=replace(RING["c"].peer, declared=True))
    bench.links["c" * 32, NORMAL] = Link(c.peer, NORMAL, bench.connection(False), 0)
    bench.named.add("c" * 32)
    bench.update(RING["a"], {"b" * 32: RING["b"], "c" * 32: c})
    body = under_way(event()[1], Duty(0, 0), flags=AGAIN_FLAG)
    for _ in range(2):
        bench.relay(read_head(body), body)
    assert len(bench.sent("b")) == 2
    assert len(bench.sent("c")) == 1


async def test_events_to_all_are_counted_and_named_in_tails_to_those_that_want_them() -> None:
    bench = Bench()
    bench.publish(*event())
    assert bench.counters["events_sent_to_all"] == 1
    cluster(bench, "b")
    bench.publish(*event(2))
    assert bench.counters["events_sent_to_all"] == 1
    assert bench.parts.recalls.log.tails(bench.now)[1] == [FlowTail(PUBLISHER, 1, NORMAL, 1, 2)]
