"""Frames of strangers at real brokers: none ends one, and timers that fail end none."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.virtual import Weather
from ges.broker import Broker
from ges.client import connect
from ges.order.flow_order import PATIENCE_NS
from ges.stack import Stack
from ges.wire.event_flags import GROUPS_FLAG, MARK_FLAG, NAMED_FLAG
from ges.wire.events import HEADER
from overlay.address import parse_url
from overlay.ids import NANOS_PER_SECOND, Nanos, Peer
from overlay.wire.frames import EVENT, frame
from tests.ges.whole.test_memory_limit import broker_hello

EVERYBODY = 2**64 - 1
NAMELESS = HEADER.pack(
    MARK_FLAG | NAMED_FLAG, 1, 1, 0, 7, 0, 0, 0, EVERYBODY, 0, b"x" * 16, 1, 2, 0, 0, 0, 4, 0, 1, 0
)
GROUPLESS = HEADER.pack(
    MARK_FLAG | GROUPS_FLAG, 1, 1, 0, 7, 0, 0, 0, EVERYBODY, 0, b"y" * 16, 1, 2, 0, 0, 0, 4, 0, 1, 0
)
UNMAPPED = HEADER.pack(0, 1, 1, 0, 7, 0, 0, 0, EVERYBODY, 0, b"z" * 16, 1, 1, 0, 0, 0, 4, 0, 1, 1)


async def throw(broker: Broker, weather: Weather, number: int, body: bytes) -> None:
    """Greet as a broker does, send one event frame, and wait until the link is cut."""
    uid = f"{number:032x}"
    transport = weather.transport(None)
    wire = await transport.connect(parse_url(broker.url))
    hello = broker_hello(Peer(uid, 1, "chordal://127.0.0.1:1"), 1, broker)
    await wire.stream.send_all(hello + frame(EVENT, body))
    with trio.fail_after(10):
        while await wire.stream.receive_some():
            pass


async def test_frames_that_are_read_late_end_no_broker(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    first, second = await brokers.ring_of(2)
    links = dict(first.driver.links)
    async with (
        connect(second.url, transport=weather.transport) as client,
        client.subscribe("#") as events,
    ):
        for number, body in enumerate((NAMELESS, GROUPLESS, UNMAPPED), start=1):
            await throw(first, weather, number, body + b"t" + b"\xff\xff\xff")
        await trio.sleep(2 * PATIENCE_NS / NANOS_PER_SECOND)
        await client.publish("t", b"honest", confirm=True)
        assert (await anext(events)).payload == b"honest", "and nothing else has come"
        assert client.unreadable == 0
    for broker in (first, second):
        assert broker.driver.counters["internal_errors"] == 0
    assert first.driver.counters["protocol_errors"] == 3
    assert second.driver.counters["protocol_errors"] == 0
    assert {key: link for key, link in first.driver.links.items() if key in links} == links


async def test_a_timer_whose_step_fails_ends_no_broker(
    autojump_clock: MockClock,
    weather: Weather,
    brokers: Brokers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = await brokers.ring_of(2)
    whole = Stack.expire
    failed: list[Nanos] = []

    def expire(stack: Stack, now: Nanos) -> None:
        if stack is first.stack and len(failed) < 3:
            failed.append(now)
            raise KeyError("a step")
        whole(stack, now)

    monkeypatch.setattr(Stack, "expire", expire)
    await trio.sleep(5)
    monkeypatch.undo()
    assert first.driver.counters["internal_errors"] == len(failed) == 3
    async with (
        connect(second.url, transport=weather.transport) as client,
        client.subscribe("t") as events,
    ):
        await client.publish("t", b"honest", confirm=True)
        assert (await anext(events)).payload == b"honest"
