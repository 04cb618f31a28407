"""A broker and clients that do not behave: each is dealt with, and nobody else notices."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.greetings import UID, client_hello
from benchmarks.stage.virtual import Weather
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import connect
from ges.matching.asks import ask_for
from ges.sessions import clients
from ges.wire.asked import Ask
from ges.wire.attributes import pack_attributes
from ges.wire.client_messages import (
    CLIENT_CODEC,
    Accepted,
    Active,
    Alternates,
    Attached,
    EventRefused,
    KeepAlive,
    StatusRequest,
    Subscribe,
    Subscribed,
    SubscriptionRefused,
    Unsubscribe,
)
from ges.wire.delivered import read_delivery
from ges.wire.event_flags import MARK_FLAG, RECALLED_FLAG
from ges.wire.events import Duty, pack_event
from ges.wire.status import Status
from overlay.address import parse_url
from overlay.ids import LinkClass
from overlay.limits import Limits
from overlay.links.first_message import read_greeting
from overlay.machine import Message, Refused
from overlay.wire.codec import FrameReader
from overlay.wire.fragments import MIN_SLICE_BYTES
from overlay.wire.frames import CONTROL, DELIVERY, EVENT, FRAGMENT, PROTOCOL_VERSION, frame
from overlay.wire.greetings import GREETINGS, Refusal
from tests.helpers.runs import under_way

DEADLINE_SECONDS = 20


class Raw:
    """A client without a library: says anything, and reads when told to."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._reader = FrameReader()
        self._heard: deque[tuple[int, bytes]] = deque()

    async def say(self, *messages: Message) -> None:
        await self.stream.send_all(b"".join(CLIENT_CODEC.encode(m) for m in messages))

    async def publish(self, sequence: int, **changes: Any) -> None:  # noqa: ANN401
        await self.stream.send_all(frame(EVENT, event(sequence, **changes)))

    async def hear(self) -> Message | bytes | None:
        """Return the next message, the body of the next delivery, or None at the end.

        What is said of activity is passed over.
        """
        with trio.fail_after(DEADLINE_SECONDS):
            while True:
                if self._heard:
                    kind, body = self._heard.popleft()
                    assert kind in (CONTROL, DELIVERY)
                    if kind != CONTROL:
                        return body
                    message = CLIENT_CODEC.decode(body)
                    if not isinstance(message, Active):
                        return message
                    continue
                try:
                    data = await self.stream.receive_some()
                except trio.BrokenResourceError:
                    return None
                if not data:
                    return None
                self._reader.feed(data)
                self._heard += self._reader.frames()

    async def is_cut_off(self) -> bool:
        """Read to the end, and say whether it came."""
        while await self.hear() is not None:
            pass
        return True


def event(sequence: int, **changes: Any) -> bytes:  # noqa: ANN401 - fields of an event
    fields: dict[str, Any] = {
        "secure": False,
        "publisher": bytes.fromhex(UID),
        "incarnation": 1,
        "published_ns": 0,
        "topic": b"a",
        "attributes": b"",
        "payload": b"",
    }
    return pack_event(sequence=sequence, **fields | changes)


@asynccontextmanager
async def raw(broker: Broker, weather: Weather | None = None) -> AsyncIterator[Raw]:
    """Attach to ``broker``, over the network in memory where there is one."""
    address = parse_url(broker.url)
    stream: trio.abc.Stream
    if weather is not None:
        stream = await weather.network.connect("chordal://127.0.0.1:1", broker.url)
    else:
        stream = await trio.open_tcp_stream(address.host, address.port)
    async with stream:
        client = Raw(stream)
        await stream.send_all(GREETINGS.encode(client_hello()))
        attached = Attached(
            broker.node.peer.uid,
            broker.url,
            secure=False,
            version=PROTOCOL_VERSION,
        )
        assert await client.hear() == attached
        assert isinstance(await client.hear(), Alternates)
        yield client


@pytest.fixture
def limits() -> Limits:
    return Limits()


@pytest.fixture
async def broker(brokers: Brokers, limits: Limits) -> Broker:
    return await brokers.start(limits=limits)


