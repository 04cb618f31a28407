"""What waits to be sent on one connection: two lanes, bounded, with a policy for slow readers.

Express goes before normal. An *item* is one or more whole frames in one piece of bytes; items of
one lane stay in order, and another lane's come between items only.

When a lane is full, its policy decides: :attr:`Policy.DISCONNECT` gives the connection up, so that
nothing is lost silently; :attr:`Policy.DROP_OLDEST` drops and counts the oldest events, and keeps
what is no event. Sans-IO; :mod:`overlay.connection` writes what it is given from here.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum

from overlay.codec import Bytes

WRITE_BYTES = 256 * 1024  #: about as much goes into one write


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

    def put(self, item: Bytes, events: int, unwritten: int = 0) -> None:
        """Queue an item that holds so many events; one without is never dropped.

        ``unwritten`` bytes that were taken from here still count.

        Raises:
            Overflow: the lane is full.
        """
        self.queued_bytes += len(item)
        self.waiting.append((item, events))
        if self.queued_bytes + unwritten > self.limit:
            self._make_room(self.limit - unwritten)

    def _make_room(self, limit: int) -> None:
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


class Outbox:
    """The lanes of one connection."""

    __slots__ = ("express", "normal")

    def __init__(self, normal: Lane, express: Lane) -> None:
        self.normal = normal
        self.express = express

    def __bool__(self) -> bool:
        return bool(self.normal.waiting or self.express.waiting)

    @property
    def queued_bytes(self) -> int:
        return self.normal.queued_bytes + self.express.queued_bytes

    def take(self, most: int = WRITE_BYTES) -> list[Bytes]:
        """Return what is to be written next, ``most`` bytes or one item; empty if nothing is.

        What is taken counts as sent.
        """
        lane = self.express if self.express.waiting else self.normal
        waiting = lane.waiting
        if lane.queued_bytes <= most:
            items = [item for item, _ in waiting]
            waiting.clear()
            lane.queued_bytes = 0
            return items
        item, _ = waiting.popleft()
        size = len(item)
        items = [item]
        while waiting and size + len(waiting[0][0]) <= most:
            item, _ = waiting.popleft()
            size += len(item)
            items.append(item)
        lane.queued_bytes -= size
        return items

    def clear(self) -> None:
        """Forget all that waits."""
        for lane in (self.express, self.normal):
            lane.waiting.clear()
            lane.queued_bytes = 0
