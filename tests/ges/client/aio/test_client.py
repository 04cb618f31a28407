"""The client under asyncio and uvloop: what the client under trio promises, it does as well."""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

import ges.client
import ges.client.aio
from ges.access.token_file import issue_token
from ges.client import keepalive
from ges.client.aio import Client, Gap, Subscription, connect
from ges.errors import (
    ClientClosed,
    ConnectionLost,
    NoResponders,
    NotUnderAsyncio,
    PublishRefused,
    RequestTimedOut,
    SubscribeRefused,
)
from ges.wire.delivered import Event
from ges.wire.events import MAX_PAYLOAD_BYTES
from overlay.authority.authority import create_authority, issue_identity
from overlay.errors import ConfigError
from overlay.ids import LinkClass
from overlay.security.credentials import Credentials
from overlay.security.identity import PeerIdentity, Role
from tests.ges.client.aio.conftest import Run
from tests.ges.conftest import DAY, Issue
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


def test_the_documented_example(thread: BrokerThread, run: Run) -> None:
    broker = thread.start()

    async def program() -> None:
        async with connect(broker.url) as client, client.subscribe("sensors/#") as events:
            await client.publish("sensors/7", b"21.5")
            async for event in events:
                assert (event.topic, event.payload) == ("sensors/7", b"21.5")
                break

    run(program())


