"""The client library, with brokers in the same process."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
import trio

from benchmarks.stage.brokers import Brokers, hang
from benchmarks.stage.waiting import until
from ges.broker import Broker, BrokerConfig
from ges.client import Client, Gap, Subscription, connect
from ges.client.subscription import why_refused
from ges.errors import (
    ConnectionLost,
    NotUnderTrio,
    PublishRefused,
    TopicError,
)
from ges.wire.client_messages import EventRefused
from ges.wire.delivered import Event
from ges.wire.events import MAX_PAYLOAD_BYTES
from overlay.address import parse_url
from overlay.errors import ConfigError
from overlay.ids import LinkClass
from ring.facts import Reincarnated

ROOT = Path(__file__).parents[3]
DEADLINE_SECONDS = 20


async def next_of(subscription: Subscription, count: int = 1) -> list[Event]:
    """Return the next events of a subscription."""
    with trio.fail_after(DEADLINE_SECONDS):
        return [await anext(subscription) for _ in range(count)]


def payloads(events: list[Event]) -> list[bytes]:
    return [event.payload for event in events]


async def fence(client: Client, *subscriptions: Subscription) -> None:
    """Publish one last event, and check that it is the next each of them gets."""
    await client.publish("fence", b"fence")
    for subscription in subscriptions:
        assert payloads(await next_of(subscription)) == [b"fence"]


async def test_an_event_says_where_it_comes_from(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    async with connect(a.url) as here, connect(b.url) as there, there.subscribe("#") as events:
        await here.publish("a/b", b"\0\xff", attributes={"unit": "°C"})
        (event,) = await next_of(events)
    assert (event.topic, event.payload, dict(event.attributes)) == (
        "a/b",
        b"\0\xff",
        {"unit": "°C"},
    )
    assert (event.publisher, event.sequence, event.link_class) == (here.uid, 1, LinkClass.NORMAL)
    assert event.hops == 1
    assert event.published_unix_ns > 1_600_000_000 * 10**9


@pytest.mark.parametrize("link_class", [LinkClass.NORMAL, LinkClass.EXPRESS])
async def test_what_a_publisher_adds_comes_with_that_event_alone(
    brokers: Brokers, link_class: LinkClass
) -> None:
    a, b = await brokers.ring_of(2)
    async with connect(a.url) as here, connect(b.url) as there, there.subscribe("#") as events:
        with trio.fail_after(DEADLINE_SECONDS):
            await events.active.wait()
        name = bytes(range(16))
        await here.publish("a", b"1", link_class=link_class)
        await here.publish(
            "a", b"2", link_class=link_class, priority=9, correlation=name, max_hops=1
        )
        await here.publish("a", b"3", link_class=link_class)
        found = await next_of(events, 3)
    assert [event.priority for event in found] == [0, 9, 0]
    assert [event.correlation for event in found] == [b"", name, b""]
    assert payloads(found) == [b"1", b"2", b"3"]


async def test_an_event_goes_no_further_than_its_publisher_says(brokers: Brokers) -> None:
    ring = await brokers.ring_of(8)
    async with trio.open_nursery() as nursery:
        got: list[tuple[int, bytes]] = []

        async def read(url: str, *, task_status: trio.TaskStatus[None]) -> None:
            async with connect(url) as client, client.subscribe("a") as events:
                await events.active.wait()
                task_status.started()
                while batch := await events.batch():
                    got.extend((event.hops, event.payload) for event in batch)

        with trio.fail_after(DEADLINE_SECONDS):
            for broker in ring[1:]:
                await nursery.start(read, broker.url)
            async with connect(ring[0].url) as client:
                for most in (1, 255, None):
                    await client.publish("a", b"%d" % (most or 0), max_hops=most)
                await until(lambda: sum(payload == b"0" for _, payload in got) == 7)
        nursery.cancel_scope.cancel()
    hops = {hop for hop, payload in got if payload == b"0"}
    near = [hop for hop, payload in got if payload == b"1"]
    assert max(hops) > 1
    assert set(near) == {1}
    assert len(near) == sum(hop == 1 for hop, payload in got if payload == b"0") < 7
    assert sum(payload == b"255" for _, payload in got) == 7


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_hops": 0}, "max_hops is 1 to 255 hops between brokers, not 0"),
        ({"max_hops": 256}, "not 256"),
        ({"max_hops": 2.0}, "not 2.0"),
        ({"ttl": 0}, "ttl is a time in seconds, from 0.001 to 2**32 - 1; not 0"),
        ({"ttl": "1s"}, "not '1s'"),
        ({"ttl": True}, "not True"),
        ({"ttl": 2.0**32}, "not 4294967296.0"),
        ({"retain": True, "link_class": LinkClass.EXPRESS}, "an express event is not retained"),
        ({"ttl": 1.0, "link_class": LinkClass.EXPRESS}, "an express event is not retained"),
        ({"priority": 10}, "priority is 0 to 9, not 10"),
        ({"priority": -1}, "not -1"),
        ({"priority": True}, "not True"),
        ({"correlation": b"short"}, "correlation is 16 bytes, not 5"),
        ({"correlation": "x" * 16}, "correlation is str, not bytes"),
    ],
)
async def test_what_a_publisher_may_not_add_is_refused(
    brokers: Brokers, options: dict[str, Any], problem: str
) -> None:
    broker = await brokers.start()
    async with connect(broker.url) as client:
        await client.publish("a", b"1")
        with pytest.raises(ConfigError, match=re.escape(problem)):
            await client.publish("a", b"2", **options)


async def test_overlapping_subscriptions_each_get_the_event_once(brokers: Brokers) -> None:
    broker = await brokers.start()
    async with (
        connect(broker.url) as client,
        client.subscribe("a/#") as wide,
        client.subscribe("a/+") as one,
        client.subscribe("a/b") as exact,
        client.subscribe("a/b") as again,
        client.subscribe("fence") as fenced,
        client.subscribe("a/c") as other,
    ):
        await client.publish("a/b", b"1")
        await client.publish("a/b", b"2")
        await client.publish("fence")
        await next_of(fenced)
        for subscription in (wide, one, exact, again):
            assert payloads(await subscription.batch()) == [b"1", b"2"]
        assert not other._events


async def test_no_subscription_outlives_its_block(brokers: Brokers) -> None:
    broker = await brokers.start()
    async with connect(broker.url) as client, client.subscribe("fence") as fenced:
        async with client.subscribe("a") as events:
            assert (await client.status()).subscriptions == 2
            await client.publish("a", b"1")
            await next_of(events)
        await client.publish("a", b"2")
        await fence(client, fenced)
        assert (await client.status()).subscriptions == 1
        with pytest.raises(StopAsyncIteration):
            await anext(events)
        assert await events.batch() == []


async def test_a_subscription_may_ask_for_one_class(brokers: Brokers) -> None:
    broker = await brokers.start()
    async with (
        connect(broker.url) as client,
        client.subscribe("a", link_class=LinkClass.NORMAL) as normal,
        client.subscribe("a") as both,
    ):
        await client.publish("a", b"1")
        assert payloads(await next_of(normal)) == [b"1"]
        assert payloads(await next_of(both)) == [b"1"]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"topic": "a/+"}, TopicError, "wildcard"),
        ({"topic": ""}, TopicError, "empty"),
        (
            {"topic": "a", "payload": b"x" * (MAX_PAYLOAD_BYTES + 1)},
            ConfigError,
            "1048577 bytes, 1048576",
        ),
        ({"topic": "a", "attributes": {"k": "v" * 5000}}, ConfigError, "4096 are allowed"),
        ({"topic": "a", "payload": "21.5"}, ConfigError, r"is str, not bytes; .*text\.encode\(\)"),
        ({"topic": "a", "payload": 21.5}, ConfigError, "is float, not bytes; give bytes"),
        ({"topic": "a", "payload": None}, ConfigError, "is NoneType, not bytes"),
        ({"topic": "a", "attributes": {"unit": None}}, ConfigError, "None is NoneType; give text"),
        ({"topic": b"a"}, TopicError, "the topic is bytes, not str"),
    ],
)
async def test_what_cannot_be_published(
    brokers: Brokers, arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    broker = await brokers.start()
    async with connect(broker.url) as client, client.subscribe("#") as events:
        with pytest.raises(error, match=words):
            await client.publish(**arguments)
        await fence(client, events)


@pytest.mark.parametrize("link_class", [LinkClass.NORMAL, LinkClass.EXPRESS])
async def test_what_is_refused_takes_no_number(brokers: Brokers, link_class: LinkClass) -> None:
    broker = await brokers.start()
    text: Any = "21.5"
    async with connect(broker.url) as client, client.subscribe("a") as events:
        for _ in range(3):
            with pytest.raises(ConfigError):
                await client.publish("a", text, link_class=link_class)
        await client.publish("a", b"1", link_class=link_class)
        assert [event.sequence for event in await next_of(events)] == [1]
        await client.flush()


@pytest.mark.parametrize("payload", [bytearray(b"21.5"), memoryview(b"21.5")])
async def test_other_kinds_of_bytes(brokers: Brokers, payload: Any) -> None:  # noqa: ANN401
    broker = await brokers.start()
    async with connect(broker.url) as client, client.subscribe("a") as events:
        await client.publish("a", payload)
        assert payloads(await next_of(events)) == [b"21.5"]


def test_under_asyncio_the_error_says_what_to_do() -> None:
    async def program() -> None:
        async with connect("chordal://127.0.0.1:1"):
            pass

    with pytest.raises(NotUnderTrio, match=r"trio\.run\(main\).*ges\.client\.aio"):
        asyncio.run(program())


def test_a_refusal_names_what_is_refused_once() -> None:
    denied = "subscribing to 'a/#' is denied to anyone: no rule allows it"
    assert why_refused("a/#", denied) == denied
    assert why_refused("a/#", "too many") == "a/#: too many"
    assert why_refused("a", "the rule 'a' of 'a/#'") == "a: the rule 'a' of 'a/#'"


async def test_the_largest_payload(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    payload = bytes(range(256)) * (MAX_PAYLOAD_BYTES // 256)
    async with connect(a.url) as here, connect(b.url) as there, there.subscribe("a") as events:
        await here.publish("a", payload, confirm=True)
        assert (await next_of(events))[0].payload == payload


async def test_confirmed_means_taken(brokers: Brokers) -> None:
    broker = await brokers.start()
    async with connect(broker.url) as client:
        await client.publish("a", confirm=True)
        assert broker.driver.counters["events_published"] == 1
        for _ in range(1000):
            await client.publish("a")
        await client.flush()
        assert broker.driver.counters["events_published"] == 1001
        await client.flush()


async def test_a_block_ends_though_its_broker_hangs(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await brokers.start()
    with trio.fail_after(5):
        async with connect(broker.url) as client:
            await client.status()
            hang(broker, monkeypatch)
            await client.publish("a")


async def test_a_refusal_is_raised_by_the_next_publish(brokers: Brokers) -> None:
    """Also where events of one topic follow each other, which are not looked at one by one."""
    broker = await brokers.start()
    async with connect(broker.url) as client:
        for _ in range(3):
            await client.publish("a")
        client._core.take(EventRefused(LinkClass.NORMAL, 2, "not allowed"), trio.current_time())
        with pytest.raises(PublishRefused, match="not allowed"):
            await client.publish("a")
        await client.publish("a")


async def test_many_tasks_may_publish_through_one_client(brokers: Brokers) -> None:
    broker = await brokers.start()
    payload = b"x" * 100_000
    async with connect(broker.url) as client, client.subscribe("a") as events:

        async def publish() -> None:
            for _ in range(100):
                await client.publish("a", payload)

        with trio.fail_after(DEADLINE_SECONDS):
            async with trio.open_nursery() as nursery:
                for _ in range(4):
                    nursery.start_soon(publish)
                sequences = [event.sequence for event in await next_of(events, 400)]
    assert sequences == list(range(1, 401))


async def test_a_client_learns_where_else_it_can_go(brokers: Brokers) -> None:
    a, b, c = await brokers.ring_of(3)
    async with connect(a.url) as client:
        await client.status()
        assert set(client.alternates) == {b.url, c.url}
        assert client.broker_url == a.url
        assert not client.secure


async def test_status_describes_the_broker(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    async with connect(a.url) as client, client.subscribe("#"), client.subscribe("a"):
        status = await client.status()
    assert (status.uid, status.url, status.overlay) == (a.node.peer.uid, a.url, "chordal")
    assert status.member == a.node.ring.member
    assert [m.uid for m in (*status.left, *status.right)] == [b.node.peer.uid] * 2
    assert (status.clients, status.subscriptions, status.secure) == (1, 2, False)
    link = next(link for link in status.links if link.link_class is LinkClass.NORMAL)
    assert (link.uid, link.link_class, link.cipher) == (b.node.peer.uid, LinkClass.NORMAL, None)
    assert link.roles == ("left", "right")
    assert status.counters["control_messages_sent"] > 0


# Attaching


async def test_the_first_broker_that_answers(brokers: Brokers) -> None:
    broker = await brokers.start()
    async with connect("chordal://127.0.0.1:1", f"chordal://127.0.0.1:2,{broker.url}") as client:
        assert client.broker_url == broker.url


async def test_another_overlay_is_refused_at_once(brokers: Brokers) -> None:
    broker = await brokers.start(overlay="theirs")
    with trio.fail_after(5), pytest.raises(ConnectionLost, match="'theirs', not 'ours'"):
        async with connect(broker.url, overlay="ours", timeout=60):
            pass


async def test_what_does_not_speak_chordal_is_an_error_within_a_second() -> None:
    async def answer(stream: trio.SocketStream) -> None:
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, answer, 0)
        port = listeners[0].socket.getsockname()[1]
        with trio.fail_after(1), pytest.raises(ConnectionLost, match="does not speak chordal"):
            async with connect(f"chordal://127.0.0.1:{port}"):
                pass
        nursery.cancel_scope.cancel()


async def test_a_client_waits_for_a_broker_that_starts_later(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await brokers.start()
    port = parse_url(broker.url).port
    await brokers.dismiss(broker)
    with trio.fail_after(DEADLINE_SECONDS):
        async with trio.open_nursery() as nursery:

            async def start() -> None:
                await trio.sleep(0.8)
                await nursery.start(Broker(BrokerConfig(port=port, profile="local")).run)

            nursery.start_soon(start)
            async with connect(broker.url) as client:
                assert client.broker_url == broker.url
            nursery.cancel_scope.cancel()
    (record,) = (each for each in caplog.records if each.name == "ges.client")
    assert record.getMessage() == (
        f"waiting for a broker at {broker.url} (connection refused); trying until one answers"
    )


@pytest.mark.parametrize(
    ("urls", "words"),
    [
        ((), "no broker URL"),
        (("http://a",), "chordal://HOST"),
        (("chordals://a",), "an identity"),
        (("chordal://a", "chordals://a"), "all URLs with chordals://, or none"),
        (("chordals://a,chordal://b",), "all URLs with chordals://, or none"),
    ],
)
async def test_urls_that_cannot_be_used(urls: tuple[str, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        async with connect(*urls):
            pass


@pytest.mark.parametrize("page", ["README.md", "docs/links.md"])
def test_what_a_page_imports_in_an_example_is_there(page: str) -> None:
    examples = re.findall(r"```python[^\n]*\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    lines = re.findall(r"^(?:from|import) .*$", "\n".join(examples), re.MULTILINE)
    assert any("ges." in line for line in lines)
    exec("\n".join(lines), {})


async def test_a_client_hears_when_its_brokers_place_on_the_ring_was_in_doubt(
    brokers: Brokers,
) -> None:
    broker = await brokers.start()
    member = broker.node.ring.member
    assert member is not None
    told: list[Gap] = []
    async with connect(broker.url, on_gap=told.append) as client:
        await client.status()
        upper = broker._upper
        upper.on_fact(Reincarnated(member, "0" * 32))
        await until(lambda: len(told) == 1)
        upper.on_fact(Reincarnated(member, "0" * 32))
        await until(lambda: len(told) == 2)
        [gap] = client.gaps
    assert (gap.lost, gap.found) == (broker.url, broker.url)
    assert told[0].seconds <= gap.seconds == told[1].seconds < 60
