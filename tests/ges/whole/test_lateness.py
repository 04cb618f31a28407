"""Express events that are late are called late, others are not; whole brokers, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from benchmarks.stage.brokers import Brokers, attach
from benchmarks.stage.virtual import Weather
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import Client, Subscription
from ges.wire.delivered import Event
from overlay.address import parse_url
from overlay.ids import LinkClass
from overlay.net.connection import Connection

NORMAL, EXPRESS = LinkClass.NORMAL, LinkClass.EXPRESS
KERNEL_US = 20  #: what the kernel says is the way to the other end: a proxy on the same machine
BUDGET_MS = 10
SLOW_MS = 60
KNOWN_SECONDS = 2  #: within which a link that carries events is known to be slow


@pytest.fixture
def weather(monkeypatch: pytest.MonkeyPatch) -> Weather:
    monkeypatch.setattr(Connection, "one_way_us", KERNEL_US)
    return Weather()


def ports(a: Broker, b: Broker) -> frozenset[int]:
    return frozenset(parse_url(broker.url).port for broker in (a, b))


def late(broker: Broker) -> dict[LinkClass, int]:
    """Return how many events were found late, by the class of the link they came over."""
    return {link.link_class: link.late for link in broker.status().links if link.late}


class Alarms:
    """A publisher and a subscriber of express events."""

    def __init__(self, publisher: Client, events: Subscription) -> None:
        self._publisher = publisher
        self._events = events

    async def one(self) -> Event:
        await self._publisher.publish("alarm", link_class=EXPRESS, budget=BUDGET_MS / 1000)
        return await anext(self._events)

    async def flow(self, seconds: float, every: float = 0.1) -> list[Event]:
        """Publish for so long; returns what came."""
        came = []
        end = trio.current_time() + seconds
        while trio.current_time() < end:
            came.append(await self.one())
            await trio.sleep(every)
        return came


@asynccontextmanager
async def alarms(a: Broker, b: Broker) -> AsyncIterator[Alarms]:
    async with attach(a) as here, attach(b) as there, there.subscribe("alarm") as events:
        yield Alarms(here, events)


async def pair_of(brokers: Brokers, express_ms: float) -> tuple[Broker, Broker]:
    a, b = [await brokers.start(express_ms=express_ms) for _ in range(2)]
    if express_ms:
        await until(lambda: a.node.express_links != () and b.node.express_links != ())
    await trio.sleep(10)
    return a, b


@pytest.mark.parametrize(
    ("express_ms", "link_class"),
    [
        pytest.param(5000, EXPRESS, id="over an express link"),
        pytest.param(5, NORMAL, id="over the normal one beside a demoted one"),
        pytest.param(0, NORMAL, id="over a normal link, and no express one"),
    ],
)
@pytest.mark.parametrize("every", [0.1, 1.0])
async def test_events_over_a_link_that_has_become_slow_are_late_within_seconds(
    autojump_clock: MockClock,
    weather: Weather,
    brokers: Brokers,
    express_ms: float,
    link_class: LinkClass,
    every: float,
) -> None:
    a, b = await pair_of(brokers, express_ms)
    async with alarms(a, b) as events:
        came = await events.flow(5, every)
        assert [event.late for event in came] == [False] * len(came)
        weather.latency_ms[ports(a, b)] = SLOW_MS
        await events.flow(KNOWN_SECONDS, every)
        before = late(b)
        came = await events.flow(5, every)
        assert [event.late for event in came] == [True] * len(came)
        for event in came:
            assert SLOW_MS <= event.spent_us / 1000 < SLOW_MS + 5
        assert came[-1].express_path == (link_class is EXPRESS)
        assert sum(late(b).values()) - sum(before.values()) == len(came)
        before = late(b)
        came = await events.flow(5, every)  # up to now some may have come over the other link
        counted = {kind: count - before.get(kind, 0) for kind, count in late(b).items()}
        assert {kind: count for kind, count in counted.items() if count} == {link_class: len(came)}
        assert late(a) == {}
        del weather.latency_ms[ports(a, b)]
        await events.flow(KNOWN_SECONDS, every)
        came = await events.flow(5, every)
        assert [event.late for event in came] == [False] * len(came)


@pytest.mark.parametrize("express_ms", [pytest.param(5000, marks=pytest.mark.soak), 5])
async def test_the_first_event_after_ten_minutes_is_judged_by_what_probes_have_met(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers, express_ms: float
) -> None:
    """Of an express link, and of the normal one beside it."""
    a, b = await pair_of(brokers, express_ms)
    async with alarms(a, b) as events:
        assert not (await events.one()).late
        await trio.sleep(600)
        weather.latency_ms[ports(a, b)] = SLOW_MS
        await trio.sleep(40)  # nothing is sent, so the normal link is probed every 16 s
        event = await events.one()
        assert (event.late, event.express_path) == (True, express_ms > SLOW_MS)
        assert SLOW_MS <= event.spent_us / 1000 < SLOW_MS + 5


@pytest.mark.parametrize("express_ms", [pytest.param(0, marks=pytest.mark.soak), 5])
async def test_an_event_that_passes_a_queue_by_is_not_late_by_it(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers, express_ms: float
) -> None:
    """Normal events wait both ways, and the probes of the link with them."""
    a, b = await pair_of(brokers, express_ms)
    weather.rate[ports(a, b)] = 20_000_000  # a write takes it three milliseconds
    async with alarms(a, b) as events, trio.open_nursery() as nursery:

        async def flood(here: Broker, there: Broker, topic: str) -> None:
            async with (
                attach(here) as client,
                attach(there) as other,
                other.subscribe(topic) as bulk,
                trio.open_nursery() as pumps,
            ):

                async def take() -> None:
                    async for _ in bulk:
                        pass

                pumps.start_soon(take)
                while True:
                    await client.publish(topic, bytes(100_000))

        nursery.start_soon(flood, a, b, "there")
        nursery.start_soon(flood, b, a, "back")
        await trio.sleep(4)
        weights = b.node.survey.weights((a.node.peer.uid, NORMAL), b.driver.now())
        assert weights is not None
        assert weights.rtt_ns / 1e6 > 4 * BUDGET_MS
        for event in await events.flow(2):
            assert not event.late
            assert 0 < event.spent_us < BUDGET_MS * 1000
        nursery.cancel_scope.cancel()
