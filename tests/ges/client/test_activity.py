"""``subscription.active``: set when the broker says so, and never waited for without an end."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.waiting import until
from ges.client import Gap, Level, Subscription, connect
from ges.client.attachment import TRIO
from ges.errors import ClientClosed, ConnectionLost, SubscribeRefused
from ges.wire.asked import Ask
from tests.ges.client.test_client import next_of

DEADLINE_SECONDS = 20


async def test_active_means_that_an_event_from_any_broker_comes(brokers: Brokers) -> None:
    ring = await brokers.ring_of(3)
    async with connect(ring[0].url) as client, client.subscribe("a/#") as events:
        with trio.fail_after(DEADLINE_SECONDS):
            await events.active.wait()
        assert events.active.is_set()
        assert events.active.levels == (Level.SYSTEM,), "one cluster is all of the overlay"
        for broker in ring[1:]:
            async with connect(broker.url) as publisher:
                await publisher.publish("a/b", broker.url.encode())
            assert [event.payload for event in await next_of(events)] == [broker.url.encode()]


async def test_after_a_move_the_next_broker_says_it_again(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    seen: list[Subscription] = []
    was_active: list[bool] = []

    def note(gap: Gap) -> None:
        was_active.append(seen[0].active.is_set())

    async with connect(a.url, b.url, on_gap=note) as client, client.subscribe("a") as events:
        seen.append(events)
        with trio.fail_after(DEADLINE_SECONDS):
            await events.active.wait()
            brokers.kill(a)
            await until(lambda: client.broker_url == b.url)
            await events.active.wait()
        assert was_active == [False]


async def test_who_waits_is_told_that_the_block_has_ended(brokers: Brokers) -> None:
    broker = await brokers.start()
    with trio.fail_after(DEADLINE_SECONDS):
        async with connect(broker.url) as client:
            async with client.subscribe("a") as events:
                await events.active.wait()
            assert not events.active.is_set()
            with pytest.raises(ClientClosed, match="the subscription to a has ended"):
                await events.active.wait()


async def test_who_waits_is_told_that_there_is_no_broker_any_more(brokers: Brokers) -> None:
    broker = await brokers.start()
    kept: list[Subscription] = []

    async def lose() -> None:
        async with connect(broker.url, reattach=False) as client, client.subscribe("a") as events:
            kept.append(events)
            await events.active.wait()
            brokers.kill(broker)
            await until(lambda: not events.active.is_set())
            await events.active.wait()

    with trio.fail_after(DEADLINE_SECONDS), pytest.raises(ConnectionLost):
        await lose()
    assert not kept[0].active.is_set()


def test_one_that_is_refused_later_says_so() -> None:
    subscription = Subscription(TRIO, 1, Ask("a"))
    subscription.active.set(Level.SYSTEM)
    subscription.end("no more")

    async def wait() -> None:
        with pytest.raises(SubscribeRefused, match="a: no more"):
            await subscription.active.wait()

    trio.run(wait)


def test_one_is_active_in_a_unit_before_it_is_everywhere() -> None:
    subscription = Subscription(TRIO, 1, Ask("a"))
    reached: list[str] = []

    async def wait(level: Level) -> None:
        await subscription.wait_active(level)
        reached.append(level.name)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for level in Level:
                nursery.start_soon(wait, level)
            await wait_all_tasks_blocked()
            assert reached == []
            subscription.active.set(Level.CLUSTER)
            await wait_all_tasks_blocked()
            assert reached == ["CLUSTER"]
            assert not subscription.active.is_set()
            assert subscription.active.is_set(Level.CLUSTER)
            subscription.active.set(Level.SUPER_SUPER_CLUSTER)
            await wait_all_tasks_blocked()
            assert sorted(reached) == ["CLUSTER", "SUPER_CLUSTER", "SUPER_SUPER_CLUSTER"]
            subscription.active.set(Level.SYSTEM)
            subscription.active.set(Level.CLUSTER)  # said again, it changes nothing
        assert subscription.active.is_set()
        assert [level.value for level in subscription.active.levels] == [1, 3, 4]
        subscription.active.clear()
        assert subscription.active.level is None

    trio.run(main)
