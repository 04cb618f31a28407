"""Events for brokers that one comes to know late, as after a cut."""

from __future__ import annotations

import tracemalloc
from itertools import accumulate

import pytest

from ges.routing.arc_plan import whole_ring
from ges.routing.catch_up import KEPT_BYTES, KEPT_NS, UNSURE_NS, CatchUp
from ges.routing.holding import Holding
from ges.routing.outlets import EventLines
from ges.routing.plans import Plans
from ges.wire.event_runs import EventRun, event_runs
from ges.wire.events import pack_event, read_head
from overlay.ids import LinkClass, nanos
from overlay.links.link import Link
from overlay.queues.streams import Streams
from overlay.wire.frames import EVENT, frame
from tests.helpers.clusters import HandCluster
from tests.helpers.router_bench import (
    NORMAL,
    PUBLISHER,
    RING,
    SECURE,
    Bench,
    complete,
    event,
    limit_of,
    member,
)
from tests.helpers.runs import under_way

D, E = member("d", 5), member("e", 15)


def know(bench: Bench, *names: str, is_whole: bool = False) -> None:
    """Broker ``a`` is linked to these on the ring."""
    linked = {m.uid: m for m in (*RING.values(), D, E) if m.uid[0] in names}
    bench.update(RING["a"], linked, linked.values(), is_whole=is_whole)


def link(bench: Bench, name: str, link_class: LinkClass = NORMAL) -> None:
    """A link to a broker is up."""
    peer = {"d": D, "e": E}[name].peer
    connection = bench.connection(link_class is SECURE)
    bench.links[peer.uid, link_class] = Link(peer, link_class, connection, 0)


def unsure(*secure: str, limit_bytes: int = 10_000) -> Bench:
    """Broker ``a`` is back from a cut, and does not know yet who stands beside it."""
    bench = Bench(*secure, limit_bytes=limit_bytes)
    know(bench, "b", "c")
    return bench


async def test_who_turns_up_gets_what_was_passed_on_before_and_nobody_else_does() -> None:
    bench = unsure()
    bench.publish(*event())
    link(bench, "d")
    know(bench, "b", "c", "d")
    assert [(head.sequence, limit_of(head), head.again) for head in bench.sent("d")] == [
        (1, 10, True)
    ]
    assert (len(bench.sent("b")), len(bench.sent("c"))) == (1, 1)
    assert bench.counters["events_sent_late"] == 1
    know(bench, "b", "c", "d", is_whole=True)
    know(bench, "b", "c", is_whole=True)
    know(bench, "b", "c", "d", is_whole=True)
    assert len(bench.sent("d")) == 1, "once"


async def test_who_turns_up_beyond_the_nearest_is_left_to_that_one() -> None:
    bench = unsure()
    bench.publish(*event())
    link(bench, "e")
    know(bench, "b", "c", "e")
    assert bench.sent("e") == []


async def test_who_turns_up_in_another_part_of_the_ring_gets_nothing() -> None:
    bench = unsure()
    know(bench, "c")
    _, body = event()
    body = under_way(body, whole_ring(10), hops=1)
    bench.relay(read_head(body), body)
    assert bench.sent("c") == []
    for name in "de":
        link(bench, name)
    know(bench, "c", "d", "e")
    assert [(limit_of(head), head.again) for head in bench.sent("d")] == [(10, True)]
    assert bench.sent("e") == [], "it is not in the part of the ring that is served from here"


async def test_in_a_ring_that_is_whole_nothing_is_kept() -> None:
    bench = unsure()
    know(bench, "b", "c", is_whole=True)
    bench.publish(*event())
    link(bench, "d")
    know(bench, "b", "c", "d", is_whole=True)
    assert bench.sent("d") == []
    assert bench.next_deadline() is None


