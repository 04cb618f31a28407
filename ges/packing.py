"""Frames of a publisher's events, packed with as little work for each as can be.

All but the sequence, the time and the payload is the same for all events of one topic and class.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from ges.events import EXPRESS_FLAG, HEADER, SECURE_FLAG, pack_event, pack_express
from overlay.codec import EVENT, LENGTH_COVERS, PROTOCOL_VERSION, frame
from overlay.ids import LinkClass

MAX_KNOWN_TOPICS = 4096

_FLAGS = {LinkClass.NORMAL: 0, LinkClass.SECURE: SECURE_FLAG, LinkClass.EXPRESS: EXPRESS_FLAG}
_START = struct.Struct("!BBBBI16sQ")  #: from the version to the incarnation


class Stream:
    """The events of one publisher and class."""

    __slots__ = ("_incarnation", "_known", "_publisher", "link_class", "sequence")

    def __init__(self, link_class: LinkClass, publisher: bytes, incarnation: int) -> None:
        self.link_class = link_class
        self.sequence = 0  #: of the event packed last
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
        known = self._known.get(topic) or self._learn(topic)
        length = known.size + len(payload)
        return known.pack(length, known.start, self.sequence, now, known.end) + payload

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
