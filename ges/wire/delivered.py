"""Events as a subscriber gets them, and the deliveries they come in.

A delivery to a client has the numbers of the matching subscriptions, and then the event frames, one
or more, just as they came::

    u16 count | u32 each | event frames

:mod:`ges.wire.events` has the header of an event frame.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from ges.wire.events import ATTRIBUTES, BUDGET, EXPRESS_FLAG, ROUGH_FLAG, SECURE_FLAG
from overlay.errors import CodecError
from overlay.ids import LinkClass
from overlay.wire.frames import EVENT, PROTOCOL_VERSION

MAX_MATCHES = 1024  #: subscriptions of one client served by one delivery

_NONE: Mapping[str, str] = MappingProxyType({})

#: Frame header and event header in one, but for what concerns brokers alone.
_DELIVERED = struct.Struct("!IHBB4x16sQQQHH")
_EVENT_TAG = PROTOCOL_VERSION << 8 | EVENT
_CLASS_FLAGS = SECURE_FLAG | EXPRESS_FLAG
_CLASSES = (
    {0: LinkClass.NORMAL, SECURE_FLAG: LinkClass.SECURE, EXPRESS_FLAG: LinkClass.EXPRESS}
    | {_CLASS_FLAGS: LinkClass.SECURE}  # no broker passes such an event on
)


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
                ATTRIBUTES.decode(data[attributes_at:payload_at]) if attributes else _NONE,
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