async def test_requests_are_answered(broker: Broker) -> None:
    async with raw(broker) as client:
        await client.say(KeepAlive(7, answer=False), KeepAlive(8, answer=True))
        assert await client.hear() == KeepAlive(7, answer=True)
        await client.say(Subscribe(3, Ask("a/#")))
        assert await client.hear() == Subscribed(3)
        await client.say(StatusRequest())
        assert isinstance(await client.hear(), Status)


async def test_a_secure_filter_is_not_served_on_a_plain_hop(broker: Broker) -> None:
    """This project's client does not ask for it; who asks is refused, and gets nothing."""
    async with raw(broker) as client:
        await client.say(Subscribe(3, ask_for("a/#", LinkClass.SECURE)))
        refused = await client.hear()
        assert isinstance(refused, SubscriptionRefused)
        assert refused.number == 3
        assert "from the broker to this client is not secure" in refused.reason
        async with connect(broker.url) as other:
            assert (await other.status()).subscriptions == 0


async def test_what_was_sent_together_is_acknowledged_together(broker: Broker) -> None:
    async with raw(broker) as client:
        frames = b"".join(frame(EVENT, event(number)) for number in range(1, 101))
        await client.stream.send_all(frames)
        answers: list[object] = []
        while not answers or answers[-1] != Accepted(LinkClass.NORMAL, 100):
            answers.append(await client.hear())
            assert answers[-1] is not None
        assert len(answers) <= 10
        for token in (1, 2):
            await client.say(KeepAlive(token, answer=False))
            assert await client.hear() == KeepAlive(token, answer=True), "and not twice"


async def test_a_client_may_greet_and_go_on_in_one_breath(broker: Broker) -> None:
    address = parse_url(broker.url)
    async with await trio.open_tcp_stream(address.host, address.port) as stream:
        client = Raw(stream)
        await stream.send_all(GREETINGS.encode(client_hello()) + frame(EVENT, event(1)))
        answers = [await client.hear() for _ in range(3)]
    assert answers[2] == Accepted(LinkClass.NORMAL, 1)


@pytest.mark.parametrize(
    "words",
    [
        b"\xff" * 100,
        frame(CONTROL, b"\xc1"),
        frame(EVENT, b"short"),
        frame(EVENT, event(1, publisher=bytes(16))),
        frame(EVENT, event(1, incarnation=2)),
        frame(EVENT, event(0)),
        frame(DELIVERY, b"\0\0" + event(1)),
        CLIENT_CODEC.encode(Subscribed(1)),
        GREETINGS.encode(client_hello()),
        frame(CONTROL, b"\x92\xa4Ping\x01"),
    ],
    ids=[
        "noise",
        "no message",
        "half an event",
        "another's name",
        "another's life",
        "sequence 0",
        "delivery",
        "a broker's answer",
        "greeting again",
        "a broker's message",
    ],
)
async def test_one_who_breaks_the_protocol_is_cut_off_and_nobody_else(
    broker: Broker, words: bytes
) -> None:
    async with connect(broker.url) as other, other.subscribe("#") as events:
        async with raw(broker) as client:
            await client.stream.send_all(words)
            assert await client.is_cut_off()
        await other.publish("a", b"still here")
        with trio.fail_after(DEADLINE_SECONDS):
            assert (await anext(events)).payload == b"still here"
        assert broker.driver.counters["protocol_errors"] == 1
        assert broker.driver.counters["internal_errors"] == 0
        await until(lambda: broker.clients.size == 1)


