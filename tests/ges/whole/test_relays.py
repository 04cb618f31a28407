"""Whole brokers in virtual time: events leave a slow link and come back, in order and once each."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
import trio
from trio.testing import MockClock

from benchmarks.stage.brokers import Brokers, attach
from benchmarks.stage.virtual import Weather
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import Client, Subscription
from ges.wire.status import LinkStatus
from overlay.address import parse_url
from overlay.ids import LinkClass

NORMAL, EXPRESS = LinkClass.NORMAL, LinkClass.EXPRESS
EVENTS_EVERY = 0.05  #: seconds


def uid(broker: Broker) -> str:
    return broker.node.peer.uid


def pair(a: Broker, b: Broker) -> frozenset[int]:
    return frozenset(parse_url(broker.url).port for broker in (a, b))


def hop(a: Broker, b: Broker, link_class: LinkClass = NORMAL) -> str | None:
    """Return the uid of the broker that ``a`` sends events for ``b`` to first."""
    gateways = a.node.gateways
    slot = gateways.slots.get(uid(b))
    if slot is None:
        return None
    return gateways.uids.get(gateways.tables[link_class].next_hop(slot))


def status_of(a: Broker, b: Broker, link_class: LinkClass = NORMAL) -> LinkStatus:
    """Return what ``a`` says of its link to ``b``."""
    return {(link.uid, link.link_class): link for link in a.status().links}[uid(b), link_class]


class Traffic:
    """A publisher at one broker and a subscriber at another; every event is accounted for."""

    def __init__(self, publisher: Client, events: Subscription) -> None:
        self.late: list[float] = []  #: seconds from publisher to subscriber, event by event
        self._publisher = publisher
        self._events = events

    async def flow(self, seconds: float) -> None:
        """Publish for so long; all must come, in order, once each."""
        first = len(self.late)
        count = round(seconds / EVENTS_EVERY)
        published = []

        async def publish() -> None:
            for number in range(first, first + count):
                published.append(trio.current_time())
                await self._publisher.publish("t", b"%d" % number)
                await trio.sleep(EVENTS_EVERY)

        with trio.fail_after(seconds + 20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(publish)
                for number in range(first, first + count):
                    event = await anext(self._events)
                    assert event.payload == b"%d" % number
                    self.late.append(trio.current_time() - published[number - first])


async def traffic(stack: AsyncExitStack, a: Broker, b: Broker) -> Traffic:
    there = await stack.enter_async_context(attach(b))
    events = await stack.enter_async_context(there.subscribe("t"))
    here = await stack.enter_async_context(attach(a))
    return Traffic(here, events)


async def test_events_leave_a_slow_link_and_come_back_in_order_once_each(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    a, b, c = await brokers.ring_of(3)
    async with AsyncExitStack() as stack:
        load = await traffic(stack, a, b)
        await load.flow(10)
        assert (hop(a, b), hop(b, a)) == (uid(b), uid(a))
        assert max(load.late) < 0.01

        weather.latency_ms[pair(a, b)] = 100
        await load.flow(10)
        assert hop(a, b) == uid(c)
        assert [late < 0.01 for late in load.late[-100:]] == [True] * 100, "by way of c for 5 s"
        by_c = c.driver.counters["events_relayed"]
        assert by_c > 0
        changed = a.node.gateways.counters["next_hops_changed"]

        del weather.latency_ms[pair(a, b)]
        await load.flow(60)
        assert hop(a, b) == uid(b)
        by_c = c.driver.counters["events_relayed"]
        await load.flow(10)
        assert c.driver.counters["events_relayed"] == by_c
        assert a.node.gateways.counters["next_hops_changed"] <= changed + 2, "no flapping"
    assert brokers.findings() == []
    assert [b.stack.ordering.lost for b in (a, b, c)] == [0, 0, 0]
    assert b.driver.counters["events_duplicate"] == 0


async def test_events_leave_a_link_that_is_loaded_beyond_what_it_carries(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    a, b, c = await brokers.ring_of(3)
    await until(lambda: hop(a, b) == uid(b))
    weather.rate[pair(a, b)] = 200_000  # a full write takes it 0.3 s: less, and it is held for dead
    payload = bytes(2000)
    async with (
        attach(a) as here,
        attach(b) as there,
        there.subscribe("t") as events,
        trio.open_nursery() as nursery,
    ):

        async def publish() -> None:
            while True:  # 400 kB a second
                await here.publish("t", payload)
                await trio.sleep(0.005)

        nursery.start_soon(publish)
        with trio.fail_after(30):
            while hop(a, b) == uid(b):
                await anext(events)
        assert not a.node.ring.detours, "the ring keeps the link"
        cost_ms = status_of(a, b).cost_ms
        assert cost_ms is not None
        assert cost_ms > 10
        nursery.cancel_scope.cancel()
    assert hop(a, c) == uid(c)


async def test_what_a_loaded_link_carries_is_measured(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    a, b = await brokers.ring_of(2)
    weather.rate[pair(a, b)] = 100_000
    async with attach(a) as here, attach(b) as there, there.subscribe("t"):
        assert status_of(a, b).capacity == 0
        with trio.fail_after(30):
            while not status_of(a, b).capacity:  # at 160 kB a second
                await here.publish("t", bytes(8000))
                await trio.sleep(0.05)
        link = status_of(a, b)
    assert 75_000 < link.capacity < 150_000
    assert 40_000 < link.traffic < 125_000
    assert link.cost_ms is not None
    assert link.cost_ms > 100


async def test_a_broker_on_the_path_that_dies_is_left_at_once(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    a, b, c, d = await brokers.ring_of(4)
    weather.latency_ms[pair(a, b)] = 100
    async with AsyncExitStack() as stack:
        load = await traffic(stack, a, b)
        await load.flow(15)
        via, other = (c, d) if hop(a, b) == uid(c) else (d, c)
        assert hop(a, b) == uid(via)
        brokers.kill(via)
        await trio.sleep(1)
        await load.flow(10)
        assert hop(a, b) == uid(other)


async def test_express_links_are_made_beside_fast_links_alone(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    first = await brokers.start()
    second = await brokers.start()
    weather.latency_ms[frozenset((10_000, 10_002))] = 30
    third = await brokers.start()
    await brokers.whole()
    await trio.sleep(5)
    far = {frozenset((uid(first), uid(third)))}
    normal, express = (
        {
            frozenset((uid(broker), other))
            for broker in brokers.alive
            for other, link_class in broker.driver.links
            if link_class is wanted
        }
        for wanted in (NORMAL, EXPRESS)
    )
    assert express == normal - far
    assert len(express) == 2
    brokers.kill(second)
    await trio.sleep(5)
    assert not any(c is EXPRESS for b in brokers.alive for _, c in b.driver.links)


async def test_an_express_link_that_becomes_slow_is_demoted_and_promoted_again(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    a, b = await brokers.ring_of(2)
    await trio.sleep(5)
    assert a.node.express_links == (uid(b),)
    weather.latency_ms[pair(a, b)] = 30
    await trio.sleep(15)
    assert not a.node.express_links
    async with attach(a) as client:
        status = await client.status()
    assert [link.demoted for link in status.links] == [True, False]
    assert status.counters["express_demotions"] == 1
    assert status.express_range_ms == 5
    del weather.latency_ms[pair(a, b)]
    await trio.sleep(60)
    assert a.node.express_links == (uid(b),)
    assert a.status().counters["express_promotions"] == 1


@pytest.mark.parametrize("express_ms", [5, 100], ids=["demoted", "in use"])
async def test_express_events_leave_a_slow_link_for_express_links_that_are_faster(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers, express_ms: float
) -> None:
    """Whether the direct link is demoted, or slow and still within the range."""
    a, b, c = [await brokers.start(express_ms=express_ms) for _ in range(3)]
    await brokers.whole()
    await until(lambda: all(len(broker.node.express_links) == 2 for broker in (a, b, c)))
    await until(lambda: hop(a, b, EXPRESS) == uid(b))
    weather.latency_ms[pair(a, b)] = 60
    await until(lambda: hop(a, b, EXPRESS) == uid(c))
    is_demoted = express_ms == 5
    await until(lambda: (uid(b) not in a.node.express_links) == is_demoted)
    async with attach(a) as here, attach(b) as there, there.subscribe("t") as events:
        began = trio.current_time()
        await here.publish("t", link_class=EXPRESS, budget=0.02)
        event = await anext(events)
        assert trio.current_time() - began < 0.01, "by way of c"
    assert (event.express_path, event.late) == (True, False)


async def test_without_an_express_range_there_are_no_express_links(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    a = await brokers.start(express_ms=0)
    await brokers.start(express_ms=0)
    await trio.sleep(10)
    assert {link_class for _, link_class in a.driver.links} == {NORMAL}