async def test_events_that_come_together_are_kept_together() -> None:
    bench = unsure()
    frames = [frame(EVENT, event(number)[1]) for number in (1, 2, 3)]
    bounds = list(accumulate(map(len, frames), initial=0))
    for run in event_runs(b"".join(frames), bounds):
        bench.publish_run(run)
    link(bench, "d")
    know(bench, "b", "c", "d")
    assert [(head.sequence, head.again) for head in bench.sent("d")] == [
        (1, True),
        (2, True),
        (3, True),
    ]
    assert bench.counters["events_sent_late"] == 3


async def test_who_has_moved_on_the_ring_has_another_part_of_it() -> None:
    bench = unsure()
    bench.publish(*event())
    link(bench, "d")
    linked = {m.uid: m for m in (RING["b"], RING["c"], D)}
    bench.update(member("a", 2), linked, linked.values(), is_whole=False)
    assert bench.sent("d") == []


async def test_secure_events_go_to_latecomers_over_secure_links() -> None:
    bench = unsure("b", "c")
    complete(bench, "a", "b", "c")
    bench.publish(*event(secure=True))
    link(bench, "d")
    know(bench, "b", "c", "d")
    assert bench.sent("d") == []
    link(bench, "d", SECURE)
    know(bench, "b", "c", "d")
    assert [head.secure for head in bench.sent("d", SECURE)] == [True]
    assert bench.sent("d") == []


async def test_a_secure_event_that_goes_to_all_goes_to_latecomers_as_well() -> None:
    bench = unsure("b")
    bench.publish(*event(secure=True))
    assert [head.flood for head in bench.sent("b", SECURE)] == [True]
    link(bench, "e", SECURE)
    know(bench, "b", "c", "e")
    assert [head.flood for head in bench.sent("e", SECURE)] == [True]
    know(bench, "b", "c")
    assert (len(bench.sent("b", SECURE)), len(bench.sent("e", SECURE))) == (1, 1)


async def test_what_nobody_waits_for_any_more_is_forgotten() -> None:
    bench = unsure()
    bench.publish(*event())
    assert bench.next_deadline() == KEPT_NS
    bench.now = KEPT_NS
    bench.expire()
    assert bench.next_deadline() is None
    link(bench, "d")
    know(bench, "b", "c", "d")
    assert bench.sent("d") == []


async def test_a_ring_that_is_not_whole_for_long_is_as_good_as_whole() -> None:
    bench = unsure()
    bench.now = nanos(2)
    know(bench, "b", "c")
    bench.now = UNSURE_NS
    bench.publish(*event())
    assert bench.next_deadline() is None, "that nothing changes is no news"
    know(bench, "b")
    bench.publish(*event(2))
    assert bench.next_deadline() == UNSURE_NS + KEPT_NS


async def test_a_ring_that_is_no_longer_whole_is_in_doubt_though_its_links_are_the_same() -> None:
    bench = Bench()
    know(bench, "b", "c", is_whole=True)
    know(bench, "b", "c")
    bench.publish(*event())
    assert bench.next_deadline() == KEPT_NS


async def test_what_is_kept_is_looked_through_once_and_not_event_by_event() -> None:
    bench = unsure()
    bench.publish(*event())
    bench.now = nanos(1)
    bench.publish(*event(2))
    assert bench.next_deadline() == nanos(1) + KEPT_NS
    bench.now = KEPT_NS
    bench.publish(*event(3))
    link(bench, "d")
    know(bench, "b", "c", "d")
    assert [head.sequence for head in bench.sent("d")] == [2]


