"""What many connections hold together: beyond a bound, the largest holder's are given up.

Each connection has limits of its own, but thousands of them could still fill the memory of a
broker, and strangers can make thousands. So there is a bound for all together. For example, 300
connections of one address hold 1 MiB each, and one client elsewhere 16 MiB: those of the address
go first, until it holds no more than that client.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection
from typing import Generic, Protocol, TypeVar

import trio

from overlay.shares import NOWHERE, Source

LOOK_SECONDS = 0.05  #: between two looks at most: they take time where there are thousands


class Limited(Protocol):
    """A connection."""

    @property
    def overflowed(self) -> bool:
        """It was given up already."""


class Holder(Protocol):
    """Somebody for whom, or of whom, bytes are kept."""

    @property
    def connection(self) -> Limited:
        """Its connection."""

    @property
    def held_bytes(self) -> int:
        """Bytes that this broker keeps for it: its queue, and frames of it that are not whole."""

    @property
    def source(self) -> Source:
        """To whom it counts."""

    def give_up(self) -> None:
        """End its connection now."""


H = TypeVar("H", bound=Holder)


class MemoryLimit(Generic[H]):
    """Looks, now and then, at what is held for all of one kind."""

    def __init__(
        self,
        holders: Collection[H],
        limit_bytes: Callable[[], int],
        is_needed: Callable[[H], bool] = lambda holder: False,
    ) -> None:
        """Take who holds, a collection that changes meanwhile, and what all may hold now.

        ``is_needed``: says who is given up only when nobody else is left.
        """
        self._holders = holders
        self._limit_bytes = limit_bytes
        self._is_needed = is_needed
        self._looked = float("-inf")

    @property
    def held_bytes(self) -> int:
        """Bytes that this broker keeps for all of them."""
        return sum(h.held_bytes for h in self._holders if not h.connection.overflowed)

    def look(self) -> None:
        """Give up connections until the rest is within the limit."""
        now = trio.current_time()
        if now < self._looked + LOOK_SECONDS:
            return
        self._looked = now
        self.shed(self._limit_bytes())

    def shed(self, most: int) -> None:
        """Give up connections until the rest holds no more than ``most``.

        Each time it is the largest one of the source whose connections hold most together.
        """
        total = self.held_bytes
        if total <= most:
            return
        #: By whether they are needed, and by whose they are: sizes, the largest last.
        groups: dict[tuple[bool, Source | int], list[tuple[int, int, H]]] = {}
        for number, holder in enumerate(self._holders):
            if holder.connection.overflowed:
                continue
            whose = number if holder.source is NOWHERE else holder.source
            group = groups.setdefault((self._is_needed(holder), whose), [])
            group.append((holder.held_bytes, number, holder))
        heap = []
        for at, ((is_needed, _), group) in enumerate(groups.items()):
            group.sort(key=lambda entry: entry[:2])
            heap.append((is_needed, -sum(size for size, _, _ in group), -at, group))
        heapq.heapify(heap)
        while heap and total > most:
            is_needed, theirs, at, group = heap[0]
            size, _, holder = group.pop()
            holder.give_up()
            total -= size
            if group:
                heapq.heapreplace(heap, (is_needed, theirs + size, at, group))
            else:
                heapq.heappop(heap)
