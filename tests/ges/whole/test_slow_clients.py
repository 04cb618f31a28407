"""Clients that read too slowly: bounded memory, nobody else held up for long, losses counted."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
import trio
from trio.testing import MockClock

from benchmarks.stage.brokers import Brokers, attach
from benchmarks.stage.virtual import Weather
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.cli.main import main
from ges.client import Client, Subscription
from ges.errors import ConnectionLost
from ges.sessions import clients
from ges.sessions.session import Session
from overlay.ids import LinkClass
from overlay.net.connection import HOLD_SECONDS
from overlay.queues.lanes import Policy
from overlay.wire.fragments import SLICE_BYTES
from tests.ges.routing.test_express import ports

NORMAL, EXPRESS = LinkClass.NORMAL, LinkClass.EXPRESS
LIMIT = 2 * 1024 * 1024
COUNT = 200
PAYLOAD = bytes(50_000)  #: all events together are five times the limit
SLOW = 100_000  #: bytes a second


@pytest.fixture(autouse=True)
def small_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "CLIENT_QUEUE_BYTES", LIMIT)


def session_of(broker: Broker, client: Client) -> Session:
    (session,) = [s for s in broker.clients._sessions if s.uid == client.uid]
    return session


async def numbers(events: Subscription, last: int) -> list[int]:
    """Take events up to the last published; returns their numbers."""
    found: list[int] = []
    while not found or found[-1] != last:
        found.append((await anext(events)).sequence)
    return found


@pytest.mark.parametrize("link_class", [NORMAL, EXPRESS])
async def test_the_oldest_events_for_a_slow_client_go_and_are_counted(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers, link_class: LinkClass
) -> None:
    broker = await brokers.start(slow_clients=Policy.DROP_OLDEST)
    async with (
        attach(broker) as slow,
        attach(broker) as quick,
        attach(broker) as publisher,
        slow.subscribe("#") as late,
        quick.subscribe("#") as early,
    ):
        queue = session_of(broker, slow).connection
        weather.rate[ports(broker, slow)] = SLOW
        began = trio.current_time()
        largest = 0
        for _ in range(COUNT):
            await publisher.publish("t", PAYLOAD, link_class=link_class, confirm=True)
            largest = max(largest, queue.queued_bytes)
        assert await numbers(early, COUNT) == [*range(1, COUNT + 1)]
        # Ten megabytes at that rate would take 100 s.
        assert trio.current_time() - began < 2 * HOLD_SECONDS + COUNT * 0.01
        assert LIMIT // 2 < largest <= LIMIT + SLICE_BYTES
        with trio.fail_after(60):
            got = await numbers(late, COUNT)
            assert got == sorted(set(got))
            which = 0 if link_class is NORMAL else 1
            await until(lambda: slow.dropped[which] == COUNT - len(got))
        assert slow.dropped[1 - which] == 0
        assert 0 < len(got) < COUNT // 2
        name = ("events_dropped_for_clients", "express_dropped_for_clients")[which]
        assert broker.status().counters[name] == COUNT - len(got)
    await until(lambda: broker.clients.size == 0)
    assert broker.status().counters[name] == COUNT - len(got), "after it has gone, too"


async def test_a_client_that_takes_hardly_anything_is_not_waited_for(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    """Publishers are held back a little, and then no more: the queue fills, and it is cut off."""
    broker = await brokers.start()

    async def publish(publisher: Client) -> None:
        async with attach(broker, reattach=False) as slow, slow.subscribe("#"):
            weather.rate[ports(broker, slow)] = 1
            began = trio.current_time()
            for _ in range(COUNT):
                await publisher.publish("t", PAYLOAD, confirm=True)
            assert trio.current_time() - began < 2 * HOLD_SECONDS + COUNT * 0.01
            await trio.sleep_forever()

    async with attach(broker) as publisher:
        with pytest.raises(ConnectionLost):
            await publish(publisher)
        assert broker.status().counters["clients_too_slow"] == 1
        assert broker.clients.size == 1


async def test_many_that_take_hardly_anything_hold_others_back_no_longer_than_one(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    """Else a broker with some of them would not read its neighbours' heartbeats for seconds."""
    broker = await brokers.start(slow_clients=Policy.DROP_OLDEST)
    async with AsyncExitStack() as stack:
        for _ in range(8):
            slow = await stack.enter_async_context(attach(broker))
            await stack.enter_async_context(slow.subscribe("#"))
            weather.rate[ports(broker, slow)] = 1
        publisher = await stack.enter_async_context(attach(broker))
        began = trio.current_time()
        for _ in range(COUNT):
            await publisher.publish("t", PAYLOAD, confirm=True)
        assert trio.current_time() - began < 2 * HOLD_SECONDS + COUNT * 0.01


async def test_a_client_that_reads_on_is_waited_for(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    """Ten megabytes for a client that takes four a second: nothing is lost, nobody cut off."""
    broker = await brokers.start()
    async with (
        attach(broker) as steady,
        attach(broker) as publisher,
        steady.subscribe("#") as events,
        trio.open_nursery() as nursery,
    ):
        weather.rate[ports(broker, steady)] = 4_000_000

        async def publish() -> None:
            for _ in range(COUNT):
                await publisher.publish("t", PAYLOAD)

        nursery.start_soon(publish)
        with trio.fail_after(60):
            assert await numbers(events, COUNT) == [*range(1, COUNT + 1)]
    assert "clients_too_slow" not in broker.status().counters


def test_a_policy_that_is_none_is_refused_by_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--slow-clients", "forget"])
    assert ended.value.code == 2
    assert "drop_oldest" in capsys.readouterr().err
