"""A broker among brokers: what it takes from them, and with what it will not start."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from benchmarks.stage.brokers import Brokers, attach
from benchmarks.stage.proxy import free_port
from benchmarks.stage.virtual import Weather
from benchmarks.stage.waiting import until
from ges.broker import Broker, BrokerConfig
from ges.client import connect
from ges.errors import PublishRefused
from ges.sessions import reader
from ges.wire.asked import Ask
from ges.wire.client_messages import CLIENT_CODEC, KeepAlive, StatusRequest, Subscribe
from ges.wire.events import MAX_HOPS, Duty, pack_event
from overlay.address import parse_url
from overlay.errors import ConfigError, IdentityError
from overlay.ids import LinkClass, Peer
from overlay.links.first_message import read_greeting
from overlay.machine import OpenLink
from overlay.security.identity import Role
from overlay.wire.codec import FrameReader
from overlay.wire.frames import DELIVERY, EVENT, PROTOCOL_VERSION, frame
from overlay.wire.greetings import GREETINGS, Hello, Welcome
from ring.detection.local_health import LocalHealth
from ring.errors import JoinFailed
from tests.ges.conftest import Issue
from tests.helpers.runs import under_way

DEADLINE_SECONDS = 20
STRANGER = Peer("f" * 32, 1, "chordal://127.0.0.1:1")


@asynccontextmanager
async def linked(broker: Broker, weather: Weather | None = None) -> AsyncIterator[trio.abc.Stream]:
    """A broker played by the test, linked to a real one but not a member of its ring."""
    address = parse_url(broker.url)
    stream: trio.abc.Stream
    if weather is None:
        stream = await trio.open_tcp_stream(address.host, address.port)
    else:
        stream = await weather.network.connect(STRANGER.url, broker.url)
    hello = Hello("chordal", PROTOCOL_VERSION, STRANGER.uid, 1, STRANGER, LinkClass.NORMAL, None, 1)
    async with stream:
        await stream.send_all(GREETINGS.encode(hello))
        with trio.fail_after(DEADLINE_SECONDS):
            assert isinstance(await read_greeting(stream, FrameReader()), Welcome)
        yield stream


async def closes(stream: trio.abc.Stream) -> bool:
    with trio.fail_after(DEADLINE_SECONDS):
        try:
            while await stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass
    return True


async def test_who_asks_a_broker_that_has_not_joined_is_answered(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "JOIN_PATIENCE_SECONDS", 0.1)
    nobody = parse_url(f"chordal://127.0.0.1:{free_port()}")
    lost = Broker(BrokerConfig(port=0, profile="local", seeds=(nobody,)))
    nursery.start_soon(lost.run)
    await until(lambda: lost.is_composed)
    with trio.fail_after(DEADLINE_SECONDS):
        async with connect(lost.url) as client:
            assert (await client.status()).member is None
            with pytest.raises(PublishRefused, match="not on the ring"):
                await client.publish("x", confirm=True)
        async with connect(lost.url, reattach=False) as client, trio.open_nursery() as waiting:

            async def subscribe() -> None:
                async with client.subscribe("x"):
                    raise AssertionError("it would miss what is published elsewhere")

            waiting.start_soon(subscribe)
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert not lost.stack.deliveries.subscriptions
            waiting.cancel_scope.cancel()
    nursery.cancel_scope.cancel()


def event(
    sequence: int,
    *,
    hops: int = 0,
    limit: int = 0,
    via: int = 0,
    **changes: Any,  # noqa: ANN401 - fields of an event
) -> bytes:
    fields: dict[str, Any] = {
        "secure": False,
        "publisher": bytes(16),
        "incarnation": 1,
        "published_ns": 0,
        "topic": b"a",
        "attributes": b"",
        "payload": b"%d" % sequence,
    }
    body = pack_event(sequence=sequence, **fields | changes)
    return under_way(body, Duty(0, limit), hops=hops, via=via)


@pytest.mark.parametrize(
    "words",
    [
        CLIENT_CODEC.encode(Subscribe(1, Ask("#"))),
        CLIENT_CODEC.encode(StatusRequest()),
        CLIENT_CODEC.encode(KeepAlive(1, answer=False)),
        frame(DELIVERY, b"\0\0"),
        frame(EVENT, b"short"),
        frame(EVENT, event(1, secure=True)),
        b"\xff" * 64,
    ],
    ids=[
        "subscribe",
        "status",
        "keep-alive",
        "delivery",
        "half an event",
        "secure on plain",
        "noise",
    ],
)
async def test_what_no_broker_says_ends_the_link_and_nothing_else(
    brokers: Brokers, words: bytes
) -> None:
    a, b = await brokers.ring_of(2)
    async with connect(b.url) as client, client.subscribe("#") as events:
        async with linked(a) as stream:
            await stream.send_all(words)
            assert await closes(stream)
        await until(lambda: a.driver.counters["protocol_errors"] == 1)
        assert a.driver.counters["internal_errors"] == 0
        async with connect(a.url) as publisher:
            await publisher.publish("x", b"still here")
            with trio.fail_after(DEADLINE_SECONDS):
                assert (await anext(events)).payload == b"still here"
        assert brokers.findings() == []
        assert STRANGER.uid not in a.node.ring.linked


async def test_events_from_two_sides_are_delivered_once_and_in_order(brokers: Brokers) -> None:
    broker = await brokers.start()
    async with (
        connect(broker.url) as client,
        client.subscribe("a") as events,
        linked(broker) as stream,
    ):
        for number in (1, 2, 2, 1, 4, 3, 4, 5):
            via = 1 if number == 4 else 0  # it has overtaken 3 on another way
            await stream.send_all(frame(EVENT, event(number, via=via)))
        with trio.fail_after(DEADLINE_SECONDS):
            got = [(await anext(events)).payload for _ in range(5)]
        assert got == [b"1", b"2", b"3", b"4", b"5"]
        await until(lambda: broker.driver.counters["events_duplicate"] == 3)


async def test_an_event_whose_predecessor_is_lost_comes_all_the_same(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    broker = await brokers.start()
    async with attach(broker) as client, client.subscribe("a") as events:
        async with linked(broker, weather) as stream:
            await stream.send_all(frame(EVENT, event(1)) + frame(EVENT, event(3, via=1)))
            with trio.fail_after(DEADLINE_SECONDS):
                assert [(await anext(events)).sequence for _ in range(2)] == [1, 3]
        assert (await client.status()).counters["events_lost"] == 1


async def test_an_event_that_runs_in_circles_ends(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    here = a.node.ring.member
    assert here is not None
    async with linked(a) as stream, connect(a.url) as client, client.subscribe("a") as events:
        for sequence, hops in ((1, MAX_HOPS - 1), (2, MAX_HOPS)):
            await stream.send_all(frame(EVENT, event(sequence, hops=hops, limit=here.ring_id)))
        with trio.fail_after(DEADLINE_SECONDS):
            assert [(await anext(events)).sequence for _ in range(2)] == [1, 2]
        await until(lambda: b.driver.counters["events_received"] == 1)
        assert a.driver.counters["events_too_many_hops"] == 1


async def test_seeds_may_go_by_another_name(brokers: Brokers) -> None:
    first = await brokers.start()
    port = parse_url(first.url).port
    alias = parse_url(f"chordal://localhost:{port}")
    second = await brokers.start(seeds=(alias, parse_url(first.url)))
    await brokers.whole()
    link = second.driver.links[first.node.peer.uid, LinkClass.NORMAL]
    with trio.fail_after(DEADLINE_SECONDS):
        await second.driver._caller.call(
            OpenLink(alias.url)
        )  # as it knocks at its seeds now and then
    assert brokers.findings() == []
    assert second.driver.links[first.node.peer.uid, LinkClass.NORMAL] is link


async def test_a_broker_that_leaves_is_not_suspected(
    brokers: Brokers, capsys: pytest.CaptureFixture[str]
) -> None:
    ring = await brokers.ring_of(4)
    await ring[1].leave()
    brokers.kill(ring[1])
    await brokers.whole()
    assert "suspected" not in capsys.readouterr().out


async def test_a_ring_of_another_overlay_is_not_joined(brokers: Brokers) -> None:
    await brokers.start(overlay="theirs")
    with trio.fail_after(DEADLINE_SECONDS), pytest.raises(JoinFailed, match="'theirs'"):
        await _run_alone(seeds=(parse_url(brokers.alive[0].url),), overlay="ours")


async def _run_alone(**settings: Any) -> None:  # noqa: ANN401 - fields of BrokerConfig
    await Broker(BrokerConfig(port=0, profile="local", **settings)).run()


@pytest.mark.parametrize("url", ["http://x", "chordals://127.0.0.1:1", "chordal://a,b:1", "[/]"])
async def test_a_broker_that_nobody_can_call_does_not_join(brokers: Brokers, url: str) -> None:
    a, b = await brokers.ring_of(2)

    class Unnamed(BrokerConfig):
        def own_address(self, port: int) -> Any:  # noqa: ANN401 - has a URL, and no more
            return SimpleNamespace(url=url)

    refused = pytest.raises(JoinFailed, match="no URL that a broker can be called at")
    with trio.fail_after(DEADLINE_SECONDS), refused:
        await Broker(Unnamed(port=0, profile="local", seeds=brokers.seeds(a))).run()
    assert a.driver.counters["greetings_refused_not_chordal"] > 0
    assert (a.node.ring.known_urls, b.node.ring.known_urls) == ((b.url,), (a.url,))


async def test_a_broker_told_to_leave_before_it_has_begun(brokers: Brokers) -> None:
    broker = Broker(BrokerConfig(port=0))
    with trio.fail_after(DEADLINE_SECONDS):
        await broker.leave()


async def test_settings_that_cannot_be(tmp_path: Path, issue: Issue) -> None:
    client = issue(Role.CLIENT)
    for settings, error, words in (
        ({"host": "0.0.0.0"}, ConfigError, "--advertise"),
        ({"host": "::"}, ConfigError, "--advertise"),
        ({"profile": "mars"}, ConfigError, "local, lan, wan"),
        ({"identity": tmp_path / "nowhere"}, IdentityError, "nowhere"),
        ({"identity": client}, ConfigError, "a client's identity"),
    ):
        config: Any = settings
        with pytest.raises(error, match=words):
            Broker(BrokerConfig(**config))


async def test_a_life_is_traced(brokers: Brokers, tmp_path: Path) -> None:
    broker = await brokers.start(directory=tmp_path / "data")
    await broker.leave()
    name = f"live-{broker.node.peer.uid[:8]}-{broker.node.peer.incarnation}.jsonl"
    assert [p.name for p in (tmp_path / "data" / "trace" / "runs").iterdir()] == [name]


# More than sixteen: so many at a time are promised room.
@pytest.mark.parametrize(
    "n", [18, pytest.param(24, marks=pytest.mark.soak), pytest.param(40, marks=pytest.mark.soak)]
)
async def test_all_of_many_that_come_to_a_lone_broker_at_one_moment_get_a_place(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers, n: int
) -> None:
    assert len(await brokers.ring_of(n)) == n


async def test_who_sends_events_now_and_then_does_not_take_itself_for_one_that_stood_still(
    autojump_clock: MockClock,
    weather: Weather,
    brokers: Brokers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ring = await brokers.ring_of(5)
    stood_still = []
    worse = LocalHealth.worse

    def doubt(health: LocalHealth) -> None:
        stood_still.append(health)
        worse(health)

    monkeypatch.setattr(LocalHealth, "worse", doubt)
    async with AsyncExitStack() as stack:
        for broker in ring:
            client = await stack.enter_async_context(attach(broker))
            await stack.enter_async_context(client.subscribe("t"))
        await trio.sleep(20)
        for _ in range(40):
            await client.publish("t", b"x")
            await trio.sleep(1.7)
    assert stood_still == []
