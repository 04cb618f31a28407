"""An MQTT client that says what it is told to, right or wrong, and a door for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self

import trio

from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.http.tls import AdminTls
from ges.mqtt.codec import Fields, PacketReader, packed_binary, packed_text, packed_u16, packet
from ges.mqtt.door import MqttDoor, listen
from ges.mqtt.packets import MQTT_5, Kind
from ges.mqtt.properties import NONE, Properties, Property, Value, pack_properties, read_properties
from ges.mqtt.settings import MqttSettings

DEADLINE_SECONDS = 10.0
PINGREQ = b"\xc0\x00"
#: What comes to a port that is open to strangers.
GARBAGE = {
    "nothing that is known": b"\x00\x01\x02\xff" * 100,
    "another protocol": b"SSH-2.0-OpenSSH_9.9\r\n",
    "TLS": bytes.fromhex("16030100f8010000f40303") + bytes(240),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a length without end": b"\x10\xff\xff\xff\xff\xff",
    "a packet of 256 MB": b"\x10\xff\xff\xff\x7f" + b"x" * 1000,
    "our own greeting": b"\x00\x00\x00\x10\x02\x01hello",
}


@dataclass(frozen=True, slots=True)
class Told:
    """A packet from the door, read."""

    kind: Kind
    flags: int
    codes: tuple[int, ...] = ()  #: of CONNACK: whether there is a session, and the reason
    packet_id: int = 0
    topic: str = ""
    payload: bytes = b""
    properties: Properties = NONE
    subscription_ids: tuple[int, ...] = ()

    @property
    def qos(self) -> int:
        """Of a message."""
        return self.flags >> 1 & 3

    @property
    def retain(self) -> bool:
        """Of a message."""
        return bool(self.flags & 1)


def read_told(first: int, body: bytes, level: int) -> Told:
    """Read a packet as a client does."""
    kind, flags, fields = Kind(first >> 4), first & 15, Fields(body)
    is_5 = level == MQTT_5
    if kind is Kind.PUBLISH:
        topic = fields.text()
        packet_id = fields.u16() if flags & 6 else 0
        numbers: list[int] = []
        found = NONE
        if is_5:
            found, numbers = _with_numbers(fields)
        rest = fields.rest()
        return Told(kind, flags, (), packet_id, topic, rest, found, tuple(numbers))
    if kind is Kind.CONNACK:
        codes = fields.u8(), fields.u8()
        return Told(kind, flags, codes, properties=_properties(fields, is_5=is_5))
    if kind in (Kind.SUBACK, Kind.UNSUBACK):
        packet_id = fields.u16()
        found = _properties(fields, is_5=is_5)
        return Told(kind, flags, tuple(fields.rest()), packet_id, properties=found)
    if kind is Kind.PUBACK:
        packet_id = fields.u16()
        code = fields.u8() if fields.left else 0
        found = _properties(fields, is_5=is_5) if fields.left else NONE
        return Told(kind, flags, (code,), packet_id, properties=found)
    if kind is Kind.DISCONNECT:
        return Told(kind, flags, (fields.u8(),), properties=_properties(fields, is_5=is_5))
    fields.end()
    return Told(kind, flags)


def _properties(fields: Fields, *, is_5: bool) -> Properties:
    return read_properties(fields, frozenset(Property)) if is_5 else NONE


def _with_numbers(fields: Fields) -> tuple[Properties, list[int]]:
    """Read properties in which there may be several subscription identifiers, which come last."""
    part = fields.part(fields.varint())
    body = part.rest()
    numbers: list[int] = []
    for at in range(len(body) + 1):
        if at == len(body) or body[at] == Property.SUBSCRIPTION_ID:
            try:
                ahead = Fields(packed_properties(body[:at]))
                found = read_properties(ahead, frozenset(Property))
                rest = Fields(body, at)
                numbers = []
                while rest.left:
                    assert rest.varint() == Property.SUBSCRIPTION_ID
                    numbers.append(rest.varint())
            except Exception:  # noqa: BLE001 - the byte was part of something else
                continue
            return found, numbers
    raise AssertionError(f"properties {body!r}")


def packed_properties(body: bytes) -> bytes:
    """Return properties with their length in front."""
    assert len(body) < 128
    return bytes((len(body),)) + body


def connect_packet(
    client_id: str = "device",
    level: int = MQTT_5,
    *,
    clean: bool = True,
    keep_alive: int = 0,
    user: str | None = None,
    password: bytes | None = None,
    will: bytes = b"",
    will_flags: int = 0,
    properties: Mapping[Property, Value] | None = None,
    name: str = "MQTT",
) -> bytes:
    """Return CONNECT; ``will`` is that part of its payload."""
    flags = 2 * clean | will_flags | (4 if will else 0)
    flags |= (0x80 if user is not None else 0) | (0x40 if password is not None else 0)
    body = packed_text(name) + bytes((level, flags)) + packed_u16(keep_alive)
    if level == MQTT_5:
        body += pack_properties(Properties(properties or {}))
    body += packed_text(client_id) + will
    if user is not None:
        body += packed_text(user)
    if password is not None:
        body += packed_binary(password)
    return packet(Kind.CONNECT << 4, body)


def will_part(
    topic: str, payload: bytes, level: int = MQTT_5, properties: Properties = NONE
) -> bytes:
    """Return a will as it stands in CONNECT."""
    more = pack_properties(properties) if level == MQTT_5 else b""
    return more + packed_text(topic) + packed_binary(payload)


def publish_packet(
    topic: str,
    payload: bytes = b"",
    *,
    qos: int = 0,
    retain: bool = False,
    packet_id: int = 1,
    level: int = MQTT_5,
    properties: Properties = NONE,
    dup: bool = False,
) -> bytes:
    """Return PUBLISH."""
    body = packed_text(topic) + (packed_u16(packet_id) if qos else b"")
    if level == MQTT_5:
        body += pack_properties(properties)
    return packet(Kind.PUBLISH << 4 | dup << 3 | qos << 1 | retain, body + payload)


def subscribe_packet(
    *filters: str, options: int = 1, packet_id: int = 1, level: int = MQTT_5, identifier: int = 0
) -> bytes:
    """Return SUBSCRIBE."""
    body = packed_u16(packet_id)
    if level == MQTT_5:
        values: dict[Property, Value] = {Property.SUBSCRIPTION_ID: identifier} if identifier else {}
        body += pack_properties(Properties(values))
    return packet(
        Kind.SUBSCRIBE << 4 | 2,
        body + b"".join(packed_text(text) + bytes((options,)) for text in filters),
    )


def unsubscribe_packet(*filters: str, packet_id: int = 1, level: int = MQTT_5) -> bytes:
    """Return UNSUBSCRIBE."""
    body = packed_u16(packet_id) + (pack_properties(NONE) if level == MQTT_5 else b"")
    return packet(Kind.UNSUBSCRIBE << 4 | 2, body + b"".join(map(packed_text, filters)))


def puback_packet(packet_id: int) -> bytes:
    """Return PUBACK."""
    return packet(Kind.PUBACK << 4, packed_u16(packet_id))


def disconnect_packet(reason: int = 0, level: int = MQTT_5) -> bytes:
    """Return DISCONNECT."""
    return packet(Kind.DISCONNECT << 4, bytes((reason, 0)) if level == MQTT_5 else b"")


class Device:
    """One connection to a door."""

    def __init__(self, stream: trio.abc.Stream, level: int) -> None:
        self.stream = stream
        self.level = level
        self._packets = PacketReader(10_000_000)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await trio.aclose_forcefully(self.stream)

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        await self.stream.send_all(data)

    async def next(self, seconds: float = DEADLINE_SECONDS) -> Told | None:
        """Return the next packet; None: the door has closed the connection."""
        with trio.fail_after(seconds):
            while (found := self._packets.next()) is None:
                try:
                    data = await self.stream.receive_some(65536)
                except trio.BrokenResourceError:
                    return None
                if not data:
                    return None
                self._packets.feed(data)
        return read_told(*found, self.level)

    async def expect(self, kind: Kind) -> Told:
        """Return the next packet, which is of that kind."""
        found = await self.next()
        assert found is not None, f"the connection was closed, and no {kind.name} came"
        assert found.kind is kind, found
        return found

    async def expect_any(self) -> Told:
        """Return the next packet."""
        found = await self.next()
        assert found is not None, "the connection was closed"
        return found

    async def ask(self, data: bytes, kind: Kind) -> Told:
        """Send a packet, and return the answer."""
        await self.send(data)
        return await self.expect(kind)

    async def subscribe(self, *filters: str, options: int = 1, identifier: int = 0) -> Told:
        """Subscribe; returns the answer."""
        packed = subscribe_packet(
            *filters, options=options, level=self.level, identifier=identifier
        )
        return await self.ask(packed, Kind.SUBACK)

    async def publish(self, topic: str, payload: bytes = b"", **more: object) -> None:
        """Publish with QoS 0, unless it is said otherwise."""
        await self.send(publish_packet(topic, payload, level=self.level, **more))  # type: ignore[arg-type]

    async def end(self) -> list[Told]:
        """Return what comes until the door closes the connection."""
        found = []
        while (told := await self.next()) is not None:
            found.append(told)
        return found

    async def ping(self) -> Told:
        """Return the answer to a ping, before which nothing comes."""
        return await self.ask(PINGREQ, Kind.PINGRESP)

    async def rest(self) -> list[Told]:
        """Return what comes before a message that the broker is sent now."""
        topic = f"fence/{id(self)}"
        packed = subscribe_packet(topic, options=0, packet_id=999, level=self.level)
        await self.send(packed + publish_packet(topic, level=self.level))
        found: list[Told] = []
        while (told := await self.expect_any()).topic != topic:
            if (told.kind, told.packet_id) != (Kind.SUBACK, 999):
                found.append(told)
        return found

    async def is_quiet(self) -> bool:
        """Say whether nothing comes before a message that the broker is sent now."""
        return not await self.rest()


@asynccontextmanager
async def door_of(broker: Broker, tls: AdminTls | None = None) -> AsyncIterator[MqttDoor]:
    """Serve MQTT clients for the length of the block."""
    async with trio.open_nursery() as nursery:
        settings = MqttSettings("127.0.0.1", 0, tls)
        door = MqttDoor(broker, settings, await listen(settings))
        nursery.start_soon(door.run)
        yield door
        nursery.cancel_scope.cancel()


async def dial(door: MqttDoor, level: int = MQTT_5) -> Device:
    """Return a connection on which nothing has been said."""
    return Device(await trio.open_tcp_stream("127.0.0.1", door.port), level)


async def device(
    door: MqttDoor, client_id: str = "device", level: int = MQTT_5, **more: object
) -> Device:
    """Return a client that is attached."""
    found = await dial(door, level)
    told = await found.ask(connect_packet(client_id, level, **more), Kind.CONNACK)  # type: ignore[arg-type]
    assert told.codes == (0, 0), told
    return found


async def counted(broker: Broker, name: str, most: int = 1) -> None:
    """Wait until a counter of a broker is so high."""
    await until(lambda: broker.driver.counters[name] >= most, DEADLINE_SECONDS)
