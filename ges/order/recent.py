"""Which events have come before: a filter for what comes twice, of all classes.

Of each flow (:data:`ges.wire.events.Flow`) it remembers the sequences that have come, as ranges.
While nothing is lost and nothing overtaken that is one range, and a run of events costs a
comparison. A gap costs one range more until it is filled.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence

from ges.wire.event_runs import EventRun
from ges.wire.events import Flow

MAX_FLOWS = 65536  #: remembered; the one longest without an event goes first
MAX_BOUNDS = 2048  #: of the ranges of one flow; then its oldest gap counts as filled ...
MAX_ALL_BOUNDS = 524288  #: ... and of those of all
FLOW_BYTES = 300  #: of memory for a flow ...
BOUND_BYTES = 42  #: ... and for each bound of its ranges


class Recent:
    """The sequences that have come, by flow."""

    def __init__(self) -> None:
        # [begin, end, begin, end, ...] of ranges that do not touch, rising; the ends are outside.
        self._come: OrderedDict[Flow, list[int]] = OrderedDict()
        self._bounds = 0  #: of all flows

    def fresh(self, run: EventRun) -> Sequence[EventRun]:
        """Note a run of events; return the parts of it that have not come before, in order."""
        head = run.head
        first, flow = head.sequence, head.flow
        end = first + run.count
        come = self._come.get(flow)
        if come is None:
            self._begin(flow, first, end)
            return (run,)
        self._come.move_to_end(flow)
        if come[-1] == first:
            come[-1] = end
            return (run,)
        missing = self._add(come, first, end)
        if missing == [(first, end)]:
            return (run,)
        return [run.part(begin - first, until - first) for begin, until in missing]

    @property
    def memory(self) -> int:
        """Bytes of memory that all flows take."""
        return FLOW_BYTES * len(self._come) + BOUND_BYTES * self._bounds

    def shed(self, most: int) -> None:
        """Forget the flows longest without an event, until no more than so many bytes are taken.

        Those of them that come twice are no longer known here.
        """
        while self._come and self.memory > most:
            self._forget_oldest()

    def has_come(self, flow: Flow, sequence: int) -> bool:
        """Say whether an event has come before."""
        return bisect_right(self._come.get(flow, ()), sequence) % 2 == 1

    def _begin(self, flow: Flow, first: int, end: int) -> None:
        self._come[flow] = [first, end]
        self._bounds += 2
        if len(self._come) > MAX_FLOWS:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        self._bounds -= len(self._come.popitem(last=False)[1])

    def _add(self, come: list[int], first: int, end: int) -> list[tuple[int, int]]:
        """Add the range from ``first`` to ``end``; return the parts of it that were missing."""
        low, high = bisect_left(come, first), bisect_right(come, end)
        # Before a bound at an even place nothing has come, before one at an odd place it has.
        opens = [first] if low % 2 == 0 else []
        closes = [end] if high % 2 == 0 else []
        gaps = [*opens, *come[low:high], *closes]
        missing = [
            (gaps[at], gaps[at + 1]) for at in range(0, len(gaps), 2) if gaps[at] < gaps[at + 1]
        ]
        before = len(come)
        come[low:high] = [*opens, *closes]
        self._bounds += len(come) - before
        if len(come) > MAX_BOUNDS or self._bounds > MAX_ALL_BOUNDS:
            self._fill(come)
        return missing

    def _fill(self, come: list[int]) -> None:
        """Let the oldest gap count as filled."""
        if len(come) > 2:
            del come[1:3]
            self._bounds -= 2
