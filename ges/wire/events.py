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

A delivery to a client has the numbers of the matching subscriptions, and then the event frames, one
or more, just as they came::

    u16 count | u32 each | event frames

An express event (bit 3 of the flags) has eight bytes more, before its topic::

    u32 budget         microseconds it may be under way; 0: as the first broker has it
    u32 spent          microseconds under way so far, by estimates of those who passed it on

Bit 4 says that it has passed a link that is not express, bit 5 that a broker has found it late.

Bit 6 says of any other event that it may come for a second time, and is passed on all the same, as
somebody who was to pass it on may not have done so.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from ges.wire.topics import MAX_TOPIC_BYTES
from overlay.errors import CodecError, ConfigError
from overlay.ids import LinkClass
from overlay.wire.frames import EVENT, PROTOCOL_VERSION, frame

HEADER = struct.Struct("!BBI16sQQQHH")
PATCH = struct.Struct("!BI")  #: hops and limit ...
PATCH_AT = 1  #: ... and where they stand, behind the flags
PATCH_END = PATCH_AT + PATCH.size

SECURE_FLAG = 1
FLOOD_FLAG = 2
MARK_FLAG = 4
EXPRESS_FLAG = 8
ROUGH_FLAG = 16
LATE_FLAG = 32
AGAIN_FLAG = 64
MAX_HOPS = 255
MAX_PAYLOAD_BYTES = 1024 * 1024
MAX_ATTRIBUTE_BYTES = 4096
MAX_MATCHES = 1024  #: subscriptions of one client served by one delivery

BUDGET = struct.Struct("!II")  #: of an express event: budget and what is spent of it
BUDGET_AT = HEADER.size  #: in the body of its frame
SPENT_AT = BUDGET_AT + 4
DEFAULT_BUDGET_US = 50_000
MAX_BUDGET_US = 2**32 - 1

#: Flags that may come together, but for the mark, and for what may come again.
_FLAGS = frozenset(
    [0, SECURE_FLAG, SECURE_FLAG | FLOOD_FLAG]
    + [EXPRESS_FLAG | more for more in (0, ROUGH_FLAG, LATE_FLAG, ROUGH_FLAG | LATE_FLAG)]
)

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
    attribute_bytes: int = 0
    express: bool = False
    rough: bool = False  #: an express event that has passed a link that is not
    late: bool = False  #: a broker has found so
    budget_us: int = 0
    spent_us: int = 0
    again: bool = False  #: it is passed on even where it has come before

    @property
    def link_class(self) -> LinkClass:
        """The class of links it asks for."""
        if self.express:
            return LinkClass.EXPRESS
        return LinkClass.SECURE if self.secure else LinkClass.NORMAL


class Event(msgspec.Struct, frozen=True, gc=False):
    """An event, as a subscriber gets it."""

    topic: str
    payload: bytes
    attributes: Mapping[str, str]
    link_class: LinkClass
    publisher: str  #: uid
    sequence: int
    published_unix_ns: int
    hops: int  #: brokers between publisher and subscriber, less one
    late: bool = False  #: an express event that took longer than its budget, by the estimate
    express_path: bool = False  #: all links it has passed were express
    budget_us: int = 0  #: microseconds an express event may take; 0: it is none
    spent_us: int = 0  #: microseconds it took: waiting in queues, and half of each round trip
    incarnation: int = 0  #: of the publisher: with each it numbers its events anew


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


def check_attributes(packed: bytes) -> None:
    """Check what no broker looks at, where a client publishes it.

    Raises:
        CodecError: these are no attributes.
    """
    try:
        _attributes.decode(packed)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CodecError(f"attributes: {error}") from None


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


def pack_express(
    publisher: bytes,
    incarnation: int,
    sequence: int,
    published_ns: int,
    topic: bytes,
    attributes: bytes,
    payload: bytes,
    budget_us: int,
) -> bytes:
    """Return the body of the frame of an express event; all parts have been checked."""
    fields = (EXPRESS_FLAG, 0, 0, publisher, incarnation, sequence, published_ns)
    head = HEADER.pack(*fields, len(topic), len(attributes))
    return b"".join((head, BUDGET.pack(budget_us, 0), topic, attributes, payload))


