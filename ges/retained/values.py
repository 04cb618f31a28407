"""The last retained event of each topic, as one broker keeps them, and which event is the last.

The rule is the same at every broker: the later *stamp* counts, and of two with one stamp that of
the larger publisher, incarnation and sequence. The broker where an event is published stamps it: by
its own clock, and later than the value that it knows, so that a publisher that has seen a value
replaces it, unless one of the two clocks is five minutes ahead: a stamp that is so far ahead is
refused.

An event without payload clears the topic. It is kept for ten minutes as what counts, lest a broker
that has not heard of it bring the older value back.

A value of a secure event stands beside that of a normal one on the same topic. The number of values
and their bytes are bounded. Where an event is published that would be too much, it is refused; what
comes from another broker drives out the values with the oldest stamps, so that brokers with the
same bounds keep the same.

An event that is published here counts to the source of its client (:mod:`overlay.shares`). The
sources here share what the clients of other brokers leave: so who attaches to one broker of a
cluster after another gets less at each. Pure: unix times are handed in.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

import msgspec

from ges.retained.topic_tree import TopicTree
from ges.wire.asked import Ask
from ges.wire.event_runs import EventRun
from ges.wire.events import Flow, Head
from ges.wire.realms import Realm
from overlay.ids import LinkClass
from overlay.shares import NOWHERE, Shares, Source

MAX_VALUES = 16384
MAX_BYTES = 32 * 1024 * 1024
VALUE_BYTES = 1024  #: of memory for one, beside its frame and twice its topic
#: Clocks differ by less, and Kerberos allows as much. A stamp further ahead is refused: later
#: values would have to be stamped later still, up to a time that no clock can say.
AHEAD_NS = 300 * 10**9
CLEARED_MS = 600_000  #: for which it is remembered that a topic was cleared
NANOS_PER_MILLI = 1_000_000
BUCKETS = 256  #: by topic: members compare these to find what differs
MARKS = 2**63
SPARE = 1024  #: entries of a heap that may be out of date, beside as many as there are values
CLEAR_SOME = (
    "clear some (publish nothing to them with retain; they count for ten minutes more), "
    "or give them a ttl"
)

T = TypeVar("T", bound=tuple[Any, ...])

#: Whether it is secure, and its topic.
Key = tuple[bool, bytes]


class Stamp(NamedTuple):
    """Of two retained events on a topic the one with the larger counts."""

    at_ns: int  #: unix time, by the broker where it was published
    publisher: bytes
    incarnation: int
    sequence: int


class Value(msgspec.Struct, frozen=True, gc=False):
    """What is kept of one topic."""

    key: Key
    stamp: Stamp
    ends_ms: int  #: unix time after which it counts no more; 0: never
    is_cleared: bool  #: it only says that there is no value
    frame: bytes  #: of the event, flagged as stored
    flow: Flow
    order: int  #: counts what was taken here, up to this one
    mark: int  #: differs from that of other values
    realm: int  #: of the event
    source: int  #: ring id of the broker where it was published

    @property
    def size(self) -> int:
        """Bytes of memory that it is counted with."""
        return VALUE_BYTES + 2 * len(self.key[1]) + len(self.frame)


class RetainedValues:
    """All values of one broker."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.bytes = 0
        self.order = 0  #: of the value taken last
        self._most_bytes = MAX_BYTES
        self._values: dict[Key, Value] = {}
        self._kept_near: dict[Key, None] = {}  #: of these: those of a realm that is not all
        self._trees = {False: TopicTree(), True: TopicTree()}
        self._sources: dict[Key, Source] = {}  #: of those that were published here
        self._numbers, self._sizes = Shares(MAX_VALUES), Shares(MAX_BYTES)  #: of these
        self._marks = {False: [0] * BUCKETS, True: [0] * BUCKETS}
        self._ends: list[tuple[int, Key]] = []  #: heap; some are out of date
        self._oldest: list[tuple[Stamp, Key]] = []  #: the same

    def __len__(self) -> int:
        return len(self._values)

    def bound(self, most_bytes: int) -> None:
        """Take no more than so many bytes from now on."""
        self._most_bytes = min(most_bytes, MAX_BYTES)

    # ── where an event is published ───────────────────────────────────────────────────────────

    def why_not(
        self, run: EventRun, source: Source = NOWHERE, most: int = MAX_VALUES
    ) -> str | None:
        """Return why an event of a client cannot be retained here, or None.

        ``source``: of the client; ``most``: values beyond which none is added.
        """
        key, size = _key(run.head), _size(run)
        old, owner = self._values.get(key), self._sources.get(key)
        if old is not None and run.largest_payload == 0:
            return None  # it takes no more than what it clears
        self._resize(most, old if owner is None else None)
        problem = None
        if old is None or owner != source:
            what = "retained values"
            problem = self._numbers.why_not(source, 1, what, is_new=old is None)
        if old is not None and owner is not None:
            self._sizes.free(owner, old.size)
        problem = problem or self._sizes.why_not(source, size, "bytes of retained values")
        if old is not None and owner is not None:
            self._sizes.take(owner, old.size)
        return f"not retained: {problem}; {CLEAR_SOME}" if problem is not None else None

    def charge(self, head: Head, source: Source) -> None:
        """Let a value that a client here has published count to its source, if it is kept."""
        key = _key(head)
        value = self._values.get(key)
        if value is None or (value.flow, value.stamp.sequence) != (head.flow, head.sequence):
            return
        self._discharge(value)
        self._sources[key] = source
        self._numbers.take(source)
        self._sizes.take(source, value.size)

    def stamp_for(self, head: Head, wall_ns: int) -> int:
        """Return the stamp of an event that is published here now.

        One that its publisher sends again may have been retained by another broker before, and be
        older than what has come since: it has the publisher's time.
        """
        old = self._counting(_key(head), wall_ns)
        if not head.again:
            return max(wall_ns, old.stamp.at_ns + 1 if old is not None else 0)
        stamp = min(wall_ns, head.published_ns)
        if old is not None and old.flow == head.flow and old.stamp.sequence < head.sequence:
            return max(stamp, old.stamp.at_ns + 1)
        return stamp

    # ── everywhere ────────────────────────────────────────────────────────────────────────────

    def take(self, run: EventRun, wall_ns: int) -> Value | None:
        """Keep an event that is to be retained; returns it as a value, if it is the last one."""
        run = run.ungrouped()
        head = run.head
        key, stamp = _key(head), Stamp(head.stamp, *head.flow[:2], head.sequence)
        if stamp.at_ns > wall_ns + AHEAD_NS:
            self.counters["retained_ahead"] += 1
            return None
        counting, old = self._counting(key, wall_ns), self._values.get(key)
        if counting is not None and counting.stamp >= stamp:
            return None
        is_cleared = run.largest_payload == 0
        ends_ms = stamp.at_ns // NANOS_PER_MILLI + CLEARED_MS if is_cleared else head.ends_ms
        if ends_ms and ends_ms * NANOS_PER_MILLI <= wall_ns:
            return None
        self.order += 1
        mark = _mark(key, stamp)
        args = (ends_ms, is_cleared, run.as_stored(), head.flow, self.order, mark)
        value = Value(key, stamp, *args, head.realm, head.source)
        if old is not None:
            self._drop(old)
        self._put(value)
        self._make_room()
        return value if self._values.get(key) is value else None

    def matching(self, ask: Ask) -> list[Value]:
        """Return the values that somebody asks for wherever they were published, oldest first."""
        found: list[Value] = []
        for is_secure, tree in self._trees.items():
            if not ask.takes(LinkClass.SECURE if is_secure else LinkClass.NORMAL):
                continue
            for topic in tree.matching(ask.filter):
                value = self._values[is_secure, topic.encode()]
                if not value.is_cleared:
                    found.append(value)
        return sorted(found, key=lambda value: value.stamp)

    def get(self, key: Key, wall_ns: int) -> Value | None:
        """Return what counts on a topic at that time, if there is a value."""
        value = self._values.get(key)
        if value is None or value.is_cleared or _is_over(value, wall_ns):
            return None
        return value

    def forget(self, wall_ns: int) -> None:
        """Forget what has ended."""
        while self._ends and self._ends[0][0] * NANOS_PER_MILLI <= wall_ns:
            _, key = heapq.heappop(self._ends)
            value = self._values.get(key)
            if value is not None and _is_over(value, wall_ns):
                self._drop(value)
                self.counters["retained_ended"] += not value.is_cleared

    def forget_beyond(self, common_level: Callable[[int], int]) -> None:
        """Forget values that are kept to units in which this broker is no more.

        ``common_level`` returns the level of the smallest unit with a place and this broker in it.
        """
        for key in [*self._kept_near]:
            value = self._values[key]
            if common_level(value.source) > value.realm:
                self._drop(value)
                self.counters["retained_out_of_realm"] += 1

    # ── what members compare ──────────────────────────────────────────────────────────────────

    def digest(self, *, secure: bool) -> int:
        """63 bits that are equal where two brokers keep the same values."""
        return sum(self._marks[secure]) % MARKS

    def marks(self, *, secure: bool) -> tuple[int, ...]:
        """The same for each bucket."""
        return tuple(self._marks[secure])

    def differing(self, marks: Iterable[int], *, secure: bool) -> Iterator[Value]:
        """Yield the values in buckets that another broker has other values in."""
        own = self._marks[secure]
        wrong = {at for at, mark in enumerate(marks) if at < BUCKETS and own[at] != mark}
        if not wrong:
            return
        for value in list(self._values.values()):
            if value.key[0] is secure and _bucket(value.key) in wrong:
                yield value

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _counting(self, key: Key, wall_ns: int) -> Value | None:
        """Return what is kept of a topic, unless this broker's clock was ahead when it came."""
        value = self._values.get(key)
        return value if value is not None and value.stamp.at_ns < wall_ns + AHEAD_NS else None

    def _put(self, value: Value) -> None:
        key = value.key
        self._values[key] = value
        if value.realm < Realm.ALL:
            self._kept_near[key] = None
        self._trees[key[0]].add(key[1].decode())
        self.bytes += value.size
        self._add_mark(value, value.mark)
        most = 2 * len(self._values) + SPARE
        if value.ends_ms:
            self._ends = _pushed(self._ends, (value.ends_ms, key), self._live_ends, most)
        self._oldest = _pushed(self._oldest, (value.stamp, key), self._live_stamps, most)

    def _drop(self, value: Value) -> None:
        key = value.key
        del self._values[key]
        self._discharge(value)
        self._kept_near.pop(key, None)
        self._trees[key[0]].remove(key[1].decode())
        self.bytes -= value.size
        self._add_mark(value, -value.mark)

    def _resize(self, most: int, replaced: Value | None) -> None:
        """Let the sources here share what values of other brokers leave.

        ``replaced``: one of these, in whose place a value is to come.
        """
        beside = len(self._values) - len(self._numbers)
        beside_bytes = self.bytes - len(self._sizes)
        if replaced is not None:
            beside, beside_bytes = beside - 1, beside_bytes - replaced.size
        self._numbers.resize(min(most, MAX_VALUES), beside=beside)
        self._sizes.resize(self._most_bytes, beside=beside_bytes)

    def _discharge(self, value: Value) -> None:
        """A value counts to nobody here any more."""
        source = self._sources.pop(value.key, None)
        if source is not None:
            self._numbers.free(source)
            self._sizes.free(source, value.size)

    def _add_mark(self, value: Value, mark: int) -> None:
        marks, at = self._marks[value.key[0]], _bucket(value.key)
        marks[at] = (marks[at] + mark) % MARKS

    def _make_room(self) -> None:
        while self._oldest and (len(self._values) > MAX_VALUES or self.bytes > self._most_bytes):
            stamp, key = heapq.heappop(self._oldest)
            value = self._values.get(key)
            if value is not None and value.stamp == stamp:
                self._drop(value)
                self.counters["retained_driven_out"] += 1

    def _live_ends(self) -> list[tuple[int, Key]]:
        return [(value.ends_ms, key) for key, value in self._values.items() if value.ends_ms]

    def _live_stamps(self) -> list[tuple[Stamp, Key]]:
        return [(value.stamp, key) for key, value in self._values.items()]


def _pushed(heap: list[T], item: T, live: Callable[[], list[T]], most: int) -> list[T]:
    """Push an item that is one of ``live`` now; a heap of more than ``most`` is made of these."""
    if len(heap) > most:
        heap = live()
        heapq.heapify(heap)
        return heap
    heapq.heappush(heap, item)
    return heap


def _is_over(value: Value, wall_ns: int) -> bool:
    return bool(value.ends_ms) and value.ends_ms * NANOS_PER_MILLI <= wall_ns


def _key(head: Head) -> Key:
    return head.secure, head.topic


def _size(run: EventRun) -> int:
    return VALUE_BYTES + 2 * len(run.head.topic) + run.bounds[-1] - run.bounds[0]


def _bucket(key: Key) -> int:
    return blake2b(key[1], digest_size=1).digest()[0]


def _mark(key: Key, stamp: Stamp) -> int:
    at_ns, publisher, incarnation, sequence = stamp
    numbers = b"%d %d %d " % (at_ns, incarnation, sequence)
    found = blake2b(numbers + publisher + key[1], digest_size=8).digest()
    return int.from_bytes(found, "big") % MARKS
