"""A slow reader harms itself alone: a publisher and a subscriber that keep up do not notice it."""

from __future__ import annotations

import itertools

import pytest
import trio
from trio.testing import MockClock

from benchmarks.stage.brokers import Brokers, attach
from benchmarks.stage.greetings import client_hello
from benchmarks.stage.virtual import LATENCY_MS, Weather
from ges.broker import Broker
from ges.client import Client, Subscription
from ges.wire.asked import Ask
from ges.wire.client_messages import CLIENT_CODEC, Subscribe
from overlay.address import parse_url
from overlay.ids import SECRET_BYTES
from overlay.net.connection import BROKEN
from overlay.queues.lanes import Policy
from overlay.wire.greetings import GREETINGS
from tests.ges.routing.test_express import ports

MIB = 1024 * 1024
READERS = 10
SLOW = 1.2 * MIB  #: bytes a second that each of them takes
QUICK = 40 * MIB  #: ... and that the others take
PAYLOAD = bytes(50_000)
COUNT = 1600  #: events: two seconds' worth
LEAST_RATIO = 0.8
MOST_RATIO = 2.0
PACE = 1000  #: events a second


async def strangers(broker: Broker, weather: Weather, nursery: trio.Nursery, rate: float) -> None:
    """Let some subscribe to all; who is cut off comes again."""
    for number in range(READERS):
        await nursery.start(stranger, broker, weather, number, rate)


async def stranger(
    broker: Broker,
    weather: Weather,
    number: int,
    rate: float,
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    hello = GREETINGS.encode(client_hello(bytes([number + 1]) * SECRET_BYTES))
    port = 20_000 + number
    weather.rate[frozenset((port, parse_url(broker.url).port))] = rate
    for turn in itertools.count():
        stream = await weather.network.connect(f"chordal://127.0.0.1:{port}", broker.url)
        try:
            await stream.send_all(hello + CLIENT_CODEC.encode(Subscribe(1, Ask("#"))))
            await stream.receive_some()
            if not turn:
                task_status.started()
            while await stream.receive_some():
                pass
        except BROKEN:
            pass
        finally:
            with trio.move_on_after(1) as scope:
                scope.shield = True
                await stream.aclose()


async def take(events: Subscription, late: list[float]) -> None:
    """Take all, and note how late each comes, in seconds."""
    for number in range(1, COUNT + 1):
        event = await anext(events)
        assert event.sequence == number
        late.append(trio.current_time() - float(event.attributes["at"]))


async def flow(publisher: Client, events: Subscription, pace: float) -> tuple[float, float]:
    """Return seconds until all has come, and how late the latest hundredth was."""
    late: list[float] = []
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take, events, late)
        for number in range(COUNT):
            if pace:
                await trio.sleep_until(began + number / pace)
            at = {"at": repr(trio.current_time())}
            await publisher.publish("t", bytes(4096) if pace else PAYLOAD, attributes=at)
    return trio.current_time() - began, sorted(late)[COUNT * 99 // 100]


async def measured(
    brokers: Brokers, weather: Weather, rate: float | None, place: str, pace: float, policy: Policy
) -> tuple[float, float, Broker]:
    """Return the same beside strangers that take so much each (None: without any)."""
    here = await brokers.start(slow_clients=policy)
    there = await brokers.start(slow_clients=policy) if place == "there" else here
    await brokers.whole()
    async with (
        trio.open_nursery() as nursery,
        attach(here) as publisher,
        attach(here) as subscriber,
        subscriber.subscribe("t") as events,
    ):
        weather.rate[ports(here, subscriber)] = QUICK
        if rate is not None:
            await strangers(there, weather, nursery, rate)
        seconds, p99 = await flow(publisher, events, pace)
        nursery.cancel_scope.cancel()
    for broker in {here, there}:
        await brokers.dismiss(broker)
    return seconds, p99, there


@pytest.mark.parametrize(
    ("policy", "place"),
    [
        (Policy.DISCONNECT, "here"),
        pytest.param(Policy.DROP_OLDEST, "here", marks=pytest.mark.soak),
        pytest.param(Policy.DISCONNECT, "there", marks=pytest.mark.soak),
    ],
)
async def test_a_pair_has_the_rate_that_it_has_beside_quick_readers(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers, policy: Policy, place: str
) -> None:
    undisturbed, _, _ = await measured(brokers, weather, QUICK, place, 0, policy)
    seconds, _, broker = await measured(brokers, weather, SLOW, place, 0, policy)
    assert undisturbed / seconds >= LEAST_RATIO
    counters = broker.status().counters
    acted = "clients_too_slow" if policy is Policy.DISCONNECT else "events_dropped_for_clients"
    assert counters[acted] >= READERS


@pytest.mark.parametrize("place", ["here", pytest.param("there", marks=pytest.mark.soak)])
async def test_its_events_are_not_late(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers, place: str
) -> None:
    _, undisturbed, _ = await measured(brokers, weather, None, place, PACE, Policy.DISCONNECT)
    assert undisturbed >= 2 * LATENCY_MS / 1000
    _, p99, _ = await measured(brokers, weather, SLOW, place, PACE, Policy.DISCONNECT)
    assert p99 <= MOST_RATIO * undisturbed
