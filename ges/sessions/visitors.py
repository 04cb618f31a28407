"""Clients that only ask for the status: they have places of their own, and do not stay.

So who looks after a broker, by ``chordal status``, ``ring``, ``graph`` or ``metrics``, gets an
answer when all slots of clients are taken. Where all these places are taken too, the visitor that
has been there for longest goes: nobody can keep them by staying. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from overlay.shares import Shares, Source

V = TypeVar("V")


class Visitors(Generic[V]):
    """The visitors of one broker, in the order in which they came."""

    __slots__ = ("_end", "_here", "_slots")

    def __init__(self, total: int, *, of_one: int, end: Callable[[V], None]) -> None:
        """Take how many there may be, of one source and of all; ``end`` cuts one off."""
        self._slots = Shares(total, of_one=of_one, reserved=0)
        self._here: dict[V, Source] = {}
        self._end = end

    def __len__(self) -> int:
        """Return how many are here."""
        return len(self._here)

    def __contains__(self, visitor: V) -> bool:
        return visitor in self._here

    def enter(self, visitor: V, source: Source) -> None:
        """One more comes; where there are too many of its source, or at all, the oldest goes."""
        crowd = self._slots.crowd(source)
        if crowd is not None:
            for other, its_source in self._here.items():
                if its_source == crowd:
                    self.leave(other)
                    self._end(other)
                    break
        self._here[visitor] = source
        self._slots.take(source)

    def leave(self, visitor: V) -> None:
        """It goes; no harm if it is gone."""
        source = self._here.pop(visitor, None)
        if source is not None:
            self._slots.free(source)
