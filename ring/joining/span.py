"""A place for a newcomer in a given arc of the ring, as a pure choice.

For example, a newcomer is to stand in the arc from 1000 to 2000. Its uid stands for a point of that
arc, such as 1400. The request goes to the broker that owns the gap in which this point lies. That
one chooses the widest of the gaps that it sees, each counted only as far as it lies in the arc. So
newcomers spread over the arc, and no broker need know all of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

from ring.config import GapRule
from ring.geometry import RING_SIZE, clockwise, gap
from ring.joining.gap_choice import Choice, Request, Sight, Verdict


@dataclass(frozen=True, slots=True)
class Span:
    """The places from ``lo`` right to ``hi``, ``hi`` left out; all places if the two are equal."""

    lo: int
    hi: int

    def at(self, place: int) -> int:
        """Return how far a place lies right of its beginning."""
        return clockwise(self.lo, place)

    def holds(self, place: int) -> bool:
        """Say whether a place lies in it."""
        return self.at(place) < gap(self.lo, self.hi)

    def point(self, newcomer: str) -> int:
        """Return the place that a newcomer's uid stands for."""
        return (self.lo + (crc32(newcomer.encode()) * gap(self.lo, self.hi) >> 32)) % RING_SIZE

    def part(self, owner: int, width: int) -> tuple[int, int]:
        """Return what lies in it of the free places of a gap: the first one, and how many.

        ``owner`` stands at the left end of the gap, and is not one of its free places.
        """
        room = gap(self.lo, self.hi)
        if self.holds(owner):
            begin, end = 1, room - self.at(owner)
        else:
            begin = clockwise(owner, self.lo)
            end = begin + room
        return (owner + begin) % RING_SIZE, max(0, min(width, end) - begin)

    def middle(self, owner: int, width: int) -> int | None:
        """Return the place midway in what lies in it of a gap; None: nothing does."""
        first, count = self.part(owner, width)
        return (first + count // 2) % RING_SIZE if count else None


def nearest_before(point: int, places: Iterable[int]) -> int:
    """Return the one of these places that is nearest to a point from the left, or at it."""
    return min(places, key=lambda place: clockwise(place, point))


def choose_inside(sight: Sight, request: Request, span: Span, max_jumps: int) -> Choice:
    """Say what to do with a request for a place in an arc."""
    may_jump = request.jumps < max_jumps
    if request.asked and span.part(sight.here, sight.room)[1]:
        return Choice(Verdict.INSERT)
    point = span.point(request.newcomer)
    known = (sight.here, *sight.lefts, *sight.rights, *sight.chords)
    nearest = nearest_before(point, known)
    if nearest != sight.here and may_jump and not request.asked:
        return Choice(Verdict.PASS_ON, nearest)
    offers = [(span.part(at, width)[1], at) for width, at in sight.gaps(GapRule.WIDEST)]
    count, owner = max(offers, key=lambda offered: offered[0])
    if not count:
        return Choice(Verdict.FULL)
    if owner == sight.here:
        return Choice(Verdict.INSERT)
    return Choice(Verdict.ASK, owner) if may_jump else Choice(Verdict.FULL)
