"""Arithmetic on the circle of 2^32 ring ids. *Right* is clockwise, towards larger ids."""

from __future__ import annotations

RING_SIZE = 2**32

#: Ids of the first two brokers, as published (paper 004, section 3.2).
FIRST_ID = 0
SECOND_ID = 2**16 - 1


def clockwise(a: int, b: int) -> int:
    """Return the distance from ``a`` to ``b`` going right; 0 if they are equal."""
    return (b - a) % RING_SIZE


def distance(a: int, b: int) -> int:
    """Return how far ``a`` and ``b`` are apart, the shorter way round."""
    return min(clockwise(a, b), clockwise(b, a))


def gap(a: int, b: int) -> int:
    """Return how far ``b``, the right neighbour of ``a``, is away; the whole circle if a is b."""
    return (b - a) % RING_SIZE or RING_SIZE


def midway(a: int, b: int) -> int:
    """Return the id midway in the gap from ``a`` right to ``b``; ``a`` itself if there is none."""
    return (a + gap(a, b) // 2) % RING_SIZE


def between(a: int, x: int, b: int) -> bool:
    """Say whether ``x`` lies strictly inside the arc from ``a`` right to ``b``.

    The arc from a to a is the whole circle without a.
    """
    return 0 < clockwise(a, x) < gap(a, b)
