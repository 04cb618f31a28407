"""Which gap a newcomer is put into, as a pure choice (paper 004, section 3.3).

Departs from the paper, which halves the wider of the contact's own two gaps and asks right-right
where both are full: ids run out that way after some 10^5 joins, and at 111 brokers when all
newcomers ask one contact. So the default rule looks farther, twice:

* it takes the widest of all gaps the contact sees, up to eight around it;
* where even that one is narrower than the mean gap of the ring, the request jumps along chords
  towards a point of the circle that its uid stands for, and each broker it comes to chooses anew.
  Points are spread evenly over the ids, so the wider a gap is the more newcomers head for it: the
  one wide gap of a ring that is crowded everywhere else is found in about log2(n) jumps.

What chords tell: the chord of level j leads 2^(j+1) brokers to the right, so the number of levels
and the distance to the last say how many brokers there are. That may be out of date, which costs
jumps, no more: their number is bounded, and what counts as wide enough gets less on the way. (That
a handful of gaps to choose from makes ids even within a constant factor is G. Manku's result,
"Balanced binary trees for ID management and load balance in distributed hash tables", 2004.)

Only ids go in and out here; :mod:`ring.joining.gap_owner` knows whose they are.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise
from zlib import crc32

from ring.config import GapRule
from ring.geometry import clockwise, gap

MIN_GAP = 2  #: the narrowest gap that has room for one more id
LAP = 8  #: after so many jumps half the width is wide enough, and the way leads elsewhere


class Verdict(Enum):
    """What is to be done with a request for a place."""

    INSERT = auto()  #: here, in the gap to the right
    ASK = auto()  #: the owner of the chosen gap is to insert
    PASS_ON = auto()  #: another broker is to choose
    FULL = auto()  #: no room as far as the search went


@dataclass(frozen=True, slots=True)
class Choice:
    """A verdict and, for ASK and PASS_ON, the ring id of the broker it names."""

    verdict: Verdict
    ring_id: int = 0


@dataclass(frozen=True, slots=True)
class Sight:
    """What one member sees of the gaps of its ring, as ring ids."""

    here: int
    room: int  #: width of the free part of the gap to our right, ids reserved there taken off
    lefts: Sequence[int]  #: members in an unbroken row to the left, nearest first
    rights: Sequence[int]  #: the same to the right
    whole: bool  #: these are all members there are
    chords: Sequence[int] = ()  #: by level

    def gaps(self, rule: GapRule) -> list[tuple[int, int]]:
        """Return (width, owner) of the gaps that ``rule`` offers, our own first."""
        if rule is GapRule.PUBLISHED:
            left = self.lefts[:1] or self.rights[-1:]  # in small rings the row is all to the right
            return [(self.room, self.here), *((clockwise(at, self.here), at) for at in left)]
        row = [*reversed(self.lefts), self.here, *self.rights]
        if self.whole:
            row.append(row[0])  # the last gap closes the circle
        beside = [(clockwise(a, b), a) for a, b in pairwise(row) if a != self.here]
        return [(self.room, self.here), *beside]

    def mean(self) -> int:
        """Return the mean gap of the whole ring, as the chords tell it; 0 if they tell nothing.

        A ring with chords up to level j has more than 2^(j+1) brokers, and not more than twice
        that; where in between, the distance to the farthest chord says.
        """
        if self.whole or not self.chords:
            return 0
        brokers = 1 << len(self.chords)
        reach = clockwise(self.here, self.chords[-1]) or 1
        circle = gap(0, 0)
        return max(circle // (2 * brokers), min(circle // (brokers + 1), reach // brokers))

    def jump(self, point: int, rng: random.Random) -> int | None:
        """Return the farthest chord not beyond ``point``; where none is before it, any.

        Without chords, the farthest member to the right; None if there is nobody beyond our sight.
        """
        if self.whole:
            return None
        if not self.chords:
            return self.rights[-1] if self.rights else None
        way = clockwise(self.here, point)
        before = [chord for chord in self.chords if clockwise(self.here, chord) <= way]
        return before[-1] if before else rng.choice(self.chords)


@dataclass(frozen=True, slots=True)
class Request:
    """What the choice depends on beside the place where it is made."""

    newcomer: str  #: its uid, which says where on the circle the request jumps to
    jumps: int = 0  #: how often the request was passed on
    asked: bool = False  #: another broker chose our gap, which may have been taken since

    @property
    def point(self) -> int:
        """The point to jump towards: another one after each lap, evenly spread over the circle."""
        return crc32(f"{self.newcomer}/{self.jumps // LAP}".encode())


def choose(
    sight: Sight, request: Request, rule: GapRule, max_jumps: int, rng: random.Random
) -> Choice:
    """Say what to do with ``request``; after ``max_jumps`` whatever fits is wide enough."""
    may_jump = request.jumps < max_jumps
    if rule is GapRule.PUBLISHED:
        return _published(sight, request.asked, may_jump)
    enough = MIN_GAP
    if may_jump:
        enough = max(MIN_GAP, sight.mean() >> (request.jumps // LAP))
    if request.asked and sight.room >= enough:
        return Choice(Verdict.INSERT)
    width, owner = max(sight.gaps(rule), key=lambda offered: offered[0])
    if width < enough and may_jump:
        onward = sight.jump(request.point, rng)
        if onward is not None:
            return Choice(Verdict.PASS_ON, onward)
    if width < MIN_GAP:
        return Choice(Verdict.FULL)
    if owner == sight.here:
        return Choice(Verdict.INSERT)
    if request.asked and not may_jump:
        return Choice(Verdict.FULL)  # the last one asked has no room either
    return Choice(Verdict.ASK, owner)


def _published(sight: Sight, asked: bool, may_pass_on: bool) -> Choice:
    """The paper's rule: the wider of our own two gaps, the left of equal ones, or right-right."""
    if asked and sight.room >= MIN_GAP:
        return Choice(Verdict.INSERT)
    right_and_left = sight.gaps(GapRule.PUBLISHED)
    width, owner = max(reversed(right_and_left), key=lambda offered: offered[0])
    if width >= MIN_GAP and owner == sight.here:
        return Choice(Verdict.INSERT)
    if not may_pass_on:
        return Choice(Verdict.FULL)
    if width >= MIN_GAP:
        return Choice(Verdict.ASK, owner)
    beyond = sight.rights[1:2] or sight.rights[:1]
    return Choice(Verdict.PASS_ON, beyond[0]) if beyond else Choice(Verdict.FULL)
