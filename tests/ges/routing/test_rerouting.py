"""In place of a broker that has left: who gets the events that were for it."""

from __future__ import annotations

from msgspec.structs import replace

from ges.routing.holding import HOLD_NS
from ges.wire.event_flags import AGAIN_FLAG
from ges.wire.event_runs import EventRun
from ges.wire.events import FRONT, MAX_HOPS, NO_DUTY, pack_event, read_head
from ges.wire.groups import Serving
from overlay.ids import nanos
from overlay.links.link import Link
from tests.helpers.router_bench import (
    NORMAL,
    PUBLISHER,
    RING,
    Bench,
    event,
    limit_of,
)
from tests.helpers.runs import under_way


async def test_what_a_broker_that_left_has_not_acknowledged_goes_to_who_stands_in() -> None:
    bench = Bench()
    bench.acknowledged("c")
    bench.publish(*event())
    assert [limit_of(head) for head in bench.sent("c")] == [0]
    bench.gone("c")
    assert [(limit_of(head), head.again) for head in bench.sent("b")] == [(20, False), (0, True)]
    assert bench.counters["events_sent_on"] == 1
    assert bench.counters["events_unacknowledged_dropped"] == 0


async def test_who_stands_in_gets_all_flags_but_those_that_change_on_the_way() -> None:
    """A flag that is lost leaves its bytes behind, as if they were of the payload."""
    more = {"correlation": b"c" * 16, "is_request": True, "retain": True, "ttl_ms": 9, "realm": 2}
    body = pack_event(
        False,
        PUBLISHER,
        1,
        1,
        0,
        b"t",
        b"",
        b"1",
        at_most_once=True,
        **more,  # type: ignore[arg-type]
    )
    run = EventRun.of(read_head(body), body).grouped(Serving({5: 20}, has_places=True))
    bench = Bench()
    bench.acknowledged("c")
    bench.publish_run(run)
    (before,) = bench.sent_bodies("c")
    bench.gone("c")
    _, after = bench.sent_bodies("b")
    assert after[FRONT.size :] == before[FRONT.size :]
    assert (
        read_head(after).flags
        == read_head(before).flags | AGAIN_FLAG
        == run.head.flags | AGAIN_FLAG
    )


def waiting() -> Bench:
    """An event waits for the link to ``c``, which is a ring neighbour and on the ring still."""
    bench = Bench()
    bench.acknowledged("c")
    bench.publish(*event())
    assert (len(bench.sent("b")), len(bench.sent("c"))) == (1, 1)
    bench.cut("c", NORMAL)
    bench.update(RING["a"], {"b" * 32: RING["b"]}, [RING["b"], RING["c"]])
    assert bench.keeps_events
    return bench


async def test_behind_a_failed_link_who_stands_before_us_serves_a_part_of_the_ring() -> None:
    """That one is linked to the broker there, as a ring neighbour's neighbour."""
    bench = Bench()
    bench.acknowledged("b")
    bench.cut("b", NORMAL)
    bench.publish(*event())
    assert [limit_of(head) for head in bench.sent("c")] == [0], "what is for b waits"
    bench.failed.add("b")
    bench.update(RING["a"], {"b" * 32: RING["b"], "c" * 32: RING["c"]}, RING.values())
    assert [(limit_of(head), head.again) for head in bench.sent("c")] == [(0, False), (20, True)]
    assert not bench.keeps_events
    bench.publish(*event(2))
    assert [limit_of(head) for head in bench.sent("c")] == [0, 20, 0, 20], "nothing waits any more"
    assert bench.counters["events_without_link"] == 0


async def test_before_a_broker_leaves_what_waits_goes_to_who_stands_in() -> None:
    bench = waiting()
    bench.part()
    assert [(limit_of(head), head.again) for head in bench.sent("b")] == [(20, False), (0, True)]
    assert not bench.keeps_events


async def test_who_is_back_in_a_later_life_has_no_part_of_the_ring_until_it_has_a_place() -> None:
    """It would take what waited for it and what comes after, and pass on nothing."""
    bench, c = waiting(), "c" * 32
    later = replace(RING["c"].peer, incarnation=2)
    link = bench.links[c, NORMAL] = Link(later, NORMAL, bench.connection(False), 0)
    _, _, orphans = bench.streams.attach((c, NORMAL), later, 1, link.connection.outbox)
    assert orphans != []
    bench.on_orphans(later, NORMAL, orphans)
    bench.publish(*event(2))
    assert [(head.sequence, limit_of(head)) for head in bench.sent("b")] == [
        (1, 20),
        (1, 0),
        (2, 0),
    ]
    assert bench.sent("c") == []


