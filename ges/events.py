"""Events and their frames.

An event frame starts with a header of fixed layout, so that a broker reads what it routes by and
patches what changes on the way without decoding the rest::

    u8  flags          bit 0: secure; bit 1: to all linked, as the tree may have holes;
                       bit 2: marked, as events before this one may be lost
    u8  hops           brokers passed so far
    u32 limit          where the part of the ring ends that the receiver is to serve
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

Events mostly come in runs: many from one publisher to one topic, with sequences without a gap.
:func:`event_runs` finds them, so that all of a run is decided, patched and passed on at once.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType

import msgspec

from ges.topics import MAX_TOPIC_BYTES
from overlay.codec import EVENT, PROTOCOL_VERSION, frame
from overlay.codec import HEADER as FRAME_HEADER
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
    attribute_bytes: int = 0


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
) -> bytes:
    """Return the body of an event frame; all parts have been checked."""
    head = HEADER.pack(
        SECURE_FLAG if secure else 0,
        0,
        0,
        publisher,
        incarnation,
        sequence,
        published_ns,
        len(topic),
        len(attributes),
    )
    return b"".join((head, topic, attributes, payload))


def read_head(data: bytes, start: int = 0, end: int | None = None) -> Head:
    """Read the header of an event frame, checking what a broker relies on.

    The body of the frame is ``data`` between ``start`` and ``end``.

    Raises:
        CodecError: the frame is too short for what it announces, or a part is too long.
    """
    try:
        flags, hops, limit, publisher, incarnation, sequence, published, topics, attributes = (
            HEADER.unpack_from(data, start)
        )
    except struct.error:
        raise CodecError(f"event frame of {len(data) - start} bytes") from None
    topic_at = start + HEADER.size
    payload = (len(data) if end is None else end) - topic_at - topics - attributes
    if (
        payload < 0
        or not 0 < topics <= MAX_TOPIC_BYTES
        or attributes > MAX_ATTRIBUTE_BYTES
        or payload > MAX_PAYLOAD_BYTES
        or flags & ~MARK_FLAG not in (0, SECURE_FLAG, SECURE_FLAG | FLOOD_FLAG)
        or sequence == 0
    ):
        raise CodecError("event frame whose lengths make no sense")
    topic = data[topic_at : topic_at + topics]
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
        attributes,
    )


class EventRun(msgspec.Struct, frozen=True, gc=False):
    """Events alike: from one publisher to one topic, the same way so far, sequences without gap."""

    head: Head  #: of the first
    data: bytes
    bounds: list[int]  #: frame ``i`` is ``data[bounds[i]:bounds[i + 1]]``

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.bounds) - 1

    @property
    def frames(self) -> bytes:
        """All frames in one piece."""
        return self.data[self.bounds[0] : self.bounds[-1]]

    def singles(self) -> Iterator[tuple[Head, bytes]]:
        """Yield the head and the body of each."""
        for start, end in pairwise(self.bounds):
            body = self.data[start + FRAME_HEADER.size : end]
            yield read_head(body), body

    def check_attributes(self) -> None:
        """Check what no broker looks at, where a client publishes it.

        Raises:
            CodecError: the attributes of an event are no map of strings.
        """
        shift = FRAME_HEADER.size + HEADER.size + len(self.head.topic)
        size = self.head.attribute_bytes
        try:
            for bound in self.bounds[:-1]:
                _attributes.decode(self.data[bound + shift : bound + shift + size])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CodecError(f"attributes: {error}") from None

    def unpatched(self) -> EventRun:
        """Return the run as a client should have sent it: without hops and limit."""
        first = self.bounds[0]
        flags = self.data[first + FRAME_HEADER.size]
        data = bytes(self.patched(flags, 0, 0))
        head = msgspec.structs.replace(self.head, hops=0, limit=0)
        return EventRun(head, data, [bound - first for bound in self.bounds])

    def patched(self, flags: int, hops: int, limit: int) -> bytearray:
        """Return all frames with other flags, hops and limit."""
        first = self.bounds[0]
        frames = bytearray(self.data[first : self.bounds[-1]])
        patch = bytes((flags,)) + PATCH.pack(hops, limit)
        shift = FRAME_HEADER.size - first
        for bound in self.bounds[:-1]:
            at = bound + shift
            frames[at : at + PATCH_END] = patch
        return frames


RUN_BYTES = 64 * 1024  #: of a run, unless it is a single event

#: Within a frame: what the events of a run have in common, the sequence, and the rest of that.
_ALIKE = FRAME_HEADER.size - 2, FRAME_HEADER.size + 30
_SEQUENCE = struct.Struct("!Q")
_ALIKE_TOO = FRAME_HEADER.size + 46


def event_runs(data: bytes, bounds: list[int]) -> Iterator[EventRun]:
    """Yield the runs of the event frames between ``bounds``.

    Raises:
        CodecError: as :func:`read_head` does, after the runs before the malformed frame.
    """
    sequence_of = _SEQUENCE.unpack_from
    alike, until = _ALIKE
    size_before = FRAME_HEADER.size + HEADER.size
    index, count = 0, len(bounds) - 1
    while index < count:
        start = bounds[index]
        head = read_head(data, start + FRAME_HEADER.size, bounds[index + 1])
        begins = data[start + alike : start + until]
        end_too = size_before + len(head.topic)
        ends = data[start + _ALIKE_TOO : start + end_too]
        smallest = end_too + head.attribute_bytes
        largest = smallest + MAX_PAYLOAD_BYTES
        sequence = head.sequence
        first = index
        index += 1
        most = bisect_right(bounds, start + RUN_BYTES, index) - 1
        while index < most:
            at = bounds[index]
            sequence += 1
            if (
                data[at + alike : at + until] != begins
                or data[at + _ALIKE_TOO : at + end_too] != ends
                or sequence_of(data, at + until) != (sequence,)
                or not smallest <= bounds[index + 1] - at <= largest
            ):
                break
            index += 1
        yield EventRun(head, data, bounds[first : index + 1])


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


def read_delivery(body: bytes) -> tuple[tuple[int, ...], list[Event]]:
    """Decode a delivery: the numbers of the subscriptions, and the events.

    Raises:
        CodecError: it is malformed.
    """
    try:
        (count,) = struct.unpack_from("!H", body)
        numbers = struct.unpack_from(f"!{count}I", body, 2)
    except struct.error:
        raise CodecError(f"delivery of {len(body)} bytes") from None
    return numbers, read_events(body, 2 + 4 * count)


def read_events(data: bytes, at: int = 0) -> list[Event]:
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
            length, tag, flags, hops, who, sequence, published, topics, attributes = unpack(
                data, at
            )
            end = at + 4 + length
            topic_at = at + _DELIVERED.size
            attributes_at = topic_at + topics
            payload_at = attributes_at + attributes
            if payload_at > end or end > size or tag != _EVENT_TAG:
                raise CodecError("event frame whose lengths make no sense")
            named = who + data[topic_at:attributes_at]
            if named != last:
                last = named
                topic = named[16:].decode()
                publisher = who.hex()
            events.append(
                Event(
                    topic,
                    data[payload_at:end],
                    _attributes.decode(data[attributes_at:payload_at]) if attributes else _NONE,
                    LinkClass.SECURE if flags & SECURE_FLAG else LinkClass.NORMAL,
                    publisher,
                    sequence,
                    published,
                    hops,
                )
            )
            at = end
    except struct.error:
        raise CodecError(f"event frame of {size - at} bytes") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CodecError(f"event frame: {error}") from None
    return events


#: Frame header and event header in one, but for what concerns brokers alone.
_DELIVERED = struct.Struct("!IHBB4x16s8xQQHH")
_EVENT_TAG = PROTOCOL_VERSION << 8 | EVENT
