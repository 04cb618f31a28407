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
from overlay.machine import TimerTable

GAP_NS = nanos(0.2)  #: an overtaken event is given up after this
MAX_HELD = 1024  #: events held for one publisher
MAX_PUBLISHERS = 65536

T = TypeVar("T")

Key = tuple[bytes, int, bool]


class _Stream(Generic[T]):
    __slots__ = ("held", "next")

    def __init__(self, first: int) -> None:
        self.next = first  #: the sequence to be delivered next; all below have been, or are lost
        self.held: dict[int, tuple[T, Nanos]] = {}  #: what came early, and until when it waits


class Sequencer(Generic[T]):
    """Orders the events of all publishers. Keys name a publisher, its incarnation and a class."""

    def __init__(self) -> None:
        self._streams: OrderedDict[Key, _Stream[T]] = OrderedDict()
        self._waiting: TimerTable[Key] = TimerTable()
        self.duplicates = 0
        self.lost = 0

    def admit(self, key: Key, sequence: int, item: T, now: Nanos) -> list[T] | None:
        """Take an event; returns what is to be delivered now, in order.

        None: it came before, and is neither to be delivered nor passed on.
        """
        stream = self._streams.get(key)
        if stream is None:
            # A publisher first met in mid-stream: an event it published earlier may be on its way.
            stream = self._streams[key] = _Stream(1 if sequence == 1 else 0)
            if len(self._streams) > MAX_PUBLISHERS:
                gone, _ = self._streams.popitem(last=False)
                self._waiting.cancel(gone)
        if sequence == stream.next and not stream.held:
            stream.next += 1
            return [item]
        if sequence < stream.next or sequence in stream.held:
            self.duplicates += 1
            return None
        stream.held[sequence] = item, now + GAP_NS
        if sequence == stream.next or len(stream.held) > MAX_HELD:
            return self._release(key, stream, now, skip=sequence != stream.next)
        if key not in self._waiting:
            self._waiting.set(key, now + GAP_NS)
        return []

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`expire` has something to give up."""
        return self._waiting.next_deadline()

    def expire(self, now: Nanos) -> list[T]:
        """Give up what has been waited for too long; returns what is to be delivered now."""
        ready: list[T] = []
        while (key := self._waiting.pop_expired(now)) is not None:
            ready += self._release(key, self._streams[key], now, skip=True)
        return ready

    def _release(self, key: Key, stream: _Stream[T], now: Nanos, *, skip: bool) -> list[T]:
        """Return what is in order now; with ``skip``, give up the first gap at least."""
        held = stream.held
        ready: list[T] = []
        while held:
            if stream.next not in held:
                # Nothing waits longer than its time, however many gaps there are before it.
                due = min(until for _, until in held.values())
                if due > now and not skip:
                    self._waiting.set(key, due)
                    return ready
                skip = False
                first = min(held)
                if stream.next:
                    self.lost += first - stream.next
                stream.next = first
            item, _ = held.pop(stream.next)
            ready.append(item)
            stream.next += 1
        self._waiting.cancel(key)
        return ready
