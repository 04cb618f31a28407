"""Frames of a publisher's events, packed with as little work for each as can be.

All but the sequence, the time and the payload is the same for all events of one topic and class.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Container, Iterator
from typing import NamedTuple

from ges.wire.events import (
    AGAIN_FLAG,
    EXPRESS_FLAG,
    HEADER,
    PATCH_END,
    SECURE_FLAG,
    pack_event,
    pack_express,
)
from overlay.ids import LinkClass
from overlay.wire.frames import EVENT, LENGTH_COVERS, PROTOCOL_VERSION, frame
from overlay.wire.frames import HEADER as FRAME_HEADER

MAX_KNOWN_TOPICS = 4096
NANOS_PER_MILLI = 1_000_000

_FLAGS = {LinkClass.NORMAL: 0, LinkClass.SECURE: SECURE_FLAG, LinkClass.EXPRESS: EXPRESS_FLAG}
_PARK = struct.Struct("!I")  #: for how many milliseconds an event may be parked ...
_PARK_AT = FRAME_HEADER.size + PATCH_END - _PARK.size  #: ... and where that stands in a frame
_PUBLISHED = struct.Struct("!Q")
_PUBLISHED_AT = FRAME_HEADER.size + HEADER.size - 2 * 2 - _PUBLISHED.size  #: before two lengths
_START = struct.Struct("!BBBBI16sQ")  #: from the version to the incarnation


class OutgoingStream:
    """The events of one publisher and class."""

    __slots__ = (
        "_incarnation",
        "_kept",
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
        self._kept: deque[bytes] = deque()
        self._publisher = publisher
        self._incarnation = incarnation
        self._known: dict[bytes, _Topic] = {}

    def pack(
        self, topic: bytes, attributes: bytes, payload: bytes, now: int, park_ms: int = 0
    ) -> bytes:
        """Return the next event as a whole frame; all parts have been checked."""
        self.sequence += 1
        if attributes or park_ms:
            secure = self.link_class is LinkClass.SECURE
            key = self._publisher, self._incarnation, self.sequence
            return frame(EVENT, pack_event(secure, *key, now, topic, attributes, payload, park_ms))
        pack, size, start, end = self._known.get(topic) or self._learn(topic)
        return pack(size + len(payload), start, self.sequence, now, end) + payload

    def keep(self, item: bytes) -> None:
        """Keep the event packed last until a broker has taken it."""
        self._kept.append(item)
        self.kept_bytes += len(item)

    def confirm(self, sequence: int) -> None:
        """All events up to that one are taken or refused."""
        kept = self._kept
        for _ in range(len(kept) - max(0, self.sequence - sequence)):
            self.kept_bytes -= len(kept.popleft())

    def again(self, refused: Container[int], now: int) -> Iterator[bytes]:
        """Yield what is kept and not ``refused``, marked as events that may come a second time.

        One that may be parked may be so for what is left of its time at ``now`` (unix time, ns).
        """
        for sequence, item in enumerate(self._kept, start=self.sequence - len(self._kept) + 1):
            if sequence in refused:
                continue
            marked = bytearray(item)
            marked[FRAME_HEADER.size] |= AGAIN_FLAG
            (park_ms,) = _PARK.unpack_from(marked, _PARK_AT)
            if park_ms:
                (published,) = _PUBLISHED.unpack_from(marked, _PUBLISHED_AT)
                left = park_ms - max(0, now - published) // NANOS_PER_MILLI
                _PARK.pack_into(marked, _PARK_AT, max(1, left))  # 0 would be: not to be parked
            yield bytes(marked)

    def pack_express(
        self, topic: bytes, attributes: bytes, payload: bytes, now: int, budget_us: int
    ) -> bytearray:
        """Return the next event as a whole frame; all parts have been checked."""
        self.sequence += 1
        key = self._publisher, self._incarnation, self.sequence
        body = pack_express(*key, now, topic, attributes, payload, budget_us)
        return bytearray(frame(EVENT, body))

    def _learn(self, topic: bytes) -> _Topic:
        if len(self._known) >= MAX_KNOWN_TOPICS:
            self._known.clear()
        head = PROTOCOL_VERSION, EVENT, _FLAGS[self.link_class], 0, 0
        start = _START.pack(*head, self._publisher, self._incarnation)
        end = struct.pack("!HH", len(topic), 0) + topic
        layout = struct.Struct(f"!I{len(start)}sQQ{len(end)}s")
        size = LENGTH_COVERS + HEADER.size + len(topic)
        known = self._known[topic] = _Topic(layout.pack, size, start, end)
        return known


class _Topic(NamedTuple):
    pack: Callable[[int, bytes, int, int, bytes], bytes]
    size: int  #: what the length covers, without the payload
    start: bytes
    end: bytes
