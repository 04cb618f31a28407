"""Events and their frames.

An event frame starts with a header of fixed layout, so that a broker reads what it routes by and
patches what changes on the way without decoding the rest::

    u8  flags          bit 0: secure; bit 1: to all linked, as the tree may have holes;
                       bit 2: marked, as events before this one may be lost
    u8  hops           brokers passed so far
    u32 limit          where the part of the ring ends that the receiver is to serve; from a
                       client: for how many milliseconds a secure event may be parked
    16s publisher      uid
    u64 incarnation    of the publisher
    u64 sequence       from 1, without gaps, for each publisher, incarnation and class
    u64 published      unix time in nanoseconds, by the publisher's clock
    u16 topic bytes
    u16 attribute bytes
    topic (UTF-8) | attributes (msgpack map of strings) | payload

A delivery to a client is the same with the numbers of the matching subscriptions before it::

    u16 count | u32 each | event
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from ges.topics import MAX_TOPIC_BYTES
from overlay.errors import CodecError, ConfigError
from overlay.ids import LinkClass

HEADER = struct.Struct("!BBI16sQQQHH")
PATCH = struct.Struct("!BI")  #: hops and limit ...
PATCH_AT = 1  #: ... and where they stand, behind the flags
PATCH_END = PATCH_AT + PATCH.size

SECURE_FLAG = 1
FLOOD_FLAG = 2
MARK_FLAG = 4
MAX_HOPS = 255
MAX_PAYLOAD_BYTES = 1024 * 1024
MAX_ATTRIBUTE_BYTES = 4096
MAX_MATCHES = 1024  #: subscriptions of one client served by one delivery

_NONE: Mapping[str, str] = MappingProxyType({})
_attributes = msgspec.msgpack.Decoder(dict[str, str])
_encoder = msgspec.msgpack.Encoder()


class Head(msgspec.Struct, frozen=True, gc=False):
    """The header of an event frame."""

    secure: bool
    hops: int
    limit: int
    publisher: bytes  #: 16 bytes
    incarnation: int
    sequence: int
    published_ns: int
    topic: bytes
    flood: bool = False
    marked: bool = False


class Event(msgspec.Struct, frozen=True):
    """An event, as a subscriber gets it."""

    topic: str
    payload: bytes
    attributes: Mapping[str, str]
    link_class: LinkClass
    publisher: str  #: uid
    sequence: int
    published_unix_ns: int
    hops: int  #: brokers between publisher and subscriber, less one


def pack_attributes(attributes: Mapping[str, str] | None) -> bytes:
    """Encode attributes.

    Raises:
        ConfigError: they take more than 4096 bytes.
    """
    if not attributes:
        return b""
    packed = _encoder.encode(dict(attributes))
    if len(packed) > MAX_ATTRIBUTE_BYTES:
        raise ConfigError(f"attributes take {len(packed)} bytes, {MAX_ATTRIBUTE_BYTES} are allowed")
    return packed


def pack_event(
    secure: bool,
    publisher: bytes,
    incarnation: int,
    sequence: int,
    published_ns: int,
    topic: bytes,
    attributes: bytes,
    payload: bytes,
    park_ms: int = 0,
) -> bytes:
    """Return the body of an event frame as a client sends it; all parts have been checked."""
    head = HEADER.pack(
        SECURE_FLAG if secure else 0,
        0,
        park_ms,
        publisher,
        incarnation,
        sequence,
        published_ns,
        len(topic),
        len(attributes),
    )
    return b"".join((head, topic, attributes, payload))


def read_head(body: bytes) -> Head:
    """Read the header of an event frame, checking what a broker relies on.

    Raises:
        CodecError: the frame is too short for what it announces, or a part is too long.
    """
    try:
        flags, hops, limit, publisher, incarnation, sequence, published, topics, attributes = (
            HEADER.unpack_from(body)
        )
    except struct.error:
        raise CodecError(f"event frame of {len(body)} bytes") from None
    payload = len(body) - HEADER.size - topics - attributes
    if (
        payload < 0
        or not 0 < topics <= MAX_TOPIC_BYTES
        or attributes > MAX_ATTRIBUTE_BYTES
        or payload > MAX_PAYLOAD_BYTES
        or flags & ~MARK_FLAG not in (0, SECURE_FLAG, SECURE_FLAG | FLOOD_FLAG)
        or sequence == 0
    ):
        raise CodecError("event frame whose lengths make no sense")
    topic = body[HEADER.size : HEADER.size + topics]
    return Head(
        bool(flags & SECURE_FLAG),
        hops,
        limit,
        publisher,
        incarnation,
        sequence,
        published,
        topic,
        bool(flags & FLOOD_FLAG),
        bool(flags & MARK_FLAG),
    )


def read_event(body: bytes, start: int = 0) -> Event:
    """Decode a whole event frame that begins at ``start``.

    Raises:
        CodecError: it is malformed.
    """
    try:
        flags, hops, _, publisher, _, sequence, published, topics, attributes = HEADER.unpack_from(
            body, start
        )
    except struct.error:
        raise CodecError(f"event frame of {len(body) - start} bytes") from None
    topic_at = start + HEADER.size
    attributes_at = topic_at + topics
    payload_at = attributes_at + attributes
    if payload_at > len(body):
        raise CodecError("event frame whose lengths make no sense")
    try:
        return Event(
            body[topic_at:attributes_at].decode(),
            body[payload_at:],
            _attributes.decode(body[attributes_at:payload_at]) if attributes else _NONE,
            LinkClass.SECURE if flags & SECURE_FLAG else LinkClass.NORMAL,
            publisher.hex(),
            sequence,
            published,
            hops,
        )
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CodecError(f"event frame: {error}") from None


def pack_matches(numbers: tuple[int, ...]) -> bytes:
    """Return what stands before the event in a delivery."""
    return struct.pack(f"!H{len(numbers)}I", len(numbers), *numbers)


def read_delivery(body: bytes) -> tuple[tuple[int, ...], Event]:
    """Decode a delivery: the numbers of the subscriptions, and the event.

    Raises:
        CodecError: it is malformed.
    """
    try:
        (count,) = struct.unpack_from("!H", body)
        numbers = struct.unpack_from(f"!{count}I", body, 2)
    except struct.error:
        raise CodecError(f"delivery of {len(body)} bytes") from None
    return numbers, read_event(body, 2 + 4 * count)
