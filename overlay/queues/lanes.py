"""The two queues of a connection: one goes first and says how long it took, one carries the bulk.

Both are bounded. When one is full, its policy decides: :attr:`Policy.DISCONNECT` gives the
connection up, so that nothing is lost silently; :attr:`Policy.DROP_OLDEST` drops and counts the
oldest events, and keeps what is no event.

An express event says how long it has been under way, without any clock that brokers share: what it
has waited here is added when it leaves. Pure.
"""

from __future__ import annotations

import struct
from collections import deque
from enum import StrEnum

from overlay.ids import Nanos
from overlay.wire.fragments import SLICE_BYTES
from overlay.wire.frames import Bytes

STAMP = struct.Struct("!I")  #: microseconds under way so far
MAX_STAMP = 2**32 - 1
ITEM_BYTES = 112  #: of memory for an item that waits, beside its own bytes
SMALL_BYTES = 16 * 1024  #: items up to this size are gathered


class Policy(StrEnum):
    """What becomes of a full lane."""

    DISCONNECT = "disconnect"
    DROP_OLDEST = "drop_oldest"


class Overflow(Exception):
    """A lane is full, and nothing in it may be dropped."""


class NormalLane:
    """Items in order; small ones that hold events are gathered to larger ones as they come."""

    __slots__ = ("_events", "_gathered", "_size", "_whole", "dropped", "limit", "policy", "size")

    def __init__(self, limit_bytes: int, policy: Policy) -> None:
        self.limit = limit_bytes
        self.policy = policy
        self.size = 0  #: bytes that wait
        self.dropped = 0  #: events
        self._whole: deque[tuple[Bytes, int]] = deque()
        self._gathered: list[Bytes] = []  #: behind all that is whole
        self._size = 0  #: of what is gathered ...
        self._events = 0  #: ... and the events in it

    def __bool__(self) -> bool:
        return bool(self._gathered or self._whole)

    @property
    def memory(self) -> int:
        """Bytes of memory that what waits takes."""
        return self.size + ITEM_BYTES * (len(self._whole) + len(self._gathered))

    def put(self, item: Bytes, events: int) -> None:
        """Queue whole frames that hold so many events; what holds none is never dropped."""
        size = len(item)
        self.size += size
        if events and size <= SMALL_BYTES:
            self._gathered.append(item)
            self._events += events
            self._size += size
            if self._size >= SLICE_BYTES:
                self._gather()
        else:
            self._gather()
            self._whole.append((item, events))

    def pop(self) -> Bytes:
        """Take the oldest item; it still counts in ``size``."""
        if not self._whole:
            self._gather()
        item, _ = self._whole.popleft()
        return item

    def next_size(self) -> int:
        """Return the bytes of what :meth:`pop` returns next; 0: nothing."""
        if self._whole:
            return len(self._whole[0][0])
        return self._size

    def next_events(self) -> int:
        """Return how many events are in what :meth:`pop` returns next."""
        return self._whole[0][1] if self._whole else self._events

    def take_events(self) -> list[tuple[Bytes, int]]:
        """Take all items that hold events; the others stay."""
        self._gather()
        events = [entry for entry in self._whole if entry[1]]
        self._whole = deque(entry for entry in self._whole if not entry[1])
        self.size -= sum(len(item) for item, _ in events)
        return events

    def make_room(self, limit: int) -> None:
        """Bring the lane down to ``limit`` bytes.

        Raises:
            Overflow: what is left may not be dropped.
        """
        if self.policy is Policy.DISCONNECT:
            raise Overflow
        self._gather()
        kept: list[tuple[Bytes, int]] = []
        while self._whole and self.size > limit:
            item, events = self._whole.popleft()
            if events:
                self.size -= len(item)
                self.dropped += events
            else:
                kept.append((item, events))
        self._whole.extendleft(reversed(kept))
        if self.size > limit:
            raise Overflow

    def clear(self) -> None:
        """Forget all that waits."""
        self._whole.clear()
        self._gathered.clear()
        self.size = self._size = self._events = 0

    def _gather(self) -> None:
        if self._gathered:
            self._whole.append((b"".join(self._gathered), self._events))
            self._gathered.clear()
            self._size = self._events = 0


class ExpressLane:
    """Single events, each with a stamp."""

    __slots__ = ("_waiting", "dropped", "limit", "size")

    def __init__(self, limit_bytes: int) -> None:
        self.limit = limit_bytes
        self.size = 0  #: bytes that wait
        self.dropped = 0  #: events
        self._waiting: deque[tuple[bytearray, int, Nanos]] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, frame: bytearray, stamp_at: int, now: Nanos) -> None:
        """Queue one event, whose stamp stands at ``stamp_at``; the oldest go beyond the limit."""
        self.size += len(frame)
        self._waiting.append((frame, stamp_at, now))
        while self.size > self.limit and len(self._waiting) > 1:
            oldest, _, _ = self._waiting.popleft()
            self.size -= len(oldest)
            self.dropped += 1

    def pop(self, now: Nanos) -> bytearray:
        """Take the oldest, with the time it has waited here added to its stamp."""
        frame, stamp_at, since = self._waiting.popleft()
        self.size -= len(frame)
        (before,) = STAMP.unpack_from(frame, stamp_at)
        STAMP.pack_into(frame, stamp_at, min(MAX_STAMP, before + max(0, now - since) // 1000))
        return frame

    def clear(self) -> None:
        """Forget all that waits."""
        self._waiting.clear()
        self.size = 0
