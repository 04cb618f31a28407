"""What waits to be sent on one connection, and what of it is sent next.

Express goes before normal. An *item* is one or more whole frames in one piece of bytes; items of
one lane stay in order, and another lane's come between items only. A normal item that is one long
frame is sent in slices, and express comes between those. Pure; :mod:`overlay.net.connection`
writes what it is given from here.

Events of a reliable stream (:mod:`overlay.queues.resend`) are kept as they are sent, and wait while
too many of those sent are not acknowledged. Acknowledgements and quick probes wait for nothing.
"""

from __future__ import annotations

from overlay.ids import Nanos
from overlay.queues.lanes import ExpressLane, NormalLane
from overlay.queues.resend import Outgoing
from overlay.wire.fragments import SLICE_BYTES, is_long, slice_at
from overlay.wire.frames import Bytes

WRITE_BYTES = SLICE_BYTES  #: about as much goes into one write: what express may have to wait for

LITTLE_BYTES = 16 * 1024  #: no more than that goes along with what fills a write by itself

MOST_QUICK = 8  #: quick frames that wait; who takes nothing could else ask for ever more

FINISH_SECONDS = 2.0  #: what is queued may take that long when the connection is closed

EXPRESS_BYTES = 16 * 1024  #: of express events in one write: each is stamped when it is written


class Outbox:
    """The lanes of one connection."""

    __slots__ = (
        "_sliced",
        "_sliced_at",
        "ack",
        "express",
        "first",
        "is_last",
        "normal",
        "quick",
        "stream",
        "taken",
    )

    def __init__(self, normal: NormalLane, express: ExpressLane) -> None:
        self.normal = normal
        self.express = express
        self.stream: Outgoing | None = None  #: that the events in the normal lane belong to
        self.first: Bytes = b""  #: goes before all else ...
        self.ack: Bytes = b""  #: ... and then this ...
        self.quick: list[Bytes] = []  #: ... and these
        self.taken = 0  #: events that were taken to be written
        self.is_last = False  #: nothing follows what is queued: it waits for no acknowledgement
        self._sliced: Bytes = b""  #: the frame that is being sent in slices ...
        self._sliced_at = 0  #: ... and where the next begins

    def __bool__(self) -> bool:
        return bool(
            (self.normal and not self._is_held())
            or self._sliced
            or self.express
            or self.ack
            or self.quick
            or self.first
        )

    @property
    def size(self) -> int:
        """Bytes that wait."""
        return self.normal.size + self.express.size

    @property
    def memory(self) -> int:
        """Bytes of memory that what waits takes."""
        return self.normal.memory + self.express.size

    @property
    def is_amid_frame(self) -> bool:
        """A part of a frame was taken, and the rest waits."""
        return bool(self._sliced)

    def take(self, now: Nanos, most: int = WRITE_BYTES) -> list[Bytes]:
        """Return what is to be written next, about ``most`` bytes; empty if nothing is.

        Frames that are taken count as sent.
        """
        items: list[Bytes] = []
        if self.first:
            items.append(self.first)
            self.first = b""
        if self.ack:
            items.append(self.ack)
            self.ack = b""
        if self.quick:
            items += self.quick
            self.quick.clear()
        size = 0
        if self.express:
            while self.express and size < EXPRESS_BYTES:
                item = self.express.pop(now)
                size += len(item)
                items.append(item)
            return items
        if self._sliced:
            return items + self._next_slice()
        lane, stream = self.normal, self.stream
        while lane and not self._is_held() and (not size or self._joins(size, most)):
            events = lane.next_events()
            whole = lane.pop()
            self.taken += events
            if events and stream is not None:
                stream.keep(whole, events)
            if not size and is_long(whole):
                self._sliced, self._sliced_at = whole, 0
                return items + self._next_slice()
            size += len(whole)
            items.append(whole)
        lane.size -= size
        return items

    def _joins(self, size: int, most: int) -> bool:
        """Say whether the next item goes into a write that has so many bytes already.

        A little before a lot would be a write of its own, and wake the other end for it.
        """
        lane = self.normal
        following = lane.next_size()
        if size + following <= most:
            return True
        return size < LITTLE_BYTES and (following <= SLICE_BYTES or lane.next_events() > 1)

    def _is_held(self) -> bool:
        """Say whether the next item waits for an acknowledgement."""
        stream = self.stream
        return (
            stream is not None
            and stream.is_full
            and not self.is_last
            and self.normal.next_events() > 0
        )

    def _next_slice(self) -> list[Bytes]:
        start, part = slice_at(self._sliced, self._sliced_at)
        self._sliced_at += len(part)
        self.normal.size -= len(part)
        if self._sliced_at == len(self._sliced):
            self._sliced, self._sliced_at = b"", 0
        return [start, part]

    def put_quick(self, item: Bytes) -> bool:
        """Queue a control frame that waits for nothing; False if too many of these do."""
        if len(self.quick) >= MOST_QUICK:
            return False
        self.quick.append(item)
        return True

    def clear(self) -> None:
        """Forget all that waits."""
        self.normal.clear()
        self.express.clear()
        self.first = self.ack = b""
        self.quick.clear()
        self._sliced, self._sliced_at = b"", 0
