"""Each publisher's events in order, and what comes too late not at all.

While links come and go, two events of one publisher may take different ways and overtake each
other. Every broker sees every event of a class for now, so a publisher's sequence has no gaps here:
what comes early is held until what it overtook has come, or is given up for lost. That rule is
:class:`DenseOrdering`; whoever uses it knows an :class:`Ordering`.

How long does an early event wait for those before it?

* *Long*, where nothing is known to be lost (:data:`LONG_GAP_NS`): what is late only stands in a
  long queue.
* *Less long*, where it is *marked* (:data:`GAP_NS`): a broker knows that events before it may be
  lost, as a link was given up or an event refused. But longer than events are held for a link that
  may come back (:mod:`ges.routing.holding`), as these are not lost. For a link to a ring neighbour
  that is until the neighbour is judged, and the broker that stands in for it may be dead, too.
* *Shortest*, where it is the first of its publisher here (:data:`MET_GAP_NS`). This broker has just
  joined, or the event has overtaken others; nobody can say which, and clients wait for their first
  events.
* *Shortest* as well, for a while, where this broker has joined anew. What was published meanwhile
  went to those that stood in for it. They know that, but send nothing here: no mark says so.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from ges.wire.event_runs import EventRun
from ges.wire.events import Flow
from overlay.ids import Nanos, nanos
from overlay.machine import TimerTable

GAP_NS = nanos(4)  #: what comes before a marked event is given up after this
MET_GAP_NS = nanos(2)  #: what comes before the first event of a publisher seen, or while in doubt
LONG_GAP_NS = nanos(10)  #: what comes before any other
MAX_HELD = 65536  #: events held for one publisher ...
MAX_HELD_BYTES = 64 * 1024 * 1024  #: ... and bytes for all
MAX_PUBLISHERS = 65536
HELD_BYTES = 256  #: of memory for an event that waits for others, beside its own bytes


class Ordering(Protocol):
    """Puts the events of each flow in order. What comes twice has been dropped before."""

    @property
    def flows(self) -> Iterable[Flow]:
        """All flows known."""

    @property
    def lost(self) -> int:
        """How many events were given up."""

    def doubt(self, now: Nanos) -> None:
        """Of every publisher events may be lost: for a while no gap is waited for long."""

    def admit(self, run: EventRun, now: Nanos, *, marked: bool) -> Sequence[EventRun]:
        """Take events; return what is to be delivered now, in order.

        ``marked``: events before these may be lost.
        """

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`expire` has something to give up."""

    def expire(self, now: Nanos) -> list[EventRun]:
        """Give up what has been waited for too long; return what is to be delivered now."""


class _Held(msgspec.Struct, frozen=True, gc=False):
    """An event that came early."""

    run: EventRun  #: of one
    size: int  #: bytes of memory
    until: Nanos  #: it waits no longer than that


class _Flow:
    __slots__ = ("held", "next")

    def __init__(self, first: int) -> None:
        self.next = first  #: the sequence to be delivered next; all below have been, or are lost
        self.held: dict[int, _Held] = {}


class DenseOrdering:
    """An :class:`Ordering` of flows whose events all come here: a missing number is missing."""

    def __init__(self) -> None:
        self._flows: OrderedDict[Flow, _Flow] = OrderedDict()
        self._waiting: TimerTable[Flow] = TimerTable()
        self._held_bytes = 0
        self._in_doubt_until: Nanos = 0
        self.lost = 0  #: events given up; at most :data:`MAX_HELD` for one gap
        self.too_late = 0  #: events that came after they were given up

    @property
    def flows(self) -> Iterable[Flow]:
        """All flows known."""
        return self._flows.keys()

    def doubt(self, now: Nanos) -> None:
        """Of every publisher events may be lost: for a while no gap is waited for long."""
        self._in_doubt_until = now + LONG_GAP_NS

    def admit(self, run: EventRun, now: Nanos, *, marked: bool = False) -> Sequence[EventRun]:
        """Take events; return what is to be delivered now, in order.

        ``marked``: events before these may be lost.
        """
        head = run.head
        flow, first = self._flows.get(head.flow), head.sequence
        is_new = flow is None
        if flow is None:
            flow = self._begin(head.flow, first)
        elif first == 1 and not flow.next:
            flow.next = 1  # this is where it begins: nothing before is to be waited for
        if first == flow.next and not flow.held:
            flow.next += run.count
            return (run,)
        is_in_doubt = now < self._in_doubt_until
        patience = LONG_GAP_NS
        if is_new or is_in_doubt:
            # A publisher first met in mid-stream: an event it published earlier may be on its way.
            patience = MET_GAP_NS
        elif marked:
            patience = GAP_NS
        return self._hold(run, flow, now, now + patience, is_urgent=marked or is_in_doubt)

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`expire` has something to give up."""
        return self._waiting.next_deadline()

    def expire(self, now: Nanos) -> list[EventRun]:
        """Give up what has been waited for too long; return what is to be delivered now."""
        ready: list[EventRun] = []
        while (key := self._waiting.pop_expired(now)) is not None:
            ready += self._release(key, self._flows[key], now, skip=False)
        return ready

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _begin(self, key: Flow, first: int) -> _Flow:
        flow = self._flows[key] = _Flow(1 if first == 1 else 0)
        if len(self._flows) > MAX_PUBLISHERS:
            self._forget(*self._flows.popitem(last=False))
        return flow

    def _hold(
        self, run: EventRun, flow: _Flow, now: Nanos, until: Nanos, *, is_urgent: bool
    ) -> Sequence[EventRun]:
        """Hold events that came early, each by itself; return what can be delivered by now."""
        key, held = run.head.flow, flow.held
        ready: list[EventRun] = []
        for event in run.split():
            sequence = event.head.sequence
            if sequence < flow.next or sequence in held:
                self.too_late += 1
                continue
            alone = event.alone()
            held[sequence] = _Held(alone, len(alone.data) + HELD_BYTES, until)
            self._held_bytes += held[sequence].size
            is_full = len(held) > MAX_HELD or self._held_bytes > MAX_HELD_BYTES
            if sequence == flow.next or is_full:
                ready += self._release(key, flow, now, skip=sequence != flow.next)
        if held and (is_urgent or key not in self._waiting):
            self._wait(key, flow)
        return ready

    def _wait(self, key: Flow, flow: _Flow) -> None:
        self._waiting.set(key, min(held.until for held in flow.held.values()))

    def _release(self, key: Flow, flow: _Flow, now: Nanos, *, skip: bool) -> list[EventRun]:
        """Return what is in order now; with ``skip``, give up the first gap at least."""
        held = flow.held
        ready: list[EventRun] = []
        while held:
            if flow.next not in held:
                # Nothing waits longer than its time, however many gaps there are before it.
                if not skip and min(each.until for each in held.values()) > now:
                    self._wait(key, flow)
                    return ready
                skip = False
                first = min(held)
                if flow.next:
                    self.lost += min(first - flow.next, MAX_HELD)  # what jumps farther is forged
                flow.next = first
            event = held.pop(flow.next)
            self._held_bytes -= event.size
            ready.append(event.run)
            flow.next += 1
        self._waiting.cancel(key)
        return ready

    def _forget(self, key: Flow, flow: _Flow) -> None:
        self._waiting.cancel(key)
        self._held_bytes -= sum(held.size for held in flow.held.values())
