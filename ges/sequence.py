"""Each event once, and each publisher's events in order.

While links come and go, two events of one publisher may take different ways and overtake each
other, or one may come twice. Every broker sees every event of a class for now, so a publisher's
sequence has no gaps here: what comes again is dropped, and what comes early is held until what it
overtook has come, or is given up for lost.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from overlay.ids import Nanos, nanos

GAP_NS = nanos(0.2)  #: an overtaken event is given up after this
MAX_HELD = 1024  #: events held for one publisher
MAX_PUBLISHERS = 65536

T = TypeVar("T")


class _Stream(Generic[T]):
    __slots__ = ("held", "next", "since")

    def __init__(self, first: int) -> None:
        self.next = first  #: the sequence to be delivered next; all below have been, or are lost
        self.held: dict[int, T] = {}
        self.since: Nanos = 0  #: when the first of those held began to wait


class Sequencer(Generic[T]):
    """Orders the events of all publishers. Keys name a publisher, its incarnation and a class."""

    def __init__(self) -> None:
        self._streams: OrderedDict[tuple[bytes, int, bool], _Stream[T]] = OrderedDict()
        self._waiting: OrderedDict[tuple[bytes, int, bool], Nanos] = OrderedDict()
        self.duplicates = 0
        self.lost = 0

    def admit(
        self, key: tuple[bytes, int, bool], sequence: int, item: T, now: Nanos
    ) -> list[T] | None:
        """Take an event; returns what is to be delivered now, in order.

        None: it came before, and is neither to be delivered nor passed on.
        """
        stream = self._streams.get(key)
        if stream is None:
            # A publisher first met in mid-stream: an event it published earlier may be on its way.
            stream = self._streams[key] = _Stream(1 if sequence == 1 else 0)
            if len(self._streams) > MAX_PUBLISHERS:
                gone, _ = self._streams.popitem(last=False)
                self._waiting.pop(gone, None)
        if sequence == stream.next and not stream.held:
            stream.next += 1
            return [item]
        if sequence < stream.next or sequence in stream.held:
            self.duplicates += 1
            return None
        stream.held[sequence] = item
        if key not in self._waiting:
            self._waiting[key] = now + GAP_NS
        if sequence == stream.next or len(stream.held) > MAX_HELD:
            return self._release(key, stream, now, skip=sequence != stream.next)
        return []

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`expire` has something to give up."""
        return next(iter(self._waiting.values()), None)

    def expire(self, now: Nanos) -> list[T]:
        """Give up what has been waited for too long; returns what is to be delivered now."""
        ready: list[T] = []
        while self._waiting:
            key, due = next(iter(self._waiting.items()))
            if due > now:
                break
            ready += self._release(key, self._streams[key], now, skip=True)
        return ready

    def _release(
        self, key: tuple[bytes, int, bool], stream: _Stream[T], now: Nanos, *, skip: bool
    ) -> list[T]:
        if skip and stream.held:
            first = min(stream.held)
            if stream.next:
                self.lost += first - stream.next
            stream.next = first
        ready: list[T] = []
        while stream.next in stream.held:
            ready.append(stream.held.pop(stream.next))
            stream.next += 1
        self._waiting.pop(key, None)
        if stream.held:
            self._waiting[key] = now + GAP_NS
        return ready