def publish_quarter(bench: Bench, number: int) -> None:
    """Publish an event of a quarter of what is kept, and a little more."""
    body = pack_event(False, PUBLISHER, 1, number, 0, b"t", b"", bytes(KEPT_BYTES // 4))
    bench.publish(read_head(body), body)


async def test_no_more_is_kept_than_a_few_megabytes() -> None:
    bench = unsure(limit_bytes=4 * KEPT_BYTES)
    for number in range(1, 9):
        publish_quarter(bench, number)
    link(bench, "d")
    know(bench, "b", "c", "d")
    assert len(bench.sent("d")) == 3, "the latest"


async def test_what_was_kept_at_another_place_does_not_count() -> None:
    bench = unsure(limit_bytes=4 * KEPT_BYTES)
    for number in (1, 2, 3):
        publish_quarter(bench, number)
    linked = {m.uid: m for m in (RING["b"], RING["c"])}
    moved = member("a", 2)
    bench.update(moved, linked, linked.values(), is_whole=False)
    for number in (4, 5, 6):
        publish_quarter(bench, number)
    link(bench, "d")
    linked[D.uid] = D
    bench.update(moved, linked, linked.values(), is_whole=False)
    assert [head.sequence for head in bench.sent("d")] == [4, 5, 6]


async def test_who_is_back_in_a_later_life_gets_what_waited_for_it() -> None:
    """It was held for dead and lives: nobody else stands in its part of the ring."""
    bench = Bench()
    bench.acknowledged("c")
    bench.publish(*event())
    assert len(bench.sent("c")) == 1
    kept = bench.links["c" * 32, NORMAL]
    bench.gone("c")
    bench.links["c" * 32, NORMAL] = Link(kept.peer, NORMAL, bench.connection(False), 0)
    know(bench, "b", "c")
    assert [(limit_of(head), head.again) for head in bench.sent("c")] == [(0, True)]


async def test_a_broker_that_is_off_the_ring_gives_nothing_up_before_it_is_on_it_again() -> None:
    """It stands nowhere: whom it would give events to in place of others it cannot say."""
    bench = Bench()
    bench.acknowledged("c")
    bench.publish(*event())
    bench.cut("c", NORMAL)
    bench.dead.add("c")
    bench.update(None, {}, ())
    bench.expire()
    assert bench.keeps_events
    know(bench, "b")
    assert [(limit_of(head), head.again) for head in bench.sent("b")] == [(20, False), (0, True)]


async def test_however_many_duties_events_come_with_what_is_kept_of_them_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ges.routing.arc_plan.MAX_CACHED", 16)  # what plans remember is theirs
    holding = Holding(Streams(), lambda peer: False, lambda peer: False)
    plans = Plans(EventLines({}), holding, HandCluster())
    plans.here = 0
    others = [member(f"{number:032x}", 1000 * number) for number in range(1, 61)]
    holding.note({m.uid: m for m in others}, others, is_member=True)
    plans.lay()
    kept = CatchUp(plans)
    kept.note(0, "before", is_whole=False, now=0)
    run = EventRun.of(*event())
    tracemalloc.start()
    try:
        for number in range(40_000):
            kept.keep(run, whole_ring(number), 0, NORMAL, number)
        kept.missed(number)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < KEPT_BYTES


async def test_what_went_to_nobody_goes_to_those_that_serve_that_part_of_the_ring_now() -> None:
    """Alone, it was to serve the ring up to 10; then it is back at another place."""
    bench = Bench()
    know(bench)
    _, body = event()
    body = under_way(body, whole_ring(10), hops=1)
    bench.relay(read_head(body), body)
    link(bench, "d")
    linked = {m.uid: m for m in (RING["b"], RING["c"], D)}
    bench.update(member("a", 12), linked, linked.values(), is_whole=True)
    got = {n: [(limit_of(head), head.again) for head in bench.sent(n)] for n in "bcd"}
    assert got == {"b": [], "c": [(5, True)], "d": [(10, True)]}


async def test_what_was_published_while_alone_goes_to_all_from_another_place() -> None:
    bench = Bench()
    know(bench)
    bench.publish(*event())
    linked = {m.uid: m for m in (RING["b"], RING["c"])}
    bench.update(member("a", 2), linked, linked.values(), is_whole=True)
    assert [(head.sequence, head.again) for head in bench.sent("b")] == [(1, True)]
    assert [(head.sequence, head.again) for head in bench.sent("c")] == [(1, True)]
    bench.update(RING["a"], linked, linked.values(), is_whole=True)
    assert len(bench.sent("b")) == 1, "once"
