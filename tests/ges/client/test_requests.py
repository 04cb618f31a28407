"""Requests and replies, with brokers in the same process."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import Client, Event, LinkClass, connect
from ges.client.sync import connect as connect_without_await
from ges.errors import (
    ClientClosed,
    ConnectionLost,
    NoResponders,
    RequestTimedOut,
    SubscribeRefused,
    TopicError,
)
from ges.wire.replies import is_reply_address
from overlay.errors import ConfigError

DEADLINE_SECONDS = 20


def added(event: Event) -> bytes:
    return str(sum(int(part) for part in event.payload.split())).encode()


@asynccontextmanager
async def service(
    broker: Broker,
    topic: str = "service/add",
    answer: Callable[[Event], bytes] = added,
    queue: str | None = None,
) -> AsyncIterator[list[Event]]:
    """Answer requests at a broker; gives what was asked."""
    asked: list[Event] = []

    async def serve() -> None:
        async for event in events:
            asked.append(event)
            await client.reply(event, answer(event))

    async with (
        connect(broker.url) as client,
        client.subscribe(topic, queue=queue) as events,
        trio.open_nursery() as nursery,
    ):
        with trio.fail_after(DEADLINE_SECONDS):
            await events.active.wait()
        nursery.start_soon(serve)
        yield asked
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("link_class", [LinkClass.NORMAL, LinkClass.EXPRESS])
async def test_the_documented_example(brokers: Brokers, link_class: LinkClass) -> None:
    a, b = await brokers.ring_of(2)
    async with service(b) as asked, connect(a.url) as client:
        reply = await client.request("service/add", b"1 2", timeout=2.0, link_class=link_class)
        assert (reply.payload, reply.link_class) == (b"3", link_class)
        assert (await client.request("service/add", b"4 5")).payload == b"9"
    (one, two) = asked
    assert one.is_request
    assert one.reply_to == two.reply_to
    assert one.correlation != two.correlation


async def test_many_at_once_each_get_their_own(brokers: Brokers) -> None:
    a, b, c = await brokers.ring_of(3)
    found: dict[int, bytes] = {}

    async def ask(client: Client, number: int) -> None:
        found[number] = (await client.request("service/add", b"%d 1" % number)).payload

    async with (
        service(b, queue="adders") as one,
        service(c, queue="adders") as two,
        connect(a.url) as client,
        trio.open_nursery() as nursery,
    ):
        for number in range(100):
            nursery.start_soon(ask, client, number)
        await until(lambda: len(found) == 100, DEADLINE_SECONDS)
        assert len(one) + len(two) == 100, "one of the group was asked each time"
    assert found == {number: str(number + 1).encode() for number in range(100)}


async def test_where_nobody_answers_it_fails_at_once(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    async with connect(a.url) as client, connect(b.url) as other, other.subscribe("else/#"):
        await client.publish("before", b"")
        with trio.fail_after(DEADLINE_SECONDS):
            with pytest.raises(NoResponders, match="service/add") as raised:
                await client.request("service/add", b"1 2", timeout=math.inf)
        assert raised.value.code == "no-responders"
        await client.publish("after", b"", confirm=True)
        async with service(b):
            assert (await client.request("service/add", b"1 2")).payload == b"3"
        with trio.fail_after(DEADLINE_SECONDS):
            while True:  # the other broker's profile is told within moments
                try:
                    await client.request("service/add", b"1 2", timeout=0.2)
                except NoResponders:
                    break
                except RequestTimedOut:
                    continue
    assert a.stack.counters["requests_without_responder"] >= 2


async def test_a_reply_that_does_not_come_in_time(brokers: Brokers) -> None:
    (a,) = await brokers.ring_of(1)
    async with connect(a.url) as client, connect(a.url) as deaf, deaf.subscribe("t"):
        with pytest.raises(RequestTimedOut, match=r"no reply on t within 0\.2 s") as raised:
            await client.request("t", timeout=0.2)
        assert raised.value.code == "request-timed-out"
        with pytest.raises(ConfigError, match="timeout"):
            await client.request("t", timeout=0)
        with pytest.raises(TopicError):
            await client.request("t/#")
        with pytest.raises(ConfigError, match="encode it"):
            await client.request("t", "text")  # type: ignore[arg-type]


async def test_only_the_client_that_asks_can_subscribe_to_its_replies(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    async with (
        service(b) as asked,
        connect(a.url) as client,
        connect(a.url) as other,
        other.subscribe("#") as everything,
    ):
        await client.request("service/add", b"1 2")
        address = asked[0].reply_to
        assert is_reply_address(address)
        for text in (address, "$reply/#", "$reply/+/+", f"$reply/{client.uid}/+", "$reply"):
            for one in (other, client) if text != address else (other,):
                with pytest.raises(SubscribeRefused, match="client alone"):
                    async with one.subscribe(text):
                        pytest.fail(text)
        with pytest.raises(SubscribeRefused, match="no queue group"):
            async with client.subscribe(address, queue="mine"):
                pytest.fail("others could be in it")
        assert (await anext(everything)).topic == "service/add"
        await client.publish("end")
        assert (await anext(everything)).topic == "end", "no reply came to it"


async def test_what_nobody_has_asked_for_is_dropped(brokers: Brokers) -> None:
    """Who was asked once knows the address; without an id that is waited for it says nothing."""
    (a,) = await brokers.ring_of(1)
    async with service(a) as asked, connect(a.url) as client, connect(a.url) as other:
        await client.request("service/add", b"1 2")
        for correlation in (b"", b"x" * 16, asked[0].correlation):
            await other.publish(asked[0].reply_to, b"forged", correlation=correlation)
        await other.flush()
        assert (await client.request("service/add", b"2 2")).payload == b"4"


async def test_what_is_no_request_has_no_reply(brokers: Brokers) -> None:
    (a,) = await brokers.ring_of(1)
    async with connect(a.url) as client, client.subscribe("t") as events:
        await client.publish("t", correlation=b"c" * 16)
        event = await anext(events)
        assert (event.is_request, event.reply_to) == (False, "")
        with pytest.raises(ConfigError, match="no request"):
            await client.reply(event)


async def test_a_reply_may_be_published_by_hand(brokers: Brokers) -> None:
    (a,) = await brokers.ring_of(1)
    async with (
        connect(a.url) as client,
        connect(a.url) as other,
        other.subscribe("t") as events,
        trio.open_nursery() as nursery,
    ):

        async def answer() -> None:
            event = await anext(events)
            await other.publish(event.reply_to, b"by hand", correlation=event.correlation)

        nursery.start_soon(answer)
        assert (await client.request("t")).payload == b"by hand"


async def test_a_request_that_is_under_way_ends_with_its_client(brokers: Brokers) -> None:
    (a,) = await brokers.ring_of(1)
    async with trio.open_nursery() as nursery:
        raised: list[Exception] = []

        async def ask(client: Client) -> None:
            try:
                await client.request("t")
            except ClientClosed as error:
                raised.append(error)

        async with connect(a.url) as client, client.subscribe("t") as events:
            nursery.start_soon(ask, client)
            await anext(events)
        with trio.fail_after(DEADLINE_SECONDS):
            await until(lambda: len(raised) == 1, DEADLINE_SECONDS)


async def test_a_request_that_is_under_way_ends_where_no_broker_is_left(brokers: Brokers) -> None:
    (a,) = await brokers.ring_of(1)
    raised: list[Exception] = []

    async def ask(client: Client) -> None:
        try:
            await client.request("t", timeout=math.inf)
        except ConnectionLost as error:
            raised.append(error)

    async def program() -> None:
        async with (
            connect(a.url, timeout=0.5) as client,
            client.subscribe("t") as events,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(ask, client)
            await anext(events)
            brokers.kill(a)
            await until(lambda: len(raised) == 1, DEADLINE_SECONDS)

    with contextlib.suppress(ConnectionLost):  # the client's own end says so, too
        await program()
    assert len(raised) == 1


async def test_a_request_moves_to_another_broker_with_its_client(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    async with service(b), connect(a.url, b.url) as client:
        assert (await client.request("service/add", b"1 1")).payload == b"2"
        brokers.kill(a)
        assert (await client.request("service/add", b"2 1", timeout=10)).payload == b"3"


async def test_without_await(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    is_active = trio.Event()

    def ask() -> bytes:
        with connect_without_await(a.url) as client:
            with pytest.raises(NoResponders):
                client.request("nobody")
            return client.request("service/add", b"1 2", timeout=5).payload

    def work() -> str | None:
        with (
            connect_without_await(b.url) as client,
            client.subscribe("service/add", queue="adders") as events,
        ):
            events.active.wait(DEADLINE_SECONDS)
            trio.from_thread.run_sync(is_active.set)
            event = events.get(DEADLINE_SECONDS)
            assert event is not None
            client.reply(event, b"3", confirm=True)
            return events.queue

    async with trio.open_nursery() as nursery:
        queues: list[str | None] = []

        async def run() -> None:
            queues.append(await trio.to_thread.run_sync(work))

        nursery.start_soon(run)
        await is_active.wait()
        assert await trio.to_thread.run_sync(ask) == b"3"
    assert queues == ["adders"]
