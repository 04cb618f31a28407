"""What many connections hold together: beyond a bound, the one that holds most is given up.

Each connection has limits of its own, but thousands of them could still fill the memory of a
broker, and strangers can make thousands. So there is a bound for all together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Generic, Protocol, TypeVar

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
        """Memory that is kept for all, or of all."""
        return sum(h.held_bytes for h in self._holders if not h.connection.overflowed)

    def look(self) -> None:
        """Give up connections until the rest is within the limit, those that hold most first."""
        now = trio.current_time()
        if now < self._looked + LOOK_SECONDS:
            return
        self._looked = now
        self.shed(self._limit_bytes())

    def shed(self, most: int) -> None:
        """Give up connections until the rest holds no more than ``most``."""
        held = [
            (holder.held_bytes, number, holder)
            for number, holder in enumerate(self._holders)
            if not holder.connection.overflowed
        ]
        total = sum(size for size, _, _ in held)
        if total <= most:
            return
        held.sort(key=lambda entry: (self._is_needed(entry[2]), -entry[0], -entry[1]))
        for size, _, holder in held:
            holder.give_up()
            total -= size
            if total <= most:
                return
