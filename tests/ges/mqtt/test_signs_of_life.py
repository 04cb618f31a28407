"""Whatever comes from a client of MQTT is a sign of life, and only who says nothing is given up.

A client and its door are joined in memory, and time is virtual: minutes take no time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, MutableMapping, Sequence
from contextlib import asynccontextmanager, suppress

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, memory_stream_pair

from benchmarks.stage.brokers import Brokers, attach
from benchmarks.stage.virtual import Weather
from ges.http.tls import AdminTls
from ges.mqtt.door import MqttDoor
from ges.mqtt.packets import MQTT_3, MQTT_5, Kind
from ges.mqtt.reasons import Reason
from ges.mqtt.stream import MqttStream
from overlay.limits import Limits
from tests.ges.mqtt.device import (
    PINGREQ,
    Device,
    connect_packet,
    door_of,
    puback_packet,
    publish_packet,
)
from tests.helpers.web_certificates import WebAuthority

SECONDS = 60
PORT = 40_000
WHO = ("sink", "192.0.2.7", PORT)


@asynccontextmanager
async def joined(door: MqttDoor, level: int = MQTT_5, **more: object) -> AsyncIterator[Device]:
    """A client that is attached over a stream in memory."""
    here, there = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(door.converse, there, "192.0.2.7", PORT)
        device = Device(here, level)
        told = await device.ask(connect_packet("sink", level, **more), Kind.CONNACK)  # type: ignore[arg-type]
        assert told.codes == (0, 0)
        yield device
        await here.aclose()
        nursery.cancel_scope.cancel()


async def come_of_a_minute(brokers: Brokers, keep_alive: int, level: int) -> list[bytes]:
    """Return what comes to a client that says nothing but PUBACK, of one message each second."""
    broker = await brokers.start()
    found: list[bytes] = []
    async with (
        door_of(broker) as door,
        attach(broker) as source,
        joined(door, level, keep_alive=keep_alive) as sink,
    ):
        await sink.subscribe("t")
        for number in range(SECONDS):
            await source.publish("t", b"%d" % number, confirm=True)
            told = await sink.next()
            if told is None or told.kind is not Kind.PUBLISH:
                break
            await sink.send(puback_packet(told.packet_id))
            found.append(told.payload)
            await trio.sleep(1)
    return found


@pytest.mark.parametrize("level", [MQTT_3, MQTT_5])
@pytest.mark.parametrize("keep_alive", [60, 0])
async def test_who_says_nothing_but_puback_gets_all(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers, keep_alive: int, level: int
) -> None:
    expected = [b"%d" % number for number in range(SECONDS)]
    assert await come_of_a_minute(brokers, keep_alive, level) == expected


async def test_a_stream_that_takes_frames_alone_for_signs_of_life_is_noticed(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault that there was, planted: each packet restarts the wait for the next pulse."""
    taken = MqttStream._take

    async def restarting(self: MqttStream, data: bytes | bytearray) -> None:
        await taken(self, data)
        self._told = trio.current_time()

    monkeypatch.setattr(MqttStream, "_take", restarting)
    with capture_logs() as lines:
        assert len(await come_of_a_minute(brokers, 60, MQTT_5)) < SECONDS / 2
    assert named_in(lines) == WHO


def named_in(lines: Sequence[MutableMapping[str, object]]) -> tuple[object, ...]:
    """Return whom the one line of the log names that tells of a silent client."""
    (line,) = [line for line in lines if line["event"] == "client silent, given up"]
    return line["mqtt_client_id"], line["host"], line["port"]


def pings(at: int) -> bytes:
    return PINGREQ if at % 2 == 0 else b""


def half_pings(at: int) -> bytes:
    return PINGREQ[at % 2 :][:1]


def a_long_packet(at: int) -> bytes:
    return publish_packet("t", b"x" * 100)[at : at + 1]


@pytest.mark.parametrize("says", [pings, half_pings, a_long_packet])
async def test_whatever_comes_keeps_a_client(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers, says: Callable[[int], bytes]
) -> None:
    """Of a keep-alive of 3 s, nothing for 4.5 s is too long; each of these says less, and more."""
    broker = await brokers.start(limits=Limits(frame_seconds=40, client_silence_seconds=2))
    async with door_of(broker) as door, joined(door, keep_alive=3) as sink:
        for at in range(30):
            await sink.send(says(at))
            await trio.sleep(1)
        assert door.size == 1
        assert broker.driver.counters["clients_silent"] == 0


class Trickle(trio.abc.Stream):
    """Brings what is said over byte by byte, one each second, once it has been told to."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.is_slow = False
        self._stream = stream

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        for at in range(len(data)):
            await self._stream.send_all(data[at : at + 1])
            if self.is_slow:
                await trio.sleep(1)

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


async def test_a_part_of_a_tls_record_is_a_sign_of_life(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers, authority: WebAuthority
) -> None:
    broker = await brokers.start()
    tls = AdminTls(authority.certificate.parent)
    here, there = memory_stream_pair()
    async with door_of(broker, tls) as door, trio.open_nursery() as nursery:
        nursery.start_soon(door.converse, there, "192.0.2.7", PORT)
        slow = Trickle(here)
        secured = trio.SSLStream(slow, authority.client(), server_hostname="127.0.0.1")
        client = Device(secured, MQTT_5)
        await client.ask(connect_packet("sink", keep_alive=3), Kind.CONNACK)
        await client.subscribe("t")
        slow.is_slow = True
        await client.publish("t", b"x" * 100)  # in one record, which takes some two minutes
        assert (await client.expect(Kind.PUBLISH)).payload == b"x" * 100
        nursery.cancel_scope.cancel()


async def test_a_packet_that_comes_too_slowly_ends_the_connection(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    broker = await brokers.start(limits=Limits(frame_seconds=10))
    async with door_of(broker) as door, joined(door, keep_alive=3) as sink:
        with suppress(trio.BrokenResourceError):
            for at in range(20):
                await sink.send(a_long_packet(at))
                await trio.sleep(1)
        (told,) = await sink.end()
        assert told.codes == (Reason.MALFORMED_PACKET,)


async def test_the_log_names_who_is_given_up(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    broker = await brokers.start()
    with capture_logs() as lines:
        async with door_of(broker) as door, joined(door, keep_alive=3) as sink:
            began = trio.current_time()
            (told,) = await sink.end()
            assert told.codes == (Reason.KEEP_ALIVE,)
            assert 4 < trio.current_time() - began < 5
    assert named_in(lines) == WHO
    assert broker.driver.counters["clients_silent"] == 1