async def test_a_client_cannot_steer_its_events(broker: Broker) -> None:
    """Hops and limit are the brokers' own; what a client writes there does not count."""
    body = event(1)
    steered = under_way(
        body, Duty(1, 1, 1, 1), flags=MARK_FLAG | RECALLED_FLAG, hops=255, via=1, source=1
    )
    async with (
        raw(broker) as client,
        connect(broker.url) as other,
        other.subscribe("a") as events,
    ):
        await client.stream.send_all(frame(EVENT, steered))
        with trio.fail_after(DEADLINE_SECONDS):
            assert (await anext(events)).hops == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"topic": b"a/+"}, "wildcard"),
        ({"topic": b"\xff"}, "not UTF-8"),
        ({"topic": b"a/\x1b[2J"}, r"topic 'a/\x1b[2J' has a control character in it"),
        ({"secure": True}, "not secure; attach over chordals://"),
    ],
)
async def test_events_that_are_refused_come_back_with_a_reason(
    broker: Broker, changes: dict[str, Any], words: str
) -> None:
    async with connect(broker.url) as other, other.subscribe("#") as events:
        async with raw(broker) as client:
            await client.publish(1, **changes)
            refused = await client.hear()
            assert isinstance(refused, EventRefused)
            assert refused.sequence == 1
            assert words in refused.reason
            await client.publish(2, payload=b"good")
            while (answer := await client.hear()) != Accepted(LinkClass.NORMAL, 2):
                assert answer is not None
        with trio.fail_after(DEADLINE_SECONDS):
            assert (await anext(events)).payload == b"good"
    assert broker.driver.counters["events_refused"] == 1


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Subscribe(1, Ask("a/>")), "'#'"),
        (Subscribe(1, Ask("")), "empty"),
        (Subscribe(1, Ask("a\n")), "control character"),
        (Subscribe(1, ask_for("a", LinkClass.SECURE)), "not secure"),
    ],
)
async def test_subscriptions_that_are_refused(
    broker: Broker, request_: Subscribe, words: str
) -> None:
    async with raw(broker) as client:
        await client.say(request_)
        refused = await client.hear()
        assert isinstance(refused, SubscriptionRefused)
        assert words in refused.reason
        assert broker.stack.deliveries.subscriptions == 0


@pytest.mark.parametrize("limits", [Limits(subscriptions=2)])
async def test_subscriptions_are_bounded(broker: Broker) -> None:
    async with raw(broker) as client:
        await client.say(*(Subscribe(number, Ask("a")) for number in (1, 2, 2, 3)))
        answers = [await client.hear() for _ in range(4)]
        assert answers[:3] == [Subscribed(1), Subscribed(2), Subscribed(2)]
        assert isinstance(answers[3], SubscriptionRefused)
        await client.say(Unsubscribe(1), Unsubscribe(9), Subscribe(3, Ask("a")))
        assert await client.hear() == Subscribed(3)


@pytest.mark.parametrize(
    "limits",
    [Limits(subscription_bytes=100_000), Limits(subscription_bytes_total=460_000)],
    ids=["a client's", "an address's"],
)
async def test_the_memory_of_filters_is_bounded(broker: Broker) -> None:
    deep = "/".join("abcdefgh" for _ in range(64))
    async with raw(broker) as client:
        await client.say(*(Subscribe(number, Ask(f"{number}{deep}")) for number in range(4)))
        answers = [await client.hear() for _ in range(4)]
        assert [type(found) for found in answers] == [Subscribed] * 2 + [SubscriptionRefused] * 2
        await client.say(Unsubscribe(0), Subscribe(3, Ask(f"3{deep}")))
        assert await client.hear() == Subscribed(3)
    await until(lambda: broker.clients.size == 0)
    async with raw(broker) as client:
        await client.say(Subscribe(1, Ask(deep)))
        assert await client.hear() == Subscribed(1), "who goes leaves room"


@pytest.mark.parametrize("limits", [Limits(frame_seconds=0.2)])
async def test_a_frame_that_drips_is_given_up(
    autojump_clock: MockClock, weather: Weather, broker: Broker
) -> None:
    async with raw(broker, weather) as client:
        with suppress(trio.BrokenResourceError):
            for byte in frame(EVENT, event(1, payload=bytes(1000))):
                await client.stream.send_all(bytes([byte]))
                await trio.sleep(0.01)
    await until(lambda: broker.clients.size == 0)
    assert broker.driver.counters["protocol_errors"] == 1


@pytest.mark.parametrize("limits", [Limits(frame_seconds=0.2)])
async def test_a_frame_in_slices_that_is_never_whole_is_given_up(
    autojump_clock: MockClock, weather: Weather, broker: Broker
) -> None:
    """Whatever comes whole between its slices."""
    begun = frame(FRAGMENT, b"\0" + bytes(MIN_SLICE_BYTES))
    async with raw(broker, weather) as client:
        with suppress(trio.BrokenResourceError):
            await client.stream.send_all(begun)
            for token in range(100):
                await client.say(KeepAlive(token, answer=True))
                await trio.sleep(0.01)
    await until(lambda: broker.clients.size == 0)
    assert broker.driver.counters["protocol_errors"] == 1