def test_events_come_once_and_in_order_between_brokers(thread: BrokerThread, run: Run) -> None:
    """Whatever size and class they have; runs are packed at once, others are not."""
    a, b = thread.ring_of(2)
    count = 3000

    async def program() -> None:
        async with (
            connect(a.url) as here,
            connect(b.url) as there,
            there.subscribe("t/+") as events,
            there.subscribe("quick") as quick,
        ):
            await events.active.wait()
            for number in range(count):
                attributes = {"n": str(number)} if number % 100 == 0 else None
                await here.publish("t/a", b"%d" % number, attributes=attributes)
                if number % 10 == 0:
                    await here.publish("t/b", b"%d" % number * (number % 7))
                if number % 500 == 0:
                    await here.publish("quick", link_class=LinkClass.EXPRESS)
            await here.flush()
            got = await next_of(events, count + count // 10)
            assert payloads([event for event in got if event.topic == "t/a"]) == [
                b"%d" % number for number in range(count)
            ]
            assert payloads([event for event in got if event.topic == "t/b"]) == [
                b"%d" % number * (number % 7) for number in range(0, count, 10)
            ]
            (first,) = [each for each in got if each.topic == "t/a" and each.attributes][:1]
            assert (dict(first.attributes), first.hops, first.publisher) == (
                {"n": "0"},
                1,
                here.uid,
            )
            express = await next_of(quick, count // 500)
            assert {event.link_class for event in express} == {LinkClass.EXPRESS}
            assert all(event.spent_us > 0 for event in express)

    run(program())


def test_a_batch_is_all_that_has_arrived(thread: BrokerThread, run: Run) -> None:
    broker = thread.start()

    async def program() -> None:
        async with connect(broker.url) as client:
            async with client.subscribe("a") as events, client.subscribe("fence") as fence:
                await client.publish("a", b"1")
                await client.publish("a", b"2")
                await client.publish("fence")
                await next_of(fence)
                assert payloads(await events.batch()) == [b"1", b"2"]
                await client.publish("a", b"3", confirm=True)
                await client.publish("fence")
                await next_of(fence)
            assert payloads([event async for event in events]) == [b"3"], "and then it ends"
            assert await events.batch() == []
            assert (await client.status()).subscriptions == 0

    run(program())


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


def test_a_killed_broker_costs_no_event(thread: BrokerThread, run: Run) -> None:
    """Publisher and subscriber both lose it, go on at another, and say so."""
    a, b, c = thread.ring_of(3)
    told: list[Gap] = []

    async def program() -> None:
        async with (
            connect(a.url, on_gap=told.append) as client,
            client.subscribe("x") as events,
        ):
            await events.active.wait()
            for number in range(1000):
                await client.publish("x", b"%d" % number)
                if number == 500:
                    thread.kill(a)
                await asyncio.sleep(0)
            got = await next_of(events, 1000)
            assert payloads(got) == [b"%d" % number for number in range(1000)]
            assert client.broker_url in (b.url, c.url)
            assert client.gaps == told
            (gap,) = told
            assert (gap.lost, gap.found) == (a.url, client.broker_url)
            await events.active.wait()
            await client.flush()

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


def test_a_broker_that_falls_silent_is_left(
    thread: BrokerThread, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepalive, "KEEP_ALIVE_SECONDS", 0.05)
    monkeypatch.setattr(keepalive, "SILENCE_SECONDS", 0.4)
    a, b = thread.ring_of(2)

    async def program() -> None:
        async with connect(a.url) as client:
            await client.status()  # so that it knows of the other

            async def never(*args: object) -> None:
                await trio.sleep_forever()

            monkeypatch.setattr(a.parts.reader, "wait_for_ring", never)
            monkeypatch.setattr(a.parts.backpressure, "relieve", never)
            await until(lambda: client.gaps)
            assert client.broker_url == b.url

    run(program())


def test_without_reattachment_the_loss_is_the_end(thread: BrokerThread, run: Run) -> None:
    a, _ = thread.ring_of(2)
    kept: list[Subscription] = []

    async def program() -> None:
        async with connect(a.url, reattach=False) as client, client.subscribe("x") as events:
            kept.append(events)
            thread.kill(a)
            await anext(events)

    with pytest.raises(ConnectionLost, match=f"{a.url}: the broker is gone"):
        run(program())
    assert not kept[0].active.is_set()


def test_nobody_there_is_said_in_time_and_in_words(run: Run) -> None:
    words: list[str] = []

    async def program() -> None:
        began = time.monotonic()
        with pytest.raises(ConnectionLost, match=r"chordal://127.0.0.1:1: connection refused"):
            async with connect("chordal://127.0.0.1:1", timeout=0.8, on_waiting=words.append):
                pass
        assert 0.7 < time.monotonic() - began < 5

    run(program())
    (line,) = words
    assert "127.0.0.1:1 (connection refused); trying for 0.8 s" in line


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


def test_errors_of_the_block_come_out_as_they_are(thread: BrokerThread, run: Run) -> None:
    broker = thread.start()

    async def program() -> None:
        with pytest.raises(ZeroDivisionError):
            async with connect(broker.url):
                raise ZeroDivisionError
        with pytest.raises(LookupError, match="of mine"):  # noqa: PT012
            async with connect(broker.url, on_gap=_fail) as client:
                await client.status()
                thread.call(lambda: broker.clients.tell_missed(1_000_000))
                await asyncio.sleep(10)

    run(program())


def _fail(gap: Gap) -> None:
    raise LookupError("of mine")


def test_a_closed_client_says_so_at_once(thread: BrokerThread, run: Run) -> None:
    broker = thread.start()

    async def program() -> None:
        async with connect(broker.url) as client:
            waiting = asyncio.create_task(_read_all(client))
            await client.publish("a", confirm=True)
        assert await waiting == []
        for use in (lambda: client.publish("a"), client.flush, client.status):
            with pytest.raises(ClientClosed, match="block has ended"):
                await use()

    run(program())


async def _read_all(client: Client) -> list[Event]:
    async with client.subscribe("never") as events:
        return [event async for event in events]


def test_what_is_queued_at_the_end_of_the_block_is_sent(thread: BrokerThread, run: Run) -> None:
    broker = thread.start()
    count = 3000

    async def program() -> None:
        async with connect(broker.url) as reader, reader.subscribe("a") as events:
            async with connect(broker.url) as writer:
                for _ in range(count):
                    await writer.publish("a", bytes(1000))
            assert len(await next_of(events, count)) == count

    run(program())


def test_what_is_refused_says_why(thread: BrokerThread, run: Run) -> None:
    broker = thread.start()

    async def program() -> None:
        async with connect(broker.url) as client:
            with pytest.raises(PublishRefused, match="not secure"):
                await client.publish("a", link_class=LinkClass.SECURE)
            with pytest.raises(SubscribeRefused, match="not secure"):
                async with client.subscribe("a", link_class=LinkClass.SECURE):
                    pass
            with pytest.raises(ConfigError, match=r"text\.encode\(\)"):
                await client.publish("a", "21.5")  # type: ignore[arg-type]

    run(program())


def test_a_token_opens_the_door(thread: BrokerThread, run: Run, tmp_path: Path) -> None:
    book, rules = tmp_path / "tokens.json", tmp_path / "access.toml"
    token = issue_token(book, "line-1", int(time.time()), None)
    rules.write_text('[[allow]]\nsubject = "token:line-1"\npublish = ["a"]\n')
    broker = thread.start(access=rules, tokens=book)

    async def program() -> None:
        async with connect(broker.url, token=token) as client:
            await client.publish("a", confirm=True)
        async with connect(broker.url) as client:
            with pytest.raises(PublishRefused, match="denied"):
                await client.publish("a", confirm=True)
        wrong = token[:-4] + ("aaaa" if token[-4:] != "aaaa" else "bbbb")
        with pytest.raises((ConnectionLost, ConfigError)):
            async with connect(broker.url, token=wrong, timeout=1):
                pass

    run(program())


def test_secure_links_with_certificates(thread: BrokerThread, run: Run, issue: Issue) -> None:
    a, b = thread.ring_of(2, issue(Role.BROKER), issue(Role.BROKER))
    me = issue(Role.CLIENT)
    large = bytes(range(256)) * 4000

    async def program() -> None:
        async with (
            connect(a.secure_url or "", identity=me) as here,
            connect(b.secure_url or "", identity=me) as there,
            there.subscribe("pay/#", link_class=LinkClass.SECURE) as events,
        ):
            await events.active.wait()
            assert here.secure
            for number in range(300):
                await here.publish("pay/7", b"%d" % number, link_class=LinkClass.SECURE, park=10)
            await here.publish("pay/7", large, link_class=LinkClass.SECURE, park=10, confirm=True)
            got = await next_of(events, 301)
            assert payloads(got) == [b"%d" % number for number in range(300)] + [large]

    run(program())


def test_a_secure_client_goes_on_at_another_broker(
    thread: BrokerThread, run: Run, issue: Issue
) -> None:
    a, *others = thread.ring_of(3, *(issue(Role.BROKER) for _ in range(3)))
    me = issue(Role.CLIENT)

    async def program() -> None:
        async with (
            connect(a.secure_url or "", identity=me) as client,
            client.subscribe("pay", link_class=LinkClass.SECURE) as events,
        ):
            await events.active.wait()
            await client.publish("pay", b"1", link_class=LinkClass.SECURE, confirm=True)
            thread.kill(a)
            await client.publish("pay", b"2", link_class=LinkClass.SECURE, park=10, confirm=True)
            assert payloads(await next_of(events, 2)) == [b"1", b"2"]
            assert client.broker_url in {other.secure_url for other in others}
            assert client.secure

    run(program())


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


def test_a_foreign_authority_is_an_error_at_once(
    thread: BrokerThread, run: Run, issue: Issue, tmp_path: Path
) -> None:
    broker = thread.start(identity=issue(Role.BROKER))
    foreign = create_authority(tmp_path / "foreign", name="foreign", lifetime=10 * DAY)
    issue_identity(foreign, tmp_path / "me", role=Role.CLIENT, lifetime=DAY)

    async def program() -> None:
        with pytest.raises(ConnectionLost, match=r"no TLS \(.*not of this authority"):
            async with connect(broker.secure_url or "", identity=tmp_path / "me"):
                pass
        with pytest.raises(ConfigError, match="an identity"):
            async with connect(broker.secure_url or ""):
                pass

    run(program())


def test_under_trio_the_error_says_what_to_do() -> None:
    async def program() -> None:
        async with connect("chordal://127.0.0.1:1"):
            pass

    with pytest.raises(NotUnderAsyncio, match=r"asyncio\.run\(main\(\)\)"):
        trio.run(program)


def test_a_timeout_that_is_none(run: Run) -> None:
    async def program() -> None:
        with pytest.raises(ConfigError, match=r"math\.inf"):
            async with connect("chordal://127.0.0.1:1", timeout=math.nan):
                pass

    run(program())


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
