"""What many connections hold together: beyond a bound, the one that holds most is given up.

Each connection has limits of its own, but thousands of them could still fill the memory of a
broker, and strangers can make thousands. So there is a bound for all together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

import trio

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
        """Memory that is kept for it, or of it."""

    def give_up(self) -> None:
        """End its connection now."""


class MemoryLimit:
    """Looks, now and then, at what is held for all of one kind."""

    def __init__(self, holders: Collection[Holder], limit_bytes: Callable[[], int]) -> None:
        """Take who holds, a collection that changes meanwhile, and what all may hold now."""
        self._holders = holders
        self._limit_bytes = limit_bytes
        self._looked = float("-inf")

    def look(self) -> None:
        """Give up connections until the rest is within the limit, those that hold most first."""
        now = trio.current_time()
        if now < self._looked + LOOK_SECONDS:
            return
        self._looked = now
        held = [
            (holder.held_bytes, number, holder)
            for number, holder in enumerate(self._holders)
            if not holder.connection.overflowed
        ]
        total, limit = sum(size for size, _, _ in held), self._limit_bytes()
        if total <= limit:
            return
        for size, _, holder in sorted(held, reverse=True):
            holder.give_up()
            total -= size
            if total <= limit:
                return
