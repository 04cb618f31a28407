"""Numbers that go round, so that none is the last (after RFC 1982).

A number that others tell, and that is counted on from, must have no end: else a sender of the
highest one leaves nothing to be said after it. Of two numbers the one that is fewer steps ahead is
the later one; so any two agree on which that is, and numbers that were counted honestly are ordered
as ever.
"""

from __future__ import annotations

from overlay.ids import MAX_COUNT

HIGHEST = MAX_COUNT


def following(number: int) -> int:
    """Return what comes after ``number``; never 0, which may stand for none."""
    return number % HIGHEST + 1


def preceding(number: int) -> int:
    """Return what ``number`` comes after."""
    return (number - 2) % HIGHEST + 1


def is_after(one: int, other: int) -> bool:
    """Say whether ``one`` is the later of two; of two that differ, one is.

    0 counts as the highest, which comes before 1 as well.
    """
    return 0 < (one - other) % HIGHEST <= HIGHEST // 2
