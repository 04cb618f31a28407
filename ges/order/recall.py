"""What a source has sent of late, for edges that ask what they have missed.

Edge E had event 4 of a publisher, and now gets event 9 by another way. Were 5 to 8 for others, or
are they late, or lost? E asks the source, and the source answers with those of them that were for
E. E delivers these, and then 9.

The log has references to the runs as they were read, with the set of brokers that each was for. It
is bounded in time and in bytes, a publisher and in all. One answer is bounded, too: the events
beyond 64 KiB are only *listed*, with their topics, and the edge asks for those it wants.

A publisher may come from another broker, and go, and come back. Its stay here is a range of
numbers; of numbers before it the broker knows nothing but who may know (``before``).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from ges.gateways.next_hops import bits
from ges.wire.event_runs import EventRun
from ges.wire.events import Flow
from ges.wire.matter import Matter
from ges.wire.realms import Realm
from ges.wire.recall_messages import (
    MAX_LISTED,
    MAX_SENT,
    FlowTail,
    ListedEvent,
    RangeDone,
    RangeQuery,
    WantedRange,
)
from ges.wire.trace_context import traceparents
from overlay.ids import LinkClass, Nanos, nanos

KEPT_NS = nanos(10)  #: events are kept for so long ...
FLOW_BYTES = 4 * 1024 * 1024  #: ... and of a publisher no more than take this memory ...
ALL_BYTES = 64 * 1024 * 1024  #: ... and no more of all; the latest
ENTRY_BYTES = 256  #: of memory for a run, beside its topic and the bytes that were read
ANSWER_BYTES = 64 * 1024  #: of events in one answer, but for a single one that is larger
LISTED_BYTES = 32 * 1024  #: of topics in one answer, and one more: it has to fit into a frame
MAX_FLOWS = 65536
MAX_STAYS = 16  #: of a publisher that comes and goes
ROAMED_NS = nanos(3)  #: the events of a publisher that has come from elsewhere are marked so long


class _Entry(msgspec.Struct, frozen=True, gc=False):
    """A run, and whom it was for."""

    run: EventRun
    destinations: int
    at: Nanos
    size: int

    @property
    def first(self) -> int:
        return self.run.head.sequence

    @property
    def end(self) -> int:
        return self.run.head.sequence + self.run.count


class Logged(NamedTuple):
    """An event that is in the log."""

    incarnation: int
    topic: bytes
    destinations: int  #: as a mask; negative: everybody
    at: Nanos  #: when it was published
    traceparent: str = ""  #: the trace that it belongs to; empty: none is named


@dataclass(slots=True)
class _Stay:
    """A publisher was attached here."""

    before: int | None  #: where it had been
    first: int = 0  #: the first number it published here; 0: none yet
    end: int = 0  #: what comes after the last one


@dataclass(slots=True)
class _FlowLog:
    stays: list[_Stay]  #: the latest last
    since: Nanos  #: when the latest began
    numbers: deque[int] = field(default_factory=deque)  #: of its entries, oldest first
    size: int = 0
    dropped: int = 0  #: below that, entries were dropped


class RecallLog:
    """The log of the events published at this broker."""

    def __init__(self, mask_of: Callable[[Matter], int] = lambda matter: 0) -> None:
        """``mask_of`` says which brokers want an event now, as a mask."""
        self._mask_of = mask_of
        self._renamed = 0  #: whom entries before this one were for is named otherwise by now
        self._flows: OrderedDict[Flow, _FlowLog] = OrderedDict()
        self._entries: OrderedDict[int, tuple[Flow, _Entry]] = OrderedDict()
        self._next = 0
        self._data: bytes = b""  #: of the latest run: bytes that several share are counted once
        self.bytes = 0  #: of memory that all entries take
        self.answered = 0  #: ranges
        self.unknown = 0  #: of these, how many began with what is not known here

    def attach(self, flow: Flow, before: int | None, now: Nanos) -> None:
        """A publisher has attached, and says at which broker it was before, if any."""
        log = self._flows.get(flow)
        if log is None:
            self._begin(flow, before, now)
            return
        if not log.stays[-1].first:
            log.stays.pop()  # it has published nothing meanwhile
        log.stays.append(_Stay(before))
        del log.stays[:-MAX_STAYS]
        log.since = now

    def rename(self) -> None:
        """Destinations are named otherwise now: what is kept is also for those that want it now."""
        self._renamed = self._next

    def has_roamed(self, flow: Flow, now: Nanos) -> bool:
        """Say whether a publisher has just come from elsewhere: its events are to be marked."""
        log = self._flows.get(flow)
        if log is None or log.stays[-1].before is None:
            return False
        return now < log.since + ROAMED_NS

    def keep(self, run: EventRun, destinations: int, now: Nanos) -> None:
        """Keep a run that is published here, for the brokers of that mask."""
        head = run.head
        log = self._flows.get(head.flow) or self._begin(head.flow, None, now)
        self._flows.move_to_end(head.flow)
        size = ENTRY_BYTES + len(head.topic)
        if run.data is not self._data:
            self._data = run.data
            size += len(run.data)
        entry = _Entry(run, destinations, now, size)
        stay = log.stays[-1]
        if not stay.first:
            stay.first = entry.first
        stay.end = max(stay.end, entry.end)
        self._entries[self._next] = head.flow, entry
        log.numbers.append(self._next)
        self._next += 1
        log.size += size
        self.bytes += size
        while log.size > FLOW_BYTES and len(log.numbers) > 1:
            self._drop(head.flow, log)
        self.forget(now)

    def tails(self, now: Nanos) -> dict[int, list[FlowTail]]:
        """Return by slot which events were for that broker of late, as far as they are kept."""
        self.forget(now)
        ranges: dict[tuple[int, Flow], tuple[int, int]] = {}
        for number, (flow, entry) in self._entries.items():
            named, head = self._named(number), entry.run.head
            if named < 0:  # for everybody, by arcs of the ring
                named = self._mask_of(head.matter)
            for slot in bits(named):
                first, last = ranges.get((slot, flow), (entry.first, 0))
                ranges[slot, flow] = min(first, entry.first), max(last, entry.end - 1)
        found: dict[int, list[FlowTail]] = {}
        for (slot, flow), (first, last) in ranges.items():
            found.setdefault(slot, []).append(FlowTail(*flow, first, last))
        return found

    def since(self, at: Nanos, now: Nanos) -> Iterator[tuple[EventRun, Nanos]]:
        """Yield what was published from a time on, oldest first, and when that was."""
        self.forget(now)
        for _, entry in self._entries.values():
            if entry.at >= at:
                yield entry.run, entry.at

    def get(self, flow: Flow, sequence: int) -> EventRun | None:
        """Return one event, if it is still kept."""
        log = self._flows.get(flow)
        for number in log.numbers if log is not None else ():
            entry = self._entries[number][1]
            if entry.first <= sequence < entry.end:
                at = sequence - entry.first
                return entry.run.part(at, at + 1)
        return None

    def shed(self, most: int) -> None:
        """Drop the oldest until at most so many bytes are kept."""
        while self._entries and self.bytes > most:
            flow, _ = next(iter(self._entries.values()))
            self._drop(flow, self._flows[flow])

    def find(
        self, publisher: bytes, link_class: LinkClass, sequence: int, now: Nanos
    ) -> Iterator[Logged]:
        """Yield the events of a publisher with that number, one for each life of it."""
        self.forget(now)
        for flow, log in self._flows.items():
            if flow[0] != publisher or flow[2] is not link_class:
                continue
            for number in log.numbers:
                _, entry = self._entries[number]
                if entry.first <= sequence < entry.end:
                    trace = dict(traceparents(entry.run)).get(sequence, "")
                    topic = entry.run.head.topic
                    yield Logged(flow[1], topic, entry.destinations, entry.at, trace)
                    break

    def forget(self, now: Nanos) -> None:
        """Drop what is too old, and the oldest of what is too much."""
        while self._entries:
            flow, entry = next(iter(self._entries.values()))
            if self.bytes <= ALL_BYTES and entry.at > now - KEPT_NS:
                return
            self._drop(flow, self._flows[flow])
        self._data = b""

    def answer(
        self,
        query: RangeQuery,
        now: Nanos,
        asker: int | None = None,
        common: int = Realm.CLUSTER,
    ) -> tuple[list[EventRun], list[RangeDone]]:
        """Return the events that were for the asker, and how far each of its questions is settled.

        ``asker``: what it was named by, as a mask; None: its slot; negative: nobody knows, so the
        topics are listed of which it may choose. ``common``: the level of the smallest unit that
        has both the asker and this broker in it; events of smaller realms are not for the asker.

        The events are to be sent first, flagged as recalled.
        """
        self.forget(now)
        asker = 1 << query.asker if asker is None else asker
        events: list[EventRun] = []
        ends: list[RangeDone] = []
        room = ANSWER_BYTES
        for wanted in query.ranges:
            self.answered += 1
            is_listed = asker < 0 and not wanted.chosen
            found, done = self._answer(
                wanted, asker, common, 0 if is_listed else room, is_first=not (events or is_listed)
            )
            room -= sum(_bytes_of(run) for run in found)
            events += found
            ends.append(done)
        return events, ends

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _begin(self, flow: Flow, before: int | None, now: Nanos) -> _FlowLog:
        log = self._flows[flow] = _FlowLog([_Stay(before)], now)
        if len(self._flows) > MAX_FLOWS:
            oldest = next(iter(self._flows))
            while self._flows[oldest].numbers:
                self._drop(oldest, self._flows[oldest])
            del self._flows[oldest]
        return log

    def _drop(self, flow: Flow, log: _FlowLog) -> None:
        """Drop the oldest entry of a flow."""
        _, entry = self._entries.pop(log.numbers.popleft())
        log.size -= entry.size
        self.bytes -= entry.size
        log.dropped = max(log.dropped, entry.end)

    def _answer(
        self, wanted: WantedRange, asker: int, common: int, room: int, *, is_first: bool
    ) -> tuple[list[EventRun], RangeDone]:
        log = self._flows.get((wanted.publisher, wanted.incarnation, wanted.link_class))
        last = wanted.last
        floor, before = _floor(log, last)
        if wanted.first < floor:
            self.unknown += 1
        events: list[EventRun] = []
        listed: list[ListedEvent] = []
        topics = LISTED_BYTES
        for part in self._parts(log, wanted, floor, asker, common):
            size = _bytes_of(part)
            # The topics of secure events are told nobody, and by its topic an edge cannot say
            # whether it wants an event for named clients. So all of these are sent.
            is_listed = not wanted.link_class.is_secret and not part.head.is_named
            is_small = size <= room or not is_listed
            is_small = is_small and len(events) < MAX_SENT
            if not listed and (is_small or (is_first and not events)):
                room -= size
                events.append(part)
                continue
            if len(listed) == MAX_LISTED or topics < 0 or not is_listed:
                last = part.head.sequence - 1
                break
            listed.append(ListedEvent(part.head.sequence, part.head.topic))
            topics -= len(part.head.topic)
        sent = tuple(run.head.sequence for run in events)
        return events, RangeDone(wanted.number, floor, last, before, sent, tuple(listed))

    def _named(self, number: int) -> int:
        """Return whom an entry was for, as a mask; negative: everybody."""
        entry = self._entries[number][1]
        if number >= self._renamed or entry.destinations < 0:
            return entry.destinations
        head = entry.run.head
        if head.is_named:
            return entry.destinations
        return entry.destinations | self._mask_of(head.matter)

    def _parts(
        self, log: _FlowLog | None, wanted: WantedRange, floor: int, asker: int, common: int
    ) -> Iterable[EventRun]:
        """Yield the events asked for, one by one, in order."""
        if log is None:
            return
        first, chosen = max(wanted.first, floor), set(wanted.chosen)
        entries = ((number, self._entries[number][1]) for number in log.numbers)
        for number, entry in sorted(entries, key=lambda each: each[1].first):
            if entry.end <= first or not self._named(number) & asker:
                continue
            if entry.run.head.realm < common:
                continue
            for sequence in range(max(first, entry.first), min(entry.end, wanted.last + 1)):
                if not chosen or sequence in chosen:
                    at = sequence - entry.first
                    yield entry.run.part(at, at + 1)


def _floor(log: _FlowLog | None, last: int) -> tuple[int, int | None]:
    """Return from where on numbers up to ``last`` are known here, and who may know the others."""
    if log is None:
        return last + 1, None
    after: Sequence[_Stay] = ()
    for at in range(len(log.stays) - 1, -1, -1):
        stay = log.stays[at]
        if stay.first and stay.first <= last:
            if after and last >= stay.end:  # published at the broker that it came back from
                return last + 1, after[0].before
            if log.dropped > stay.first:
                return min(log.dropped, last + 1), None
            return stay.first, stay.before
        after = [stay]
    return last + 1, after[0].before if after else None


def _bytes_of(run: EventRun) -> int:
    return run.bounds[-1] - run.bounds[0]