@pytest.mark.parametrize("limits", [Limits(frame_seconds=0.2)])
async def test_frames_in_slices_that_become_whole_may_go_on_for_ever(
    autojump_clock: MockClock, weather: Weather, broker: Broker
) -> None:
    whole = frame(EVENT, event(1, payload=bytes(2 * MIN_SLICE_BYTES)))
    at = 2 * MIN_SLICE_BYTES
    begun, rest = frame(FRAGMENT, b"\0" + whole[:at]), frame(FRAGMENT, b"\1" + whole[at:])
    async with raw(broker, weather) as client:
        await client.stream.send_all(begun)
        for _ in range(50):
            await client.stream.send_all(rest + begun)  # one is never finished
            await trio.sleep(0.01)
        await client.stream.send_all(rest)
        await client.say(KeepAlive(7, answer=False))
        while (answer := await client.hear()) != KeepAlive(7, answer=True):
            assert answer is not None


@pytest.mark.parametrize("limits", [Limits(frame_seconds=0.2)])
async def test_frames_that_come_one_after_another_may_go_on_for_ever(
    autojump_clock: MockClock, weather: Weather, broker: Broker
) -> None:
    async with raw(broker, weather) as client:
        one = CLIENT_CODEC.encode(KeepAlive(1, answer=True))
        await client.stream.send_all(one[:5])
        for _ in range(50):
            await client.stream.send_all(one[5:] + one[:5])  # one is never finished
            await trio.sleep(0.01)
        await client.stream.send_all(one[5:])
        await client.say(KeepAlive(7, answer=False))
        assert await client.hear() == KeepAlive(7, answer=True)


@pytest.mark.parametrize("limits", [Limits(clients=1)])
async def test_clients_are_bounded(broker: Broker) -> None:
    async with raw(broker):
        address = parse_url(broker.url)
        async with await trio.open_tcp_stream(address.host, address.port) as stream:
            await stream.send_all(GREETINGS.encode(client_hello()))
            with trio.fail_after(DEADLINE_SECONDS):
                refusal = await read_greeting(stream, FrameReader())
            assert refusal == Refusal(Refused.BUSY, "this broker serves 1 client")
    assert broker.driver.counters["clients_turned_away"] == 1
    await until(lambda: broker.clients.size == 0)
    async with raw(broker):
        pass


async def test_a_client_that_goes_leaves_nothing(broker: Broker) -> None:
    async with raw(broker) as client:
        await client.say(Subscribe(1, Ask("a/#")), Subscribe(2, Ask("b")))
        assert await client.hear() == Subscribed(1)
        assert broker.stack.deliveries.subscriptions == 2
    await until(lambda: broker.clients.size == 0)
    assert broker.stack.deliveries.subscriptions == 0


@pytest.mark.parametrize("limits", [Limits(client_silence_seconds=0.1)])
async def test_a_silent_client_is_given_up(broker: Broker) -> None:
    async with raw(broker) as client:
        assert await client.is_cut_off()
    await until(lambda: broker.clients.size == 0)


