"""Frames of a publisher's events, packed with as little work for each as can be.

All but the sequence, the time and the payload is the same for all events of one topic and class.

An event is kept until a broker has confirmed it, and for a while longer: a broker may die or freeze
after it has confirmed an event and before it has passed the event on. The next broker gets those
events as well, and all that have had one drop it. The time is counted up to the last confirmation,
so nothing is forgotten while the broker is silent.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Collection, Container, Iterator
from itertools import chain, repeat
from itertools import count as count_from
from typing import NamedTuple

from ges.wire.event_flags import (
    AGAIN_FLAG,
    EXPIRES_FLAG,
    EXPRESS_FLAG,
    SECURE_FLAG,
    extension_at,
)
from ges.wire.events import (
    FLAGS_AT,
    HEADER,
    MILLIS_AT,
    PUBLISHED_AT,
    SEQUENCE_AT,
    STAMP,
    Options,
    layout_alike,
    pack_event,
    pack_express,
)
from ges.wire.realms import Realm
from overlay.ids import LinkClass
from overlay.wire.frames import EVENT, LENGTH_COVERS, PROTOCOL_VERSION, frame
from overlay.wire.frames import HEADER as FRAME_HEADER

MAX_KNOWN_TOPICS = 4096
CONFIRMED_SECONDS = 1.0  #: events are kept for so long after they are confirmed ...
CONFIRMED_BYTES = 1024 * 1024  #: ... and no more than this of one class, the latest
NO_OPTIONS = Options()
NANOS_PER_MILLI = 1_000_000

_FLAGS = {LinkClass.NORMAL: 0, LinkClass.SECURE: SECURE_FLAG, LinkClass.EXPRESS: EXPRESS_FLAG}
_PARK = struct.Struct("!I")  #: for how many milliseconds an event may be parked ...
_PARK_AT = FRAME_HEADER.size + MILLIS_AT  #: ... and where that stands in a frame
_FLAGS_OF = struct.Struct("!I")
_FLAGS_AT = FRAME_HEADER.size
_PUBLISHED = struct.Struct("!Q")
_PUBLISHED_AT = FRAME_HEADER.size + PUBLISHED_AT
_SEQUENCE_AT = FRAME_HEADER.size + SEQUENCE_AT
_LENGTH = struct.Struct("!I")
_START = struct.Struct("!BBI36x16sQ")  #: from the version to the incarnation


class OutgoingStream:
    """The events of one publisher and class."""

    __slots__ = (
        "_confirmed",
        "_confirmed_bytes",
        "_incarnation",
        "_kept",
        "_kept_count",
        "_known",
        "_publisher",
        "kept_bytes",
        "link_class",
        "sequence",
    )

    def __init__(self, link_class: LinkClass, publisher: bytes, incarnation: int) -> None:
        self.link_class = link_class
        self.sequence = 0  #: of the event packed last
        self.kept_bytes = 0  #: of events that no broker has taken yet, as far as we know
        self._kept: deque[tuple[bytes, int]] = deque()  #: frames in one piece, and how many
        self._kept_count = 0
        #: confirmed of late, oldest first: when, and the frames, but for those refused
        self._confirmed: deque[tuple[float, bytes]] = deque()
        self._confirmed_bytes = 0
        self._publisher = publisher
        self._incarnation = incarnation
        self._known: dict[bytes, _Topic] = {}

    def pack(
        self,
        topic: bytes,
        attributes: bytes,
        payload: bytes,
        now: int,
        park_ms: int = 0,
        options: Options | None = None,
    ) -> bytes:
        """Return the next event as a whole frame; all parts have been checked."""
        self.sequence += 1
        if attributes or park_ms or options is not None:
            secure, more = self.link_class.is_secret, (options or NO_OPTIONS)._asdict()
            key = self._publisher, self._incarnation, self.sequence
            body = pack_event(secure, *key, now, topic, attributes, payload, park_ms, **more)
            return frame(EVENT, body)
        pack, size, start, end = self._known.get(topic) or self._learn(topic)
        return pack(size + len(payload), start, self.sequence, now, end) + payload

    def pack_all(self, topic: bytes, payloads: list[bytes], times: list[int]) -> bytes:
        """Return the next events of one topic as whole frames in one piece."""
        pack, size, start, end = self._known.get(topic) or self._learn(topic)
        numbers = count_from(self.sequence + 1)
        self.sequence += len(payloads)
        sizes = set(map(len, payloads))
        if len(sizes) == 1:  # then no loop in Python is needed
            (payload_size,) = sizes
            pack_alike = layout_alike(len(end), payload_size).pack
            start = _LENGTH.pack(size + payload_size) + start
            return b"".join(map(pack_alike, repeat(start), numbers, times, repeat(end), payloads))
        return b"".join(
            [
                pack(size + len(payload), start, sequence, now, end) + payload
                for sequence, now, payload in zip(numbers, times, payloads, strict=False)
            ]
        )

    def keep(self, item: bytes, count: int = 1) -> None:
        """Keep the events packed last until a broker has taken them."""
        self._kept.append((item, count))
        self._kept_count += count
        self.kept_bytes += len(item)

    def confirm(self, sequence: int, now: float, refused: Collection[int] = ()) -> None:
        """At ``now``, in seconds, all events up to that one are taken, but for those refused."""
        kept, confirmed = self._kept, self._confirmed
        left = self._kept_count - max(0, self.sequence - sequence)
        while left > 0:
            item, count = kept.popleft()
            if count > left:
                item, rest = _split(item, left)
                kept.appendleft((rest, count - left))
                count = left
            left -= count
            self._kept_count -= count
            self.kept_bytes -= len(item)
            if refused:
                frames = _frames(item)
                item = b"".join(each for each in frames if _sequence(each) not in refused)
            confirmed.append((now, item))
            self._confirmed_bytes += len(item)
        while confirmed and (
            self._confirmed_bytes > CONFIRMED_BYTES or confirmed[0][0] < now - CONFIRMED_SECONDS
        ):
            _, item = confirmed.popleft()
            self._confirmed_bytes -= len(item)

    def again(self, refused: Container[int], now: int) -> Iterator[bytes]:
        """Yield what is kept and not ``refused``, marked as events that may come a second time.

        One that may be parked may be so for what is left of its time at ``now`` (unix time, ns).
        """
        for item in chain((item for _, item in self._confirmed), (item for item, _ in self._kept)):
            for each in _frames(item):
                if _sequence(each) in refused:
                    continue
                marked = bytearray(each)
                marked[FRAME_HEADER.size + FLAGS_AT] |= AGAIN_FLAG
                (park_ms,) = _PARK.unpack_from(marked, _PARK_AT)
                if park_ms:
                    (published,) = _PUBLISHED.unpack_from(marked, _PUBLISHED_AT)
                    left = park_ms - max(0, now - published) // NANOS_PER_MILLI
                    _PARK.pack_into(marked, _PARK_AT, max(1, left))  # 0 would be: not to be parked
                if _FLAGS_OF.unpack_from(marked, _FLAGS_AT)[0] & EXPIRES_FLAG:
                    _shorten(marked, now)
                yield bytes(marked)

    def pack_express(
        self,
        topic: bytes,
        attributes: bytes,
        payload: bytes,
        now: int,
        budget_us: int,
        options: Options | None = None,
    ) -> bytearray:
        """Return the next event as a whole frame; all parts have been checked."""
        self.sequence += 1
        key = self._publisher, self._incarnation, self.sequence
        chosen = options or NO_OPTIONS
        body = pack_express(
            *key,
            now,
            topic,
            attributes,
            payload,
            budget_us,
            max_hops=chosen.max_hops,
            priority=chosen.priority,
            correlation=chosen.correlation,
            is_request=chosen.is_request,
            realm=chosen.realm,
        )
        return bytearray(frame(EVENT, body))

    def _learn(self, topic: bytes) -> _Topic:
        if len(self._known) >= MAX_KNOWN_TOPICS:
            self._known.clear()
        head = PROTOCOL_VERSION, EVENT, _FLAGS[self.link_class]
        start = _START.pack(*head, self._publisher, self._incarnation)
        end = struct.pack("!BBBBHH", 0, 0, Realm.ALL, 0, len(topic), 0) + topic
        layout = struct.Struct(f"!I{len(start)}sQQ{len(end)}s")
        size = LENGTH_COVERS + HEADER.size + len(topic)
        known = self._known[topic] = _Topic(layout.pack, size, start, end)
        return known


def _shorten(marked: bytearray, now: int) -> None:
    """Let an event that ends have what is left of its time at ``now`` (unix time, ns)."""
    (flags,) = _FLAGS_OF.unpack_from(marked, _FLAGS_AT)
    at = FRAME_HEADER.size + HEADER.size + extension_at(EXPIRES_FLAG, flags)
    (ttl_ms,) = STAMP.unpack_from(marked, at)
    (published,) = _PUBLISHED.unpack_from(marked, _PUBLISHED_AT)
    STAMP.pack_into(marked, at, max(1, ttl_ms - max(0, now - published) // NANOS_PER_MILLI))


class _Topic(NamedTuple):
    pack: Callable[[int, bytes, int, int, bytes], bytes]
    size: int  #: what the length covers, without the payload
    start: bytes
    end: bytes


def _split(item: bytes, count: int) -> tuple[bytes, bytes]:
    """Return the first ``count`` of some frames, and the others."""
    at = 0
    for _ in range(count):
        at += _LENGTH.size + _LENGTH.unpack_from(item, at)[0]
    return item[:at], item[at:]


def _frames(item: bytes) -> Iterator[bytes]:
    """Yield each of some frames."""
    at = 0
    while at < len(item):
        end = at + _LENGTH.size + _LENGTH.unpack_from(item, at)[0]
        yield item[at:end]
        at = end


def _sequence(item: bytes) -> int:
    """Return the sequence of the event in a frame."""
    return int(_PUBLISHED.unpack_from(item, _SEQUENCE_AT)[0])
