"""Greedy routing: which link brings a message nearest to a place (paper 004, section 3.4.2).

Pure functions, used by :mod:`ring.circle.searches`, :mod:`ring.joining.merge` and
:mod:`ring.records.homes`, and by the benchmarks that compute routes over the tables of whole rings.
Links are used from both ends: with chords that only lead to the right, greedy routes by least
distance would be linear in n.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from ring import geometry
from ring.circle.links import RingLink
from ring.geometry import clockwise
from ring.wire.messages import Towards


def distance(towards: Towards, target: int, ring_id: int) -> int:
    """Return how far ``ring_id`` is from ``target``, by the measure ``towards`` names."""
    if towards is Towards.RIGHT:
        return clockwise(target, ring_id)
    if towards is Towards.LEFT:
        return clockwise(ring_id, target)
    return geometry.distance(target, ring_id)


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


def nearer(
    here: int, target: int, links: Mapping[str, RingLink], without: str | None
) -> str | None:
    """Return the uid of the link in use that leads nearest to ``target``; None if ``here`` does.

    Of two that are equally near, which is common as ids halve gaps, the one that is up for longer
    is taken: other than by :func:`nearest`, where it is the smaller uid.
    """
    best, onward = geometry.distance(here, target), None
    for uid, link in links.items():
        if link.member is not None and uid != without and link.is_used:
            away = geometry.distance(link.member.ring_id, target)
            if away < best:
                best, onward = away, uid
    return onward