async def test_a_slow_subscriber_is_cut_off_and_holds_up_nobody(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on sending signs of life, but does not read."""
    monkeypatch.setattr(clients, "CLIENT_QUEUE_BYTES", 4 * 1024 * 1024)
    count, payload = 300, b"x" * 100_000
    async with raw(broker) as slow, connect(broker.url) as other, other.subscribe("a") as events:
        await slow.say(Subscribe(1, Ask("#")))
        await slow.hear()
        largest = 0

        async def stay_alive() -> None:
            nonlocal largest
            with suppress(trio.BrokenResourceError):
                while True:
                    await slow.say(KeepAlive(1, answer=True))
                    sessions = broker.clients._sessions
                    largest = max(largest, *(s.connection.queued_bytes for s in sessions))
                    await trio.sleep(0.01)

        async def publish() -> None:
            for _ in range(count):
                await other.publish("a", payload)

        with trio.fail_after(DEADLINE_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stay_alive)
                nursery.start_soon(publish)
                for number in range(1, count + 1):
                    assert (await anext(events)).sequence == number
                await until(lambda: broker.clients.size == 1)
                nursery.cancel_scope.cancel()
        assert await slow.is_cut_off()
        assert broker.driver.counters["clients_too_slow"] == 1
        assert largest <= 4 * 1024 * 1024
        assert (await other.status()).clients == 1


async def test_what_was_taken_is_delivered_before_the_broker_leaves(
    brokers: Brokers, broker: Broker
) -> None:
    """Confirmed to the publisher, queued for a subscriber: a good-bye is no excuse."""
    count, payload = 60, b"x" * 100_000
    async with raw(broker) as client:
        assert isinstance(client.stream, trio.SocketStream)
        client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 50_000)
        await client.say(Subscribe(1, Ask("a")))
        assert await client.hear() == Subscribed(1)
        async with connect(broker.url) as publisher:
            for _ in range(count):
                await publisher.publish("a", payload)
            await publisher.flush()

        async def leave() -> None:
            await broker.leave()
            brokers.kill(broker)

        async def talk() -> None:
            """Bytes that nobody reads any more must not reset the connection."""
            with suppress(trio.BrokenResourceError):
                while True:
                    await client.say(KeepAlive(1, answer=True))
                    await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave)
            nursery.start_soon(talk)
            deliveries = 0
            while (body := await client.hear()) is not None:
                assert isinstance(body, bytes)
                deliveries += len(read_delivery(body)[1])
            nursery.cancel_scope.cancel()
        assert deliveries == count


async def test_a_matching_client_gets_one_delivery_for_all_its_subscriptions(
    broker: Broker,
) -> None:
    async with raw(broker) as client:
        await client.say(*(Subscribe(number, Ask(text)) for number, text in ((5, "#"), (2, "a"))))
        await client.hear()
        await client.hear()
        await client.publish(1, payload=b"p")
        body = await client.hear()
        assert isinstance(body, bytes)
        assert body[:10] == b"\0\2" + (2).to_bytes(4, "big") + (5).to_bytes(4, "big")
        assert await client.hear() == Accepted(LinkClass.NORMAL, 1)


async def test_an_empty_event_frame_is_a_protocol_error_and_no_fault_of_ours(
    broker: Broker,
) -> None:
    async with raw(broker) as client:
        await client.stream.send_all(frame(EVENT, b""))
        assert await client.is_cut_off()
    assert broker.driver.counters["protocol_errors"] == 1
    assert broker.driver.counters["internal_errors"] == 0


ODD_ATTRIBUTES = {
    "no map": b"\xc1",
    "nothing": b"\x81\xa1a\xc0",
    "no number": b"\x81\xa1a\xcb\x7f\xf8" + bytes(6),
    "too large": b"\x81\xa1a\xcf" + b"\xff" * 8,
}


@pytest.mark.parametrize("attributes", ODD_ATTRIBUTES.values(), ids=ODD_ATTRIBUTES)
async def test_an_event_with_odd_attributes_is_refused_and_its_client_goes_on(
    broker: Broker, attributes: bytes
) -> None:
    """Also where those before and behind it in the same write are in order."""
    good = pack_attributes({"a": 1})
    async with (
        connect(broker.url) as other,
        other.subscribe("a") as events,
        raw(broker) as client,
    ):
        frames = [
            frame(EVENT, event(number, attributes=packed, payload=b"%d" % number))
            for number, packed in enumerate((good, attributes, good), start=1)
        ]
        await client.stream.send_all(b"".join(frames))
        with trio.fail_after(DEADLINE_SECONDS):
            found = [await anext(events), await anext(events)]
            while not isinstance(said := await client.hear(), EventRefused):
                assert said is not None
    assert [each.payload for each in found] == [b"1", b"3"]
    assert said.sequence == 2
    assert "attribute" in said.reason
    assert broker.driver.counters["protocol_errors"] == 0
