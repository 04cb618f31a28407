"""A tree over arcs of the ring: each broker of an arc once.

A broker that is to serve the arc from itself to ``limit`` passes a message to every linked broker
inside the arc, and gives each the part up to the next one. As everybody is linked to its neighbour,
no broker is left out, and none is served twice: n-1 messages for n brokers, in O(log n) steps.
(Broadcast in DKS, S. El-Ansary, L. Alima, P. Brand, S. Haridi, 2003, carried over to chords that
can be used from both ends.) Events and what is told to all members go by this rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ring.geometry import RING_SIZE, between, clockwise, gap

#: Uids and ring ids of brokers, nearest first.
Row = Sequence[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Arc:
    """The places from ``lo`` right to ``hi``, ``hi`` left out; all places if the two are equal."""

    lo: int
    hi: int

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole ring."""
        return self.lo == self.hi

    def holds(self, place: int) -> bool:
        """Say whether a place lies in it."""
        return clockwise(self.lo, place) < gap(self.lo, self.hi)

    def at(self, place: int) -> int:
        """Return how far a place lies right of its beginning."""
        return clockwise(self.lo, place)

    def covers(self, other: Arc) -> bool:
        """Say whether all of another arc lies in it."""
        if self.is_whole:
            return True
        room = gap(self.lo, self.hi)
        return not other.is_whole and self.at(other.lo) + gap(other.lo, other.hi) <= room


WHOLE = Arc(0, 0)  #: the ring, from place 0


def row_from(here: int, linked: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return those linked, (ring id, uid), in the order in which they stand to the right."""
    return sorted(
        (entry for entry in linked if entry[0] != here), key=lambda each: clockwise(here, each[0])
    )


def inside(here: int, row: Row, limit: int) -> list[tuple[int, str]]:
    """Return those of a row that stand in the arc from ``here`` right to ``limit``."""
    return [entry for entry in row if between(here, entry[0], limit)]


def shares(serving: Row, limit: int) -> Iterator[tuple[str, int]]:
    """Let each of these serve the arc up to the next one, and the last one up to ``limit``."""
    ends = [*(ring_id for ring_id, _ in serving), limit][1:]
    return ((uid, end) for (_, uid), end in zip(serving, ends, strict=True))


def mirrored(ring_id: int) -> int:
    """Return the place of a ring id in a mirror: what goes left here goes right there."""
    return -ring_id % RING_SIZE
