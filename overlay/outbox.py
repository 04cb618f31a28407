"""What waits to be sent on one connection: two lanes, bounded, with a policy for slow readers.

Express goes before normal. An *item* is one or more whole frames in one piece of bytes; items of
one lane stay in order, and another lane's come between items only. A normal item that is one long
frame is sent in slices, and express comes between those.

When a lane is full, its policy decides: :attr:`Policy.DISCONNECT` gives the connection up, so that
nothing is lost silently; :attr:`Policy.DROP_OLDEST` drops and counts the oldest events, and keeps
what is no event.

An express event says how long it has been under way, without any clock that brokers share: what it
has waited here is added when it leaves. Sans-IO; :mod:`overlay.connection` writes what it is given
from here.
"""

from __future__ import annotations

import struct
from collections import deque
from enum import StrEnum

from overlay.codec import Bytes
from overlay.fragments import SLICE_BYTES, slice_at
from overlay.ids import Nanos

WRITE_BYTES = SLICE_BYTES  #: about as much goes into one write: what express may have to wait for

STAMP = struct.Struct("!I")  #: microseconds under way so far
MAX_STAMP = 2**32 - 1


class Policy(StrEnum):
    """What becomes of a full lane."""

    DISCONNECT = "disconnect"
    DROP_OLDEST = "drop_oldest"


class Overflow(Exception):
    """A lane is full, and nothing in it may be dropped."""


class Lane:
    """One queue of items."""

    __slots__ = ("dropped", "limit", "policy", "queued_bytes", "waiting")

    def __init__(self, limit_bytes: int, policy: Policy) -> None:
        self.limit = limit_bytes
        self.policy = policy
        self.queued_bytes = 0
        self.dropped = 0  #: events
        self.waiting: deque[tuple[Bytes, int]] = deque()

    def put(self, item: Bytes, events: int) -> None:
        """Queue an item that holds so many events; one without is never dropped."""
        self.queued_bytes += len(item)
        self.waiting.append((item, events))

    def make_room(self, limit: int) -> None:
        """Bring the lane down to ``limit`` bytes.

        Raises:
            Overflow: what is left may not be dropped.
        """
        if self.policy is Policy.DISCONNECT:
            raise Overflow
        kept: deque[tuple[Bytes, int]] = deque()
        while self.waiting and self.queued_bytes > limit:
            item, events = self.waiting.popleft()
            if events:
                self.queued_bytes -= len(item)
                self.dropped += events
            else:
                kept.append((item, events))
        self.waiting.extendleft(reversed(kept))
        if self.queued_bytes > limit:
            raise Overflow

    def pop(self) -> Bytes:
        """Take the oldest item."""
        item, _ = self.waiting.popleft()
        self.queued_bytes -= len(item)
        return item

    def clear(self) -> None:
        """Forget all that waits."""
        self.waiting.clear()
        self.queued_bytes = 0


class ExpressLane(Lane):
    """The queue that goes first, and stamps what leaves it."""

    __slots__ = ("_stamps",)

    def __init__(self, limit_bytes: int, policy: Policy = Policy.DROP_OLDEST) -> None:
        super().__init__(limit_bytes, policy)
        self._stamps: deque[tuple[int, Nanos]] = deque()

    def put_stamped(self, item: bytearray, stamp_at: int, now: Nanos) -> None:
        """Queue one event, whose stamp stands at ``stamp_at``."""
        self._stamps.append((stamp_at, now))
        self.put(item, 1)

    def make_room(self, limit: int) -> None:
        super().make_room(limit)
        while len(self._stamps) > len(self.waiting):
            self._stamps.popleft()

    def pop_stamped(self, now: Nanos) -> Bytes:
        """Take the oldest item, with the time it has waited here added to its stamp."""
        item = self.pop()
        stamp_at, since = self._stamps.popleft()
        (before,) = STAMP.unpack_from(item, stamp_at)
        spent = min(MAX_STAMP, before + max(0, now - since) // 1000)
        assert isinstance(item, bytearray)
        STAMP.pack_into(item, stamp_at, spent)
        return item

    def clear(self) -> None:
        super().clear()
        self._stamps.clear()


class Outbox:
    """The lanes of one connection."""

    __slots__ = ("_sliced", "_sliced_at", "express", "normal")

    def __init__(self, normal: Lane, express: ExpressLane) -> None:
        self.normal = normal
        self.express = express
        self._sliced: Bytes = b""  #: the frame that is being sent in slices ...
        self._sliced_at = 0  #: ... and where the next begins

    def __bool__(self) -> bool:
        return bool(self.normal.waiting or self._sliced or self.express.waiting)

    @property
    def queued_bytes(self) -> int:
        return self.normal.queued_bytes + self.express.queued_bytes

    def take(self, now: Nanos, most: int = WRITE_BYTES) -> list[Bytes]:
        """Return what is to be written next, about ``most`` bytes; empty if nothing is.

        What is taken counts as sent.
        """
        if self.express.waiting:
            items: list[Bytes] = []
            size = 0
            while self.express.waiting and size < most:
                item = self.express.pop_stamped(now)
                size += len(item)
                items.append(item)
            return items
        if self._sliced:
            return self._next_slice()
        return self._take_normal(most)

    def _take_normal(self, most: int) -> list[Bytes]:
        lane = self.normal
        waiting = lane.waiting
        if not waiting:
            return []
        item, events = waiting[0]
        if events == 1 and len(item) > SLICE_BYTES:
            waiting.popleft()
            self._sliced, self._sliced_at = item, 0
            return self._next_slice()
        items: list[Bytes] = []
        size = 0
        while waiting:
            item, events = waiting[0]
            size += len(item)
            if items and (size > most or (events == 1 and len(item) > SLICE_BYTES)):
                size -= len(item)
                break
            waiting.popleft()
            items.append(item)
        lane.queued_bytes -= size
        return items

    def _next_slice(self) -> list[Bytes]:
        start, part = slice_at(self._sliced, self._sliced_at)
        self._sliced_at += len(part)
        self.normal.queued_bytes -= len(part)
        if self._sliced_at == len(self._sliced):
            self._sliced, self._sliced_at = b"", 0
        return [start, part]

    def clear(self) -> None:
        """Forget all that waits."""
        self.normal.clear()
        self.express.clear()
        self._sliced, self._sliced_at = b"", 0
