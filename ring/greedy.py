"""Greedy routing: which link brings a message nearest to a place on the ring.

Pure functions on ring ids, used by :mod:`ring.routing` and by the benchmarks that compute routes
over the tables of whole rings. Links are used from both ends: with chords that only lead to the
right, greedy routes by least distance would be linear in n.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from ring.geometry import clockwise
from ring.messages import Towards


def distance(towards: Towards, target: int, ring_id: int) -> int:
    """Return how far ``ring_id`` is from ``target``, by the measure ``towards`` names."""
    if towards is Towards.RIGHT:
        return clockwise(target, ring_id)
    if towards is Towards.LEFT:
        return clockwise(ring_id, target)
    return min(clockwise(target, ring_id), clockwise(ring_id, target))


def nearest(
    towards: Towards,
    target: int,
    links: Iterable[tuple[str, int]],
    without: Container[str] = (),
) -> tuple[int, str] | None:
    """Return (distance, uid) of the nearest of ``links``, (uid, ring id) pairs, or None.

    Those ``without`` are left out; of two that are equally near, the smaller uid is taken.
    """
    return min(
        ((distance(towards, target, at), uid) for uid, at in links if uid not in without),
        default=None,
    )
