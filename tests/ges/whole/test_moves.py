"""A client that loses its broker gets from the next one what it has missed: once, and in order."""

from __future__ import annotations

import pytest
import trio

from benchmarks.stage.brokers import Brokers, hang
from benchmarks.stage.waiting import until
from ges.client import Subscription, connect, keepalive
from ges.client.resuming import SLACK_SECONDS

DEADLINE_SECONDS = 20


async def numbers(subscription: Subscription, last: int) -> list[int]:
    """Read up to the event with that payload; return all payloads."""
    got: list[int] = []
    with trio.fail_after(DEADLINE_SECONDS):
        while not got or got[-1] != last:
            got.append(int((await anext(subscription)).payload))
    return got


async def test_what_came_while_a_broker_hung_is_not_missed(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepalive, "KEEP_ALIVE_SECONDS", 0.05)
    monkeypatch.setattr(keepalive, "SILENCE_SECONDS", 0.4)
    a, b = await brokers.ring_of(2)
    async with (
        connect(b.url) as publisher,
        connect(a.url) as client,
        client.subscribe("x/#") as events,
    ):
        await publisher.publish("x/1", b"0")
        assert await numbers(events, 0) == [0]
        hang(a, monkeypatch)
        monkeypatch.setattr(a.stack.deliveries, "deliver", lambda run, now: None)
        for number in range(1, 400):
            await publisher.publish(f"x/{number % 3}", b"%d" % number)
            await publisher.publish("y", b"-1")
            await trio.sleep(0.002)
        await until(lambda: client.gaps, DEADLINE_SECONDS)
        assert client.broker_url == b.url
        await publisher.publish("x/1", b"400")
        assert await numbers(events, 400) == list(range(1, 401))
        assert b.driver.counters["events_replayed"] > 0


async def test_a_publisher_that_began_meanwhile_is_not_missed(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = await brokers.ring_of(2)
    async with connect(a.url) as client, client.subscribe("x") as events:
        await client.status()
        monkeypatch.setattr(a.stack.deliveries, "deliver", lambda run, now: None)
        async with connect(b.url) as publisher:
            for number in range(10):
                await publisher.publish("x", b"%d" % number, confirm=True)
        brokers.kill(a)
        assert await numbers(events, 9) == list(range(10))


async def test_a_new_subscription_gets_nothing_old(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    async with (
        connect(b.url) as publisher,
        connect(a.url) as client,
        client.subscribe("x") as x,
    ):
        await publisher.publish("x", b"0")
        assert await numbers(x, 0) == [0]
        await publisher.publish("y", b"1", confirm=True)
        await trio.sleep(SLACK_SECONDS + 0.05)
        async with client.subscribe("y") as y:
            brokers.kill(a)
            await until(lambda: client.gaps, DEADLINE_SECONDS)
            await publisher.publish("y", b"2")
            await publisher.publish("x", b"3")
            assert await numbers(y, 2) == [2]
            assert await numbers(x, 3) == [3]
            async with client.subscribe("#") as rest:
                await publisher.publish("y", b"4")
                assert await numbers(rest, 4) == [4]


async def test_what_a_broker_took_and_did_not_pass_on_is_not_lost(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is published again at the next broker, although it was confirmed."""
    a, b = await brokers.ring_of(2)
    async with (
        connect(a.url) as publisher,
        connect(b.url) as client,
        client.subscribe("x") as events,
    ):
        await publisher.publish("x", b"0", confirm=True)
        assert await numbers(events, 0) == [0]
        monkeypatch.setattr(a.stack.passing, "pass_on", lambda *args: None)
        for number in range(1, 20):
            await publisher.publish("x", b"%d" % number)
        await publisher.flush()
        brokers.kill(a)
        await publisher.publish("x", b"20")
        assert await numbers(events, 20) == list(range(1, 21))
        await publisher.flush()
