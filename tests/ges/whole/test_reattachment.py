"""When its broker dies a client goes to another, with all its subscriptions, and says so."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import trio

from benchmarks.stage.brokers import Brokers, hang
from benchmarks.stage.waiting import until
from ges.client import Client, Subscription, connect, keepalive
from ges.errors import ConnectionLost
from ges.wire.client_messages import Alternates
from overlay.ids import LinkClass

DEADLINE_SECONDS = 20


async def arrives(publisher: Client, subscription: Subscription, topic: str) -> None:
    """Publish until something arrives: links and subscriptions come back one after the other."""
    with trio.fail_after(DEADLINE_SECONDS):
        async with trio.open_nursery() as nursery:

            async def publish() -> None:
                while True:
                    await publisher.publish(topic, b"after")
                    await trio.sleep(0.02)

            nursery.start_soon(publish)
            while (await anext(subscription)).payload != b"after":
                pass
            nursery.cancel_scope.cancel()


async def test_a_broker_that_is_behind_repeats_nothing(
    brokers: Brokers, nursery: trio.Nursery
) -> None:
    """One that has just joined meets publishers in mid-stream."""
    a, b = await brokers.ring_of(2)

    async def publish() -> None:
        async with connect(b.url) as publisher:
            while True:
                await publisher.publish("x")
                await trio.sleep(0.01)

    nursery.start_soon(publish)
    await until(lambda: b.driver.counters["events_published"])
    c = await brokers.start()
    await brokers.whole()
    got: list[int] = []
    with trio.fail_after(DEADLINE_SECONDS):
        async with connect(a.url, c.url) as client, client.subscribe("x") as events:
            while len(got) < 20:
                got.append((await anext(events)).sequence)
            brokers.kill(a)
            while client.broker_url != c.url or got[-1] < got[19] + 200:
                got.append((await anext(events)).sequence)
    assert got == sorted(set(got))
    nursery.cancel_scope.cancel()


async def test_one_may_subscribe_and_publish_after_the_loss(brokers: Brokers) -> None:
    a, _ = await brokers.ring_of(2)
    async with connect(a.url) as client:
        await client.status()
        brokers.kill(a)
        with trio.fail_after(DEADLINE_SECONDS):
            async with client.subscribe("x") as events:
                await client.publish("x", b"1", confirm=True)
                assert (await anext(events)).payload == b"1"


async def test_a_subscription_that_has_ended_does_not_come_back(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    async with connect(a.url) as client, client.subscribe("x"):
        async with client.subscribe("y"):
            pass
        brokers.kill(a)
        with trio.fail_after(DEADLINE_SECONDS):
            assert (await client.status()).uid == b.node.peer.uid
        assert b.stack.deliveries.subscriptions == 1


@pytest.mark.parametrize("others", [1, 0])
async def test_alternates_that_cannot_be_called_are_passed_over(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    a, *rest = await brokers.ring_of(1 + others)
    urls = ("http://x", "chordal://x,y:1", "[/]", *(other.url for other in rest))
    monkeypatch.setattr(a.clients, "_alternates", lambda: Alternates(urls))
    lost = pytest.raises(ConnectionLost, match=f"; http://x: not a broker's URL, told by {a.url}; ")
    with nullcontext() if others else lost, trio.fail_after(DEADLINE_SECONDS):
        async with connect(a.url, timeout=2) as client:
            await until(lambda: client.alternates == tuple(other.url for other in rest))
            await client.status()
            brokers.kill(a)
            async with client.subscribe("x") as events:
                await client.publish("x", b"1", confirm=True)
                assert (await anext(events)).payload == b"1"


async def test_the_one_just_lost_is_tried_last(brokers: Brokers) -> None:
    """It may be there again, but rather one that was there all along."""
    a, b = await brokers.ring_of(2)
    async with connect(a.url) as client:
        await client.status()
        for session in list(a.clients._sessions):
            session.connection.abort()
        with trio.fail_after(DEADLINE_SECONDS):
            await until(lambda: client.gaps)
        assert client.broker_url == b.url


async def test_what_was_not_confirmed_is_published_again_elsewhere(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = await brokers.ring_of(2)
    async with connect(a.url) as client, connect(b.url) as other, other.subscribe("x") as events:
        await client.publish("x", b"0", confirm=True)
        hang(a, monkeypatch)
        for number in range(1, 20):
            await client.publish("x", b"%d" % number)
        await trio.testing.wait_all_tasks_blocked()
        brokers.kill(a)
        with trio.fail_after(DEADLINE_SECONDS):
            await client.flush()
            await client.publish("x", b"20", confirm=True)
            got = [(await anext(events)).payload for _ in range(21)]
        assert got == [b"%d" % number for number in range(21)]
        assert client.broker_url == b.url


async def test_what_was_taken_but_not_confirmed_comes_once(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    async with connect(a.url) as client, connect(b.url) as other, other.subscribe("x") as events:
        await client.publish("x", b"0", confirm=True)
        a.parts.replies.acknowledge = lambda session: None  # type: ignore[method-assign]
        for number in range(1, 20):
            await client.publish("x", b"%d" % number)
        with trio.fail_after(DEADLINE_SECONDS):
            got = [(await anext(events)).payload for _ in range(20)]
            for session in list(a.clients._sessions):
                session.connection.abort()
            await client.flush()
            await client.publish("x", b"20", confirm=True)
            got.append((await anext(events)).payload)
        assert got == [b"%d" % number for number in range(21)]
        assert client.broker_url == b.url
        assert b.driver.counters["events_duplicate"] == 20, "the first was confirmed just now"


async def test_express_events_that_were_not_confirmed_are_said_to_be_uncertain(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = await brokers.ring_of(2)
    async with connect(a.url) as client:
        await client.status()
        hang(a, monkeypatch)
        await client.publish("x", b"1", link_class=LinkClass.EXPRESS)
        await trio.testing.wait_all_tasks_blocked()
        brokers.kill(a)
        with trio.fail_after(DEADLINE_SECONDS):
            with pytest.raises(ConnectionLost, match="may or may not have been delivered"):
                await client.flush()
            await client.flush()
            await client.publish("x", b"2", confirm=True)
        assert client.broker_url == b.url


async def test_a_quiet_broker_that_lives_is_kept(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepalive, "KEEP_ALIVE_SECONDS", 0.02)
    monkeypatch.setattr(keepalive, "SILENCE_SECONDS", 0.3)
    broker = await brokers.start()
    async with connect(broker.url) as client, client.subscribe("x"):
        alive = client._attachment.state.keepalive
        heard = alive.heard_at
        await until(lambda: alive.heard_at > heard + 0.4, DEADLINE_SECONDS)
        assert client.gaps == []


@pytest.mark.parametrize("call", ["flush", "status", "subscribe"])
async def test_whoever_waits_for_a_broker_that_is_gone_gets_one_plain_error(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery, call: str
) -> None:
    broker = await brokers.start()

    async def kill() -> None:
        await trio.testing.wait_all_tasks_blocked()
        brokers.kill(broker)

    async def wait_in_vain() -> None:
        async with connect(broker.url, reattach=False) as client:
            await client.publish("x", confirm=True)
            hang(broker, monkeypatch)
            await client.publish("x")
            nursery.start_soon(kill)
            if call == "subscribe":
                async with client.subscribe("x"):
                    raise AssertionError("nobody serves it")
            else:
                await getattr(client, call)()

    with trio.fail_after(DEADLINE_SECONDS), pytest.raises(ConnectionLost):
        await wait_in_vain()
