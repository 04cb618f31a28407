"""What a client promises, on each face that is waited for: under trio, asyncio and uvloop."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest
import trio

from ges.access.token_file import issue_token
from ges.client import Gap, Subscription, keepalive
from ges.errors import ClientClosed, ConnectionLost, PublishRefused, SubscribeRefused, TopicError
from ges.wire.delivered import Event
from overlay.authority.authority import create_authority, issue_identity
from overlay.errors import ConfigError
from overlay.ids import LinkClass
from overlay.security.identity import Role
from tests.ges.client.conftest import Face
from tests.ges.conftest import DAY, Issue
from tests.helpers.broker_thread import BrokerThread


async def next_of(subscription: Subscription, count: int = 1) -> list[Event]:
    return [await anext(subscription) for _ in range(count)]


def payloads(events: list[Event]) -> list[bytes]:
    return [event.payload for event in events]


def test_the_documented_example(thread: BrokerThread, face: Face) -> None:
    broker = thread.start()

    async def program() -> None:
        async with face.connect(broker.url) as client, client.subscribe("sensors/#") as events:
            await client.publish("sensors/7", b"21.5")
            async for event in events:
                assert (event.topic, event.payload) == ("sensors/7", b"21.5")
                break

    face.run(program())


def test_events_come_once_and_in_order_between_brokers(thread: BrokerThread, face: Face) -> None:
    """Whatever size and class they have; runs are packed at once, others are not."""
    a, b = thread.ring_of(2)
    count = 3000

    async def program() -> None:
        async with (
            face.connect(a.url) as here,
            face.connect(b.url) as there,
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

    face.run(program())


def test_a_batch_is_all_that_has_arrived(thread: BrokerThread, face: Face) -> None:
    broker = thread.start()

    async def program() -> None:
        async with face.connect(broker.url) as client:
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

    face.run(program())


def test_a_killed_broker_costs_no_event(thread: BrokerThread, face: Face) -> None:
    """Publisher and subscriber both lose it, go on at another, and say so."""
    a, b, c = thread.ring_of(3)
    told: list[Gap] = []

    async def program() -> None:
        async with (
            face.connect(a.url, on_gap=told.append) as client,
            client.subscribe("x") as events,
        ):
            await events.active.wait()
            for number in range(1000):
                await client.publish("x", b"%d" % number)
                if number == 500:
                    await face.outside(thread.kill, a)
                await face.sleep(0)
            got = await next_of(events, 1000)
            assert payloads(got) == [b"%d" % number for number in range(1000)]
            assert client.broker_url in (b.url, c.url)
            assert client.gaps == told
            (gap,) = told
            assert (gap.lost, gap.found) == (a.url, client.broker_url)
            await events.active.wait()
            await client.flush()

    face.run(program())


def test_a_broker_that_falls_silent_is_left(
    thread: BrokerThread, face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepalive, "KEEP_ALIVE_SECONDS", 0.05)
    monkeypatch.setattr(keepalive, "SILENCE_SECONDS", 0.4)
    a, b = thread.ring_of(2)

    async def program() -> None:
        async with face.connect(a.url) as client:
            await client.status()  # so that it knows of the other

            async def never(*args: object) -> None:
                await trio.sleep_forever()

            monkeypatch.setattr(a.parts.reader, "wait_for_ring", never)
            monkeypatch.setattr(a.parts.backpressure, "relieve", never)
            await face.until(lambda: client.gaps)
            assert client.broker_url == b.url

    face.run(program())


def test_without_reattachment_the_loss_is_the_end(thread: BrokerThread, face: Face) -> None:
    a, _ = thread.ring_of(2)
    kept: list[Subscription] = []

    async def program() -> None:
        async with face.connect(a.url, reattach=False) as client, client.subscribe("x") as events:
            kept.append(events)
            await face.outside(thread.kill, a)
            await anext(events)

    with pytest.raises(ConnectionLost, match=f"{a.url}: the broker is gone"):
        face.run(program())
    assert not kept[0].active.is_set()


def test_nobody_there_is_said_in_time_and_in_words(face: Face) -> None:
    words: list[str] = []
    urls = ("chordal://127.0.0.1:1", "chordal://127.0.0.1:2")

    async def program() -> None:
        began = time.monotonic()
        with pytest.raises(ConnectionLost) as caught:
            async with face.connect(*urls, timeout=0.8, on_waiting=words.append):
                pass
        assert 0.7 < time.monotonic() - began < 5
        assert all(f"{url}: connection refused" in str(caught.value) for url in urls)

    face.run(program())
    (line,) = words
    assert "(connection refused); trying for 0.8 s" in line


def test_errors_of_the_block_come_out_as_they_are(thread: BrokerThread, face: Face) -> None:
    broker = thread.start()

    async def program() -> None:
        with pytest.raises(ZeroDivisionError):
            async with face.connect(broker.url):
                raise ZeroDivisionError
        with pytest.raises(LookupError, match="of mine"):  # noqa: PT012
            async with face.connect(broker.url, on_gap=_fail) as client:
                await client.status()
                await face.outside(thread.call, lambda: broker.clients.tell_missed(1_000_000))
                await face.sleep(10)

    face.run(program())


def _fail(gap: Gap) -> None:
    raise LookupError("of mine")


def test_what_is_queued_at_the_end_of_the_block_is_sent(thread: BrokerThread, face: Face) -> None:
    broker = thread.start()
    count = 3000

    async def program() -> None:
        async with face.connect(broker.url) as reader, reader.subscribe("a") as events:
            async with face.connect(broker.url) as writer:
                for _ in range(count):
                    await writer.publish("a", bytes(1000))
            assert len(await next_of(events, count)) == count

    face.run(program())


def test_what_is_refused_says_why(thread: BrokerThread, face: Face) -> None:
    broker = thread.start()

    async def program() -> None:
        async with face.connect(broker.url) as client:
            with pytest.raises(PublishRefused, match="not secure"):
                await client.publish("a", link_class=LinkClass.SECURE)
            with pytest.raises(SubscribeRefused, match="not secure"):
                async with client.subscribe("a", link_class=LinkClass.SECURE):
                    pass
            with pytest.raises(ConfigError, match=r"text\.encode\(\)"):
                await client.publish("a", "21.5")  # type: ignore[arg-type]
            with pytest.raises(TopicError, match="write '#' instead of '>'"):
                async with client.subscribe("a/>"):
                    pass
            assert (await client.status()).subscriptions == 0
            await client.publish("a", b"2", confirm=True)

    face.run(program())


def test_a_token_opens_the_door(thread: BrokerThread, face: Face, tmp_path: Path) -> None:
    book, rules = tmp_path / "tokens.json", tmp_path / "access.toml"
    token = issue_token(book, "line-1", int(time.time()), None)
    rules.write_text('[[allow]]\nsubject = "token:line-1"\npublish = ["a"]\n')
    broker = thread.start(access=rules, tokens=book)

    async def program() -> None:
        async with face.connect(broker.url, token=token) as client:
            await client.publish("a", confirm=True)
        async with face.connect(broker.url) as client:
            with pytest.raises(PublishRefused, match="denied"):
                await client.publish("a", confirm=True)
        wrong = token[:-4] + ("aaaa" if token[-4:] != "aaaa" else "bbbb")
        with pytest.raises((ConnectionLost, ConfigError)):
            async with face.connect(broker.url, token=wrong, timeout=1):
                pass

    face.run(program())


def test_secure_links_with_certificates(thread: BrokerThread, face: Face, issue: Issue) -> None:
    a, b = thread.ring_of(2, issue(Role.BROKER), issue(Role.BROKER))
    me = issue(Role.CLIENT)
    large = bytes(range(256)) * 4000

    async def program() -> None:
        async with (
            face.connect(a.secure_url or "", identity=me) as here,
            face.connect(b.secure_url or "", identity=me) as there,
            there.subscribe("pay/#", link_class=LinkClass.SECURE) as events,
        ):
            await events.active.wait()
            assert here.secure
            for number in range(300):
                await here.publish("pay/7", b"%d" % number, link_class=LinkClass.SECURE, park=10)
            await here.publish("pay/7", large, link_class=LinkClass.SECURE, park=10, confirm=True)
            got = await next_of(events, 301)
            assert payloads(got) == [b"%d" % number for number in range(300)] + [large]

    face.run(program())


def test_a_secure_client_goes_on_at_another_broker(
    thread: BrokerThread, face: Face, issue: Issue
) -> None:
    a, *others = thread.ring_of(3, *(issue(Role.BROKER) for _ in range(3)))
    me = issue(Role.CLIENT)

    async def program() -> None:
        async with (
            face.connect(a.secure_url or "", identity=me) as client,
            client.subscribe("pay", link_class=LinkClass.SECURE) as events,
        ):
            await events.active.wait()
            await client.publish("pay", b"1", link_class=LinkClass.SECURE, confirm=True)
            await face.outside(thread.kill, a)
            await client.publish("pay", b"2", link_class=LinkClass.SECURE, park=10, confirm=True)
            assert payloads(await next_of(events, 2)) == [b"1", b"2"]
            assert client.broker_url in {other.secure_url for other in others}
            assert client.secure

    face.run(program())


def test_a_foreign_authority_is_an_error_at_once(
    thread: BrokerThread, face: Face, issue: Issue, tmp_path: Path
) -> None:
    broker = thread.start(identity=issue(Role.BROKER))
    foreign = create_authority(tmp_path / "foreign", name="foreign", lifetime=10 * DAY)
    issue_identity(foreign, tmp_path / "me", role=Role.CLIENT, lifetime=DAY)

    async def program() -> None:
        with pytest.raises(ConnectionLost, match=r"no TLS \(.*not of this authority"):
            async with face.connect(broker.secure_url or "", identity=tmp_path / "me"):
                pass
        with pytest.raises(ConfigError, match="an identity"):
            async with face.connect(broker.secure_url or ""):
                pass

    face.run(program())


def test_a_timeout_that_is_none(face: Face) -> None:
    async def program() -> None:
        with pytest.raises(ConfigError, match=r"math\.inf"):
            async with face.connect("chordal://127.0.0.1:1", timeout=math.nan):
                pass

    face.run(program())


def test_a_closed_client_says_so_at_once(thread: BrokerThread, face: Face) -> None:
    broker = thread.start()

    async def program() -> None:
        async with face.connect(broker.url) as client:
            subscription = client.subscribe("a")
            events = await subscription.__aenter__()
            await client.publish("a", confirm=True)
        assert payloads([event async for event in events]) in ([], [b""])
        await subscription.__aexit__(None, None, None)
        for use in (
            lambda: client.publish("a"),
            lambda: client.publish("a", link_class=LinkClass.EXPRESS),
            client.flush,
            client.status,
            lambda: client.subscribe("a").__aenter__(),
        ):
            with pytest.raises(ClientClosed, match="block has ended"):
                await use()

    face.run(program())
