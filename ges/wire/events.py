"""Event frames: their header, and how a client packs them.

An event frame starts with a header of fixed layout, so that a broker reads what it routes by and
patches what changes on the way without decoding the rest::

    u8  flags          bit 0: secure; bit 1: to all linked, as the tree may have holes;
                       bit 2: marked, as events before this one may be lost
    u8  hops           brokers passed so far
    4s  duty           what the receiver is to serve, as the plan of its broker says it
                       (:mod:`ges.routing.plan`); from a client, a u32: for how many milliseconds
                       a secure event may be parked
    16s publisher      uid
    u64 incarnation    of the publisher
    u64 sequence       from 1, without gaps, for each publisher, incarnation and class
    u64 published      unix time in nanoseconds, by the publisher's clock
    u16 topic bytes
    u16 attribute bytes
    topic (UTF-8) | attributes (msgpack map of strings) | payload

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
from functools import lru_cache

import msgspec

from ges.wire.topics import MAX_TOPIC_BYTES
from overlay.errors import CodecError, ConfigError
from overlay.ids import LinkClass

HEADER = struct.Struct("!BB4s16sQQQHH")
PATCH = struct.Struct("!B4s")  #: hops and duty ...
PATCH_AT = 1  #: ... and where they stand, behind the flags
PATCH_END = PATCH_AT + PATCH.size
START_BYTES = 36  #: of an event's frame, from its length to the incarnation

SECURE_FLAG = 1
FLOOD_FLAG = 2
MARK_FLAG = 4
EXPRESS_FLAG = 8
ROUGH_FLAG = 16
LATE_FLAG = 32
AGAIN_FLAG = 64
MAX_HOPS = 255
NO_DUTY = bytes(4)
MAX_PAYLOAD_BYTES = 1024 * 1024
MAX_ATTRIBUTE_BYTES = 4096

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

_SECURE, _EXPRESS = LinkClass.SECURE, LinkClass.EXPRESS
_CLASSES = {0: LinkClass.NORMAL, SECURE_FLAG: _SECURE, EXPRESS_FLAG: _EXPRESS}

ATTRIBUTES = msgspec.msgpack.Decoder(dict[str, str])
_encoder = msgspec.msgpack.Encoder()


#: Who numbers its events, in which incarnation, and of which class: each has its own numbers.
Flow = tuple[bytes, int, LinkClass]


class Head(msgspec.Struct, frozen=True, gc=False):
    """The header of an event frame."""

    link_class: LinkClass  #: of links that it asks for
    hops: int
    duty: bytes  #: 4 bytes
    publisher: bytes  #: 16 bytes
    incarnation: int
    sequence: int
    published_ns: int
    topic: bytes
    flood: bool = False
    marked: bool = False
    attribute_bytes: int = 0
    rough: bool = False  #: an express event that has passed a link that is not
    late: bool = False  #: a broker has found so
    budget_us: int = 0
    spent_us: int = 0
    again: bool = False  #: it is passed on even where it has come before

    @property
    def secure(self) -> bool:
        """It asks for secure links."""
        return self.link_class is _SECURE

    @property
    def express(self) -> bool:
        """It asks for express links, and has a budget."""
        return self.link_class is _EXPRESS

    @property
    def flow(self) -> Flow:
        """The sequence that it is part of: its publisher, incarnation and class."""
        return self.publisher, self.incarnation, self.link_class

    @property
    def park_ms(self) -> int:
        """Milliseconds for which a client lets a secure event be parked."""
        return int.from_bytes(self.duty)


@lru_cache(maxsize=1024)
def layout_alike(end_bytes: int, payload_bytes: int) -> struct.Struct:
    """Return the layout of the frames of one flow, topic and size, for many to be handled at once.

    It is start | sequence | time | both lengths and topic | payload; starts and ends are the same.
    """
    return struct.Struct(f"!{START_BYTES}sQQ{end_bytes}s{payload_bytes}s")


def pack_attributes(attributes: Mapping[str, str] | None) -> bytes:
    """Encode attributes.

    Raises:
        ConfigError: they take more than 4096 bytes, or are not all text.
    """
    if not attributes:
        return b""
    for key, value in attributes.items():
        if not (isinstance(key, str) and isinstance(value, str)):
            raise ConfigError(f"attribute {key!r}: {value!r} is not text; names and values are str")
    packed = _encoder.encode(dict(attributes))
    if len(packed) > MAX_ATTRIBUTE_BYTES:
        raise ConfigError(f"attributes take {len(packed)} bytes, {MAX_ATTRIBUTE_BYTES} are allowed")
    return packed


def check_attributes(packed: bytes) -> None:
    """Check the attributes of an event from a client; no broker looks at them afterwards.

    Raises:
        CodecError: these are no attributes.
    """
    try:
        ATTRIBUTES.decode(packed)
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
        park_ms.to_bytes(4),
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
    fields = (EXPRESS_FLAG, 0, NO_DUTY, publisher, incarnation, sequence, published_ns)
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
        flags, hops, duty, publisher, incarnation, sequence, published, topics, attributes = (
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
        _CLASSES[flags & (SECURE_FLAG | EXPRESS_FLAG)],
        hops,
        duty,
        publisher,
        incarnation,
        sequence,
        published,
        data[topic_at : topic_at + topics],
        bool(flags & FLOOD_FLAG),
        bool(flags & MARK_FLAG),
        attributes,
        bool(flags & ROUGH_FLAG),
        bool(flags & LATE_FLAG),
        budget,
        spent,
        bool(flags & AGAIN_FLAG),
    )
