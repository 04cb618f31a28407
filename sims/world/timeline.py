"""What happens next, in virtual time: one heap, so that a seed gives the same run again.

Things are ordered by their time, and then by the order in which they were asked for.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from overlay.ids import Nanos


class Timeline:
    """A clock that stands still while things are done."""

    def __init__(self) -> None:
        self.now: Nanos = 0
        self.events = 0  #: things that have happened
        self._heap: list[tuple[Nanos, int, Callable[..., None], tuple[object, ...]]] = []
        self._sequence = 0

    def at(self, time: Nanos, action: Callable[..., None], *args: object) -> None:
        """Do ``action(*args)`` at ``time``."""
        self._sequence += 1
        heapq.heappush(self._heap, (time, self._sequence, action, args))

    def run(self, until: Nanos) -> None:
        """Let everything happen that is due by ``until``."""
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= until:
            self.now, _, action, args = pop(heap)
            self.events += 1
            action(*args)
        self.now = until

    @property
    def next_at(self) -> Nanos | None:
        """When the next thing happens; None if nothing is left to happen."""
        return self._heap[0][0] if self._heap else None
