"""Each event once, and each publisher's events in order.

While links come and go, two events of one publisher may take different ways and overtake each
other, or one may come twice. Every broker sees every event of a class for now, so a publisher's
sequence has no gaps here: what comes again is dropped, and what comes early is held until what it
overtook has come, or is given up for lost.

How long to wait? While nothing fails nothing is lost, and what is late only stands in a long queue:
then the wait is long. An event is *marked* by a broker that knows that others before it may be lost
(a link was given up, or an event refused): then the wait is shorter, but longer than events are
held for a link that may come back (:mod:`ges.routing.holding`), as these are not lost. For a ring
neighbour that is until it is judged, and its part of the ring may go to another that is dead, too.
Of a publisher first met in mid-stream, by a broker that has just joined or to which an overtaking
event is the first to come, nobody can say which it is, and clients wait for their first events: the
wait is the shortest. So it is for a while where a broker has joined anew: what came meanwhile has
gone to those that stood in for it, and who knows that it is lost here does not send to it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from overlay.ids import Nanos, nanos
from overlay.machine import TimerTable

GAP_NS = nanos(4)  #: what comes before a marked event is given up after this
MET_GAP_NS = nanos(2)  #: what comes before the first event of a publisher seen, or while in doubt
LONG_GAP_NS = nanos(10)  #: what comes before any other
MAX_HELD = 65536  #: events held for one publisher ...
MAX_HELD_BYTES = 64 * 1024 * 1024  #: ... and bytes for all
MAX_PUBLISHERS = 65536
MAX_SEEN = 65536

T = TypeVar("T")

Key = tuple[bytes, int, bool]


class _Stream(Generic[T]):
    __slots__ = ("held", "next")

    def __init__(self, first: int) -> None:
        self.next = first  #: the sequence to be delivered next; all below have been, or are lost
        #: what came early: (what, bytes, until when it waits)
        self.held: dict[int, tuple[T, int, Nanos]] = {}


class Ordering(Generic[T]):
    """Orders the events of all publishers. Keys name a publisher, its incarnation and a class."""

    def __init__(self) -> None:
        self._streams: OrderedDict[Key, _Stream[T]] = OrderedDict()
        self._waiting: TimerTable[Key] = TimerTable()
        self._held_bytes = 0
        self._in_doubt_until: Nanos = 0
        self.duplicates = 0
        self.lost = 0  #: events given up; at most :data:`MAX_HELD` for one gap

    @property
    def keys(self) -> Iterable[Key]:
        """All publishers known."""
        return self._streams.keys()

    def doubt(self, now: Nanos) -> None:
        """Of every publisher events may be lost: for a while no gap is waited for long."""
        self._in_doubt_until = now + LONG_GAP_NS

    def admit(
        self, key: Key, sequence: int, item: T, now: Nanos, *, size: int = 0, marked: bool = False
    ) -> list[T] | None:
        """Take an event of ``size`` bytes; returns what is to be delivered now, in order.

        None: it came before, and is not to be delivered.
        """
        is_in_doubt = now < self._in_doubt_until
        patience = MET_GAP_NS if is_in_doubt else GAP_NS if marked else LONG_GAP_NS
        stream = self._streams.get(key)
        if stream is None:
            # A publisher first met in mid-stream: an event it published earlier may be on its way.
            stream = self._streams[key] = _Stream(1 if sequence == 1 else 0)
            patience = MET_GAP_NS
            if len(self._streams) > MAX_PUBLISHERS:
                self._forget(*self._streams.popitem(last=False))
        if sequence == 1 and not stream.next:
            stream.next = 1  # this is where it begins: nothing before is to be waited for
        if sequence == stream.next and not stream.held:
            stream.next += 1
            return [item]
        if sequence < stream.next or sequence in stream.held:
            self.duplicates += 1
            return None
        stream.held[sequence] = item, size, now + patience
        self._held_bytes += size
        is_full = len(stream.held) > MAX_HELD or self._held_bytes > MAX_HELD_BYTES
        if sequence == stream.next or is_full:
            return self._release(key, stream, now, skip=sequence != stream.next)
        if marked or is_in_doubt or key not in self._waiting:
            self._wait(key, stream)
        return []

    def admit_run(self, key: Key, first: int, count: int) -> bool:
        """Take events that come just when they are due, ``first`` and those after it.

        False: they do not, or something waits; then nothing has changed, and :meth:`admit` is to
        take each.
        """
        stream = self._streams.get(key)
        if stream is None or stream.next != first or stream.held:
            return False
        stream.next += count
        return True

    def has_come(self, key: Key, sequence: int) -> bool:
        """Say whether that event has come, or is given up; :meth:`admit` would drop it."""
        stream = self._streams.get(key)
        return stream is not None and (sequence < stream.next or sequence in stream.held)

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`expire` has something to give up."""
        return self._waiting.next_deadline()

    def expire(self, now: Nanos) -> list[T]:
        """Give up what has been waited for too long; returns what is to be delivered now."""
        ready: list[T] = []
        while (key := self._waiting.pop_expired(now)) is not None:
            ready += self._release(key, self._streams[key], now, skip=False)
        return ready

    def _wait(self, key: Key, stream: _Stream[T]) -> None:
        self._waiting.set(key, min(until for _, _, until in stream.held.values()))

    def _release(self, key: Key, stream: _Stream[T], now: Nanos, *, skip: bool) -> list[T]:
        """Return what is in order now; with ``skip``, give up the first gap at least."""
        held = stream.held
        ready: list[T] = []
        while held:
            if stream.next not in held:
                # Nothing waits longer than its time, however many gaps there are before it.
                if not skip and min(until for _, _, until in held.values()) > now:
                    self._wait(key, stream)
                    return ready
                skip = False
                first = min(held)
                if stream.next:
                    self.lost += min(first - stream.next, MAX_HELD)  # what jumps farther is forged
                stream.next = first
            item, size, _ = held.pop(stream.next)
            self._held_bytes -= size
            ready.append(item)
            stream.next += 1
        self._waiting.cancel(key)
        return ready

    def _forget(self, key: Key, stream: _Stream[T]) -> None:
        self._waiting.cancel(key)
        self._held_bytes -= sum(size for _, size, _ in stream.held.values())


class Seen:
    """The latest things seen, up to a bound; the oldest are forgotten."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Hashable, None] = OrderedDict()

    def first(self, thing: Hashable) -> bool:
        """Note a thing; say whether it is seen for the first time."""
        if thing in self._seen:
            return False
        self._seen[thing] = None
        if len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)
        return True