def read_head(data: bytes, start: int = 0, end: int | None = None) -> Head:
    """Read the header of an event frame, checking what a broker relies on.

    The body of the frame is ``data`` between ``start`` and ``end``.

    Raises:
        CodecError: the frame is too short for what it announces, or a part is too long.
    """
    if end is None:
        end = len(data)
    try:
        flags, hops, limit, publisher, incarnation, sequence, published, topics, attributes = (
            HEADER.unpack_from(data, start)
        )
        topic_at = start + HEADER.size
        budget = spent = 0
        if flags & EXPRESS_FLAG:
            budget, spent = BUDGET.unpack_from(data, topic_at)
            topic_at += BUDGET.size
    except struct.error:
        raise CodecError(f"event frame of {end - start} bytes") from None
    payload = end - topic_at - topics - attributes
    if (
        payload < 0
        or not 0 < topics <= MAX_TOPIC_BYTES
        or attributes > MAX_ATTRIBUTE_BYTES
        or payload > MAX_PAYLOAD_BYTES
        or flags & ~(MARK_FLAG | AGAIN_FLAG) not in _FLAGS
        or sequence == 0
    ):
        raise CodecError("event frame whose lengths make no sense")
    return Head(
        bool(flags & SECURE_FLAG),
        hops,
        limit,
        publisher,
        incarnation,
        sequence,
        published,
        data[topic_at : topic_at + topics],
        bool(flags & FLOOD_FLAG),
        bool(flags & MARK_FLAG),
        attributes,
        bool(flags & EXPRESS_FLAG),
        bool(flags & ROUGH_FLAG),
        bool(flags & LATE_FLAG),
        budget,
        spent,
        bool(flags & AGAIN_FLAG),
    )


def read_event(body: bytes) -> Event:
    """Decode the body of one event frame.

    Raises:
        CodecError: it is malformed.
    """
    (event,) = read_events(frame(EVENT, body))
    return event


def pack_matches(numbers: tuple[int, ...]) -> bytes:
    """Return what stands before the event in a delivery."""
    return struct.pack(f"!H{len(numbers)}I", len(numbers), *numbers)


def read_delivery(body: bytes, hop_us: int = 0) -> tuple[tuple[int, ...], list[Event]]:
    """Decode a delivery: the numbers of the subscriptions, and the events.

    ``hop_us``: microseconds that the last hop takes, by estimate.

    Raises:
        CodecError: it is malformed.
    """
    try:
        (count,) = struct.unpack_from("!H", body)
        numbers = struct.unpack_from(f"!{count}I", body, 2)
    except struct.error:
        raise CodecError(f"delivery of {len(body)} bytes") from None
    return numbers, read_events(body, 2 + 4 * count, hop_us)


def read_events(data: bytes, at: int = 0, hop_us: int = 0) -> list[Event]:
    """Decode the event frames that fill ``data`` from ``at`` on.

    Raises:
        CodecError: one is malformed.
    """
    events: list[Event] = []
    size = len(data)
    unpack = _DELIVERED.unpack_from
    last: bytes = b""
    topic = publisher = ""
    try:
        while at < size:
            (
                length,
                tag,
                flags,
                hops,
                who,
                incarnation,
                sequence,
                published,
                topics,
                attributes,
            ) = unpack(data, at)
            end = at + 4 + length
            topic_at = at + _DELIVERED.size
            budget = spent = 0
            if flags & EXPRESS_FLAG:
                budget, spent = BUDGET.unpack_from(data, topic_at)
                topic_at += BUDGET.size
                spent += hop_us
            attributes_at = topic_at + topics
            payload_at = attributes_at + attributes
            if payload_at > end or end > size or tag != _EVENT_TAG:
                raise CodecError("event frame whose lengths make no sense")
            named = who + data[topic_at:attributes_at]
            if named != last:
                last = named
                topic = named[16:].decode()
                publisher = who.hex()
            event = Event(
                topic,
                data[payload_at:end],
                _attributes.decode(data[attributes_at:payload_at]) if attributes else _NONE,
                _CLASSES[flags & _CLASS_FLAGS],
                publisher,
                sequence,
                published,
                hops,
                spent > budget,
                bool(flags & EXPRESS_FLAG) and not flags & ROUGH_FLAG,
                budget,
                spent,
                incarnation,
            )
            events.append(event)
            at = end
    except struct.error:
        raise CodecError(f"event frame of {size - at} bytes") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CodecError(f"event frame: {error}") from None
    return events


#: Frame header and event header in one, but for what concerns brokers alone.
_DELIVERED = struct.Struct("!IHBB4x16sQQQHH")
_EVENT_TAG = PROTOCOL_VERSION << 8 | EVENT
_CLASS_FLAGS = SECURE_FLAG | EXPRESS_FLAG
_CLASSES = (
    {0: LinkClass.NORMAL, SECURE_FLAG: LinkClass.SECURE, EXPRESS_FLAG: LinkClass.EXPRESS}
    | {_CLASS_FLAGS: LinkClass.SECURE}  # no broker passes such an event on
)