async def test_nor_where_its_old_link_has_not_broken_yet() -> None:
    """It is back before anybody has missed it; the ring hears of that after its stream goes on."""
    bench, c = Bench(), "c" * 32
    bench.acknowledged("c")
    bench.publish(*event())
    later = replace(RING["c"].peer, incarnation=2)
    bench.links[c, NORMAL] = link = Link(later, NORMAL, bench.connection(False), 0)
    _, _, orphans = bench.streams.attach((c, NORMAL), later, 1, link.connection.outbox)
    assert orphans != []
    bench.on_orphans(later, NORMAL, orphans)
    assert [(limit_of(head), head.again) for head in bench.sent("b")] == [(20, False), (0, True)]
    assert bench.sent("c") == []


async def test_nor_where_nothing_has_waited_for_it() -> None:
    bench, c = Bench(), "c" * 32
    bench.acknowledged("c")
    bench.cut("c", NORMAL)
    b = {"b" * 32: RING["b"]}
    bench.update(RING["a"], b, [RING["b"], RING["c"]])
    later = replace(RING["c"].peer, incarnation=2)
    bench.links[c, NORMAL] = Link(later, NORMAL, bench.connection(False), 0)
    bench.update(RING["a"], b, [RING["b"], RING["c"]])
    bench.publish(*event())
    assert ([limit_of(head) for head in bench.sent("b")], bench.sent("c")) == ([0], [])


async def test_a_ring_neighbour_that_nobody_judges_is_not_waited_for_for_ever() -> None:
    bench = waiting()
    while bench.keeps_events:
        assert len(bench.sent("b")) == 1, "it waits for its link still"
        due = bench.next_deadline()
        assert due is not None
        assert bench.now < due <= nanos(21)
        bench.now = due
        bench.expire()
    assert nanos(20) <= bench.now
    assert [(limit_of(head), head.again) for head in bench.sent("b")] == [(20, False), (0, True)]
    assert bench.next_deadline() is None


async def test_that_a_broker_is_dead_counts_at_once_though_nothing_else_changes() -> None:
    bench = Bench()
    bench.acknowledged("c")
    bench.publish(*event())
    bench.cut("c", NORMAL)
    bench.update(RING["a"], {"b" * 32: RING["b"]}, [RING["b"]])
    bench.expire()
    assert bench.next_deadline() == HOLD_NS
    assert len(bench.sent("b")) == 1
    bench.dead.add("c")
    bench.now = bench.next_deadline() or nanos(0)
    assert 0 < bench.now < HOLD_NS // 10
    bench.expire()
    assert [(limit_of(head), head.again) for head in bench.sent("b")] == [(20, False), (0, True)]
    assert not bench.keeps_events


async def test_a_link_to_one_whose_place_is_not_known_yet_is_no_reason_to_look_all_the_time() -> (
    None
):
    bench = Bench()
    bench.acknowledged("c")
    bench.publish(*event())
    link = bench.links["c" * 32, NORMAL]
    bench.cut("c", NORMAL)
    bench.dead.add("c")
    bench.links["c" * 32, NORMAL] = link  # it has been started again, and has not joined yet
    bench.streams.attach(("c" * 32, NORMAL), link.peer, 1, link.connection.outbox)
    bench.update(RING["a"], {"b" * 32: RING["b"]}, [RING["b"]])
    looks = 0
    while (due := bench.next_deadline()) is not None and due < nanos(5):
        bench.now, looks = due, looks + 1
        bench.expire()
    assert looks < 40


async def test_where_it_was_alone_in_its_part_of_the_ring_nothing_is_lost() -> None:
    bench = Bench()
    bench.acknowledged("b")
    bench.publish(*event())
    assert [limit_of(head) for head in bench.sent("b")] == [20]
    bench.gone("b")
    assert [limit_of(head) for head in bench.sent("c")] == [0]
    assert bench.counters["events_unacknowledged_dropped"] == 0


async def test_events_that_went_too_far_are_counted() -> None:
    bench = Bench()
    _, body = event()
    far = under_way(body, NO_DUTY, hops=MAX_HOPS)
    bench.relay(read_head(far), far)
    assert bench.counters["events_too_many_hops"] == 1
    assert bench.sent("b") == bench.sent("c") == []
