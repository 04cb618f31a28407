"""What happens next, in virtual time: one heap, so that a seed gives the same run again.

Things are ordered by their time, and then by the order in which they were asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from overlay.ids import Nanos


class Timeline:
    """A clock that stands still while things are done."""

    def __init__(self) -> None:
        self.now: Nanos = 0
        self.events = 0  #: things that have happened
        self._heap: list[tuple[Nanos, int, Callable[..., None], tuple[object, ...]]] = []
        self._next_number = count(1).__next__  #: tells what is asked for first

    def at(self, time: Nanos, action: Callable[..., None], *args: object) -> None:
        """Do ``action(*args)`` at ``time``."""
        heappush(self._heap, (time, self._next_number(), action, args))

    def run(self, until: Nanos) -> None:
        """Let everything happen that is due by ``until``."""
        heap, done = self._heap, 0
        try:
            while heap and heap[0][0] <= until:
                self.now, _, action, args = heappop(heap)
                done += 1
                action(*args)
        finally:
            self.events += done
        self.now = until

    @property
    def next_at(self) -> Nanos | None:
        """When the next thing happens; None if nothing is left to happen."""
        return self._heap[0][0] if self._heap else None
