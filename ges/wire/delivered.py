"""Events as a subscriber gets them, and the deliveries they come in.

A delivery to a client has the numbers of the matching subscriptions, and then the event frames, one
or more, just as they came::

    u16 count | u32 each | event frames

:mod:`ges.wire.events` has the header of an event frame.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from types import MappingProxyType

import msgspec

from ges.wire.attributes import Attributes, read_attributes
from ges.wire.event_flags import (
    ALONE_FLAGS,
    AT_MOST_ONCE_FLAG,
    CORRELATION_FLAG,
    EXPIRES_FLAG,
    EXPRESS_FLAG,
    REQUEST_FLAG,
    RETAIN_FLAG,
    ROUGH_FLAG,
    SECURE_FLAG,
    STORED_FLAG,
    extension_at,
    extension_bytes,
)
from ges.wire.events import (
    BUDGET,
    CORRELATION_BYTES,
    STAMP,
    START_BYTES,
    WORD_BYTES,
    layout_alike,
)
from ges.wire.replies import reply_address
from ges.wire.trace_context import traceparent_in
from overlay.errors import CodecError
from overlay.ids import MAX_COUNT, MAX_SEQUENCE, LinkClass
from overlay.wire.frames import EVENT, HEADER, LENGTH_AND_TAG, PROTOCOL_VERSION

MAX_MATCHES = 1024  #: subscriptions of one client served by one delivery
ALIKE = 256  #: events of one size that are decoded at once, at most
PROBE = 8  #: at least: the last of so many shows whether there are more of them

_NONE: Attributes = MappingProxyType({})

#: Frame header and event header in one, but for what concerns brokers alone.
_DELIVERED = struct.Struct("!IHIB35x16sQQQBBBBHH")
_EVENT_TAG = PROTOCOL_VERSION << 8 | EVENT
_CLASS_FLAGS = SECURE_FLAG | EXPRESS_FLAG
_UNLIKE = ALONE_FLAGS | AT_MOST_ONCE_FLAG
_CLASSES = (
    {0: LinkClass.NORMAL, SECURE_FLAG: LinkClass.SECURE, EXPRESS_FLAG: LinkClass.EXPRESS}
    | {_CLASS_FLAGS: LinkClass.SECURE}  # no broker passes such an event on
)


class Event(msgspec.Struct, frozen=True, gc=False):
    """An event, as a subscriber gets it."""

    topic: str
    payload: bytes
    attributes: Attributes  #: text, integers, floats and booleans by name
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
    priority: int = 0  #: 0 to 9, as the publisher has it
    correlation: bytes = b""  #: 16 bytes by which a reply names what it replies to; none: empty
    is_request: bool = False  #: its publisher waits for a reply
    retained: bool = False  #: it was published before, and is the last that was retained
    retain: bool = False  #: its publisher has it retained
    ends_unix_ms: int = 0  #: nobody gets it after that, by the clocks of brokers; 0: it has no end
    at_most_once: bool = False  #: its publisher does not care if it is lost

    @property
    def reply_to(self) -> str:
        """Topic that a reply is to be published to, with the same correlation id.

        Empty: nobody waits for one.
        """
        return reply_address(self.publisher, self.correlation) if self.is_request else ""

    @property
    def traceparent(self) -> str:
        """The trace that it belongs to (:mod:`ges.wire.trace_context`); empty: none is named."""
        return traceparent_in(self.attributes)


def pack_matches(numbers: tuple[int, ...]) -> bytes:
    """Return what stands before the event in a delivery."""
    return struct.pack(f"!H{len(numbers)}I", len(numbers), *numbers)


def read_delivery(
    data: bytes,
    hop_us: Callable[[], int] = lambda: 0,
    at: int = 0,
    end: int | None = None,
    *,
    on_unreadable: Callable[[CodecError], None] | None = None,
) -> tuple[tuple[int, ...], list[Event]]:
    """Decode the delivery in ``data`` from ``at`` to ``end``: numbers of subscriptions, and events.

    ``hop_us`` returns microseconds that the last hop takes, by estimate; asked of express events.
    ``on_unreadable``: told of each event that makes no sense, and is left out; None: it raises.

    Raises:
        CodecError: it is malformed.
    """
    if end is None:
        end = len(data)
    try:
        (count,) = struct.unpack_from("!H", data, at)
        events_at = at + 2 + 4 * count
        numbers = struct.unpack_from(f"!{count}I", data, at + 2)
    except struct.error:
        raise CodecError(f"delivery of {end - at} bytes") from None
    if events_at > end:
        raise CodecError(f"delivery of {end - at} bytes")
    return numbers, read_events(data, events_at, hop_us, end, on_unreadable)


def read_events(
    data: bytes,
    at: int = 0,
    hop_us: Callable[[], int] = lambda: 0,
    end: int | None = None,
    on_unreadable: Callable[[CodecError], None] | None = None,
) -> list[Event]:
    """Decode the event frames that fill ``data`` from ``at`` to ``end``.

    ``on_unreadable``: as of :func:`read_delivery`.

    Raises:
        CodecError: one is malformed.
    """
    events: list[Event] = []
    size = len(data) if end is None else end
    like: _Like | None = None  #: the event before
    while at < size:
        if like is not None:
            at = like.read_on(data, at, size, events)
            if at == size:
                break
        try:
            event, like, at = _read_event(data, at, size, hop_us)
        except (CodecError, struct.error, msgspec.DecodeError, UnicodeDecodeError) as error:
            problem = CodecError(f"event frame of {size - at} bytes: {error}")
            if on_unreadable is None:
                raise problem from None
            at, like = _behind(data, at, size), None
            on_unreadable(problem)
        else:
            events.append(event)
    return events


def _behind(data: bytes, at: int, last: int) -> int:
    """Return where the event frame ends that begins at ``at``.

    Raises:
        CodecError: there is none before ``last``.
    """
    if at + HEADER.size <= last:
        length, tag = LENGTH_AND_TAG.unpack_from(data, at)
        end: int = at + 4 + length
        if tag == _EVENT_TAG and at + HEADER.size <= end <= last:
            return end
    raise CodecError("delivery of something that is no event")


def _read_event(
    data: bytes, at: int, last: int, hop_us: Callable[[], int]
) -> tuple[Event, _Like | None, int]:
    """Return the event whose frame begins at ``at``, what is like it, and where the next begins.

    All of the frame is before ``last``.
    """
    (
        length,
        tag,
        flags,
        hops,
        who,
        incarnation,
        sequence,
        published,
        _,
        priority,
        _,
        words,
        topics,
        attributes,
    ) = _DELIVERED.unpack_from(data, at)
    end = at + 4 + length
    behind = at + _DELIVERED.size
    topic_at = behind + extension_bytes(flags) + WORD_BYTES * words
    budget = spent = 0
    is_express = bool(flags & EXPRESS_FLAG)
    if is_express:
        budget, spent = BUDGET.unpack_from(data, behind)
        spent += hop_us()
    correlation = b""
    if flags & CORRELATION_FLAG:
        first = behind + extension_at(CORRELATION_FLAG, flags)
        correlation = data[first : first + CORRELATION_BYTES]
    ends = 0
    if flags & EXPIRES_FLAG:
        (ends,) = STAMP.unpack_from(data, behind + extension_at(EXPIRES_FLAG, flags))
    attributes_at = topic_at + topics
    payload_at = attributes_at + attributes
    is_out = sequence > MAX_SEQUENCE or incarnation > MAX_COUNT
    if payload_at > end or end > last or tag != _EVENT_TAG or is_out:
        raise CodecError("event frame whose lengths or numbers make no sense")
    event = Event(
        data[topic_at:attributes_at].decode(),
        data[payload_at:end],
        read_attributes(data[attributes_at:payload_at]) if attributes else _NONE,
        _CLASSES[flags & _CLASS_FLAGS],
        who.hex(),
        sequence,
        published,
        hops,
        spent > budget,
        is_express and not flags & ROUGH_FLAG,
        budget,
        spent,
        incarnation,
        priority,
        correlation,
        bool(flags & REQUEST_FLAG),
        bool(flags & STORED_FLAG),
        bool(flags & RETAIN_FLAG),
        ends,
        bool(flags & AT_MOST_ONCE_FLAG),
    )
    is_like = not (flags & _UNLIKE or attributes or words)
    like = _Like(event, data, at, topics) if is_like else None
    return event, like, end


class _Like:
    """What the events of a run have in common: all but length, sequence, time and payload."""

    __slots__ = ("_common", "_event", "_is_even", "_layout", "_topic")

    def __init__(self, event: Event, data: bytes, at: int, topic_bytes: int) -> None:
        self._event = event
        self._layout = _layout(topic_bytes)
        self._is_even = True  #: events of one size have had no others between them
        _, self._common, _, _, self._topic = self._layout.unpack_from(data, at)

    def read_on(self, data: bytes, at: int, last: int, events: list[Event]) -> int:
        """Add the events from ``at`` to ``last`` that are like this one; return where they end."""
        event, common, topic = self._event, self._common, self._topic
        name, link_class, publisher = event.topic, event.link_class, event.publisher
        hops, incarnation, priority = event.hops, event.incarnation, event.priority
        unpack, header = self._layout.unpack_from, self._layout.size
        while at + header <= last:
            length, common_too, sequence, published, topic_too = unpack(data, at)
            end = at + 4 + length
            payload_at = at + header
            if common_too != common or topic_too != topic or not payload_at <= end <= last:
                break
            if self._is_even:
                many_end = self._read_alike(data, at, last, 4 + length, events)
                if many_end > at:
                    at = many_end
                    continue
            events.append(
                Event(
                    name,
                    data[payload_at:end],
                    _NONE,
                    link_class,
                    publisher,
                    sequence,
                    published,
                    hops,
                    incarnation=incarnation,
                    priority=priority,
                )
            )
            at = end
        return at

    def _read_alike(self, data: bytes, at: int, last: int, size: int, events: list[Event]) -> int:
        """Add the events from ``at`` on that all have frames of ``size`` bytes; return their end.

        It is ``at`` if they are few, or if there are others between them.
        """
        count = min(ALIKE, (last - at) // size)
        start = data[at : at + START_BYTES]
        if count < PROBE or not data.startswith(start, at + (PROBE - 1) * size):
            return at
        event, topic = self._event, self._topic
        name, link_class, publisher = event.topic, event.link_class, event.publisher
        hops, incarnation, priority = event.hops, event.incarnation, event.priority
        frames = memoryview(data)[at : at + count * size]
        alike = layout_alike(len(topic), size - self._layout.size)
        found = [
            # All by position: that takes half the time.
            Event(
                name,
                payload,
                _NONE,
                link_class,
                publisher,
                sequence,
                published,
                hops,
                False,  # late
                False,  # express_path
                0,  # budget_us
                0,  # spent_us
                incarnation,
                priority,
            )
            for start_too, sequence, published, topic_too, payload in alike.iter_unpack(frames)
            if start_too == start and topic_too == topic
        ]
        if len(found) < count:
            self._is_even = False
            return at
        events += found
        return at + count * size


@lru_cache(maxsize=1024)
def _layout(topic_bytes: int) -> struct.Struct:
    """Return length | version to incarnation | sequence | time | max hops to topic."""
    return struct.Struct(f"!I66sQQ{8 + topic_bytes}s")
