"""The client under asyncio and uvloop: what the client under trio promises, it does as well."""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

import ges.client
import ges.client.aio
from ges.client.aio import Client, Subscription, connect
from ges.errors import (
    NoResponders,
    NotUnderAsyncio,
    RequestTimedOut,
)
from ges.wire.delivered import Event
from ges.wire.events import MAX_PAYLOAD_BYTES
from overlay.ids import LinkClass
from overlay.security.credentials import Credentials
from overlay.security.identity import PeerIdentity, Role
from tests.ges.client.conftest import Run
from tests.ges.conftest import Issue
from tests.helpers.broker_thread import BrokerThread


async def next_of(subscription: Subscription, count: int = 1) -> list[Event]:
    return [await anext(subscription) for _ in range(count)]


def payloads(events: list[Event]) -> list[bytes]:
    return [event.payload for event in events]


async def until(check: Any) -> None:  # noqa: ANN401 - whatever it returns
    while not check():  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0.01)


def test_the_two_doors_have_the_same_names_and_arguments() -> None:
    assert set(ges.client.__all__) == set(ges.client.aio.__all__)
    under_trio = dict(inspect.signature(ges.client.connect).parameters)
    del under_trio["transport"]  # makes connections of trio's
    under_asyncio = inspect.signature(connect).parameters
    assert {name: each.default for name, each in under_trio.items()} == {
        name: each.default for name, each in under_asyncio.items()
    }
    assert ges.client.Client is Client


def test_the_largest_payloads_are_held_back_and_all_come(thread: BrokerThread, run: Run) -> None:
    """More than a queue takes before whoever publishes has to wait."""
    a, b = thread.ring_of(2)
    payload = bytes(range(256)) * (MAX_PAYLOAD_BYTES // 256)

    async def program() -> None:
        async with connect(a.url) as here, connect(b.url) as there, there.subscribe("a") as events:
            await events.active.wait()

            async def publish() -> None:
                for _ in range(20):
                    await here.publish("a", payload)

            publishing = asyncio.create_task(publish())
            for event in await next_of(events, 20):
                assert event.payload == payload
            await publishing

    run(program())


@pytest.mark.parametrize("link_class", [LinkClass.NORMAL, LinkClass.EXPRESS])
def test_a_broker_that_leaves_is_left_and_costs_no_event_of_ours(
    thread: BrokerThread, run: Run, link_class: LinkClass
) -> None:
    """The client waits for its express events to be confirmed; all others it publishes again."""
    a, b = thread.ring_of(2)

    async def program() -> None:
        async with (
            connect(b.url) as there,
            there.subscribe("x") as events,
            connect(a.url) as client,
        ):
            await events.active.wait()
            for number in range(1000):
                await client.publish("x", b"%d" % number, link_class=link_class)
                if number == 500:
                    away = asyncio.ensure_future(asyncio.to_thread(thread.send_away, a, 60))
                await asyncio.sleep(0)
            await client.flush()
            assert payloads(await next_of(events, 1000)) == [b"%d" % n for n in range(1000)]
            await asyncio.wait_for(away, 10)
            await until(lambda: client.broker_url == b.url)

    run(program())


def test_who_waits_may_be_cancelled(thread: BrokerThread, run: Run) -> None:
    broker = thread.start()

    async def attach(url: str) -> None:
        async with (
            connect(url, on_waiting=lambda words: None) as client,
            client.subscribe("a") as events,
        ):
            async for _ in events:
                pass

    async def program() -> None:
        for url in (broker.url, "chordal://127.0.0.1:1"):
            for pause in (0, 0.001, 0.1, 0.2):
                task = asyncio.create_task(attach(url))
                await asyncio.sleep(pause)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
        await asyncio.to_thread(_no_clients, thread, broker)

    run(program())


def _no_clients(thread: BrokerThread, broker: Any) -> None:  # noqa: ANN401
    deadline = time.monotonic() + 10
    while sessions := thread.call(lambda: list(broker.clients._sessions)):
        assert time.monotonic() < deadline, sessions
        time.sleep(0.01)


def test_a_broker_that_is_certified_no_more_is_left(
    thread: BrokerThread, run: Run, issue: Issue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then another handshake now and then shows whether it is."""
    broker = thread.start(identity=issue(Role.BROKER))
    me = issue(Role.CLIENT)
    seen: list[PeerIdentity | None] = []

    async def stay(
        credentials: Credentials,
        identity: PeerIdentity,
        shake_hands: Callable[[], Awaitable[PeerIdentity | None]],
        sleep: object,
    ) -> None:
        if not seen:
            seen.append(await shake_hands())
        else:
            await asyncio.Event().wait()

    monkeypatch.setattr("ges.client.aio.attachment.stay_certified", stay)

    async def program() -> None:
        async with connect(broker.secure_url or "", identity=me) as client:
            await until(lambda: client.gaps)
            await client.publish("a", confirm=True)

    run(program())
    (identity,) = seen
    assert identity is not None
    assert identity.uid == broker.node.peer.uid


def test_under_trio_the_error_says_what_to_do() -> None:
    async def program() -> None:
        async with connect("chordal://127.0.0.1:1"):
            pass

    with pytest.raises(NotUnderAsyncio, match=r"asyncio\.run\(main\(\)\)"):
        trio.run(program)


def test_requests_are_answered_by_one_of_a_queue(thread: BrokerThread, run: Run) -> None:
    a, b = thread.ring_of(2)

    async def serve(events: Subscription, worker: Client, asked: list[bytes]) -> None:
        async for event in events:
            asked.append(event.payload)
            if event.payload != b"quiet":
                await worker.reply(event, event.payload.upper())

    async def program() -> None:
        asked: list[bytes] = []
        async with (
            connect(a.url) as here,
            connect(b.url) as there,
            there.subscribe("shout", queue="shouters") as one,
            there.subscribe("shout", queue="shouters") as two,
        ):
            serving = [asyncio.create_task(serve(each, there, asked)) for each in (one, two)]
            replies = await asyncio.gather(
                *(here.request("shout", b"n%d" % number) for number in range(50))
            )
            assert payloads(replies) == [b"N%d" % number for number in range(50)]
            assert sorted(asked) == sorted(b"n%d" % number for number in range(50))
            with pytest.raises(NoResponders):
                await here.request("whisper", timeout=math.inf)
            with pytest.raises(RequestTimedOut):
                await here.request("shout", b"quiet", timeout=0.1)
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)

    run(program())
