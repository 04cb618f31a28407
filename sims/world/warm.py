"""Large rings without the time that forming one by joins takes.

Brokers appear as members at given places, each linked to its ring neighbours. All the rest (views,
chords, backups) comes about by the protocol itself, so what runs afterwards is a ring like another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from overlay.machine import Input
from ring.facts import Found
from ring.geometry import RING_SIZE

REACH = 2  #: neighbours on each side


def spread_evenly(n: int) -> list[int]:
    """Return ``n`` ring ids, evenly spaced."""
    return [k * RING_SIZE // n for k in range(n)]


class WarmWorld(Protocol):
    """Where brokers can be linked without a call."""

    def link(self, uid: str, other: str) -> None:
        """Let there be a link between two brokers."""

    def give(self, uid: str, event: Input) -> None:
        """Hand an input to a broker now."""


def start_warm(world: WarmWorld, places: Mapping[str, int]) -> None:
    """Make members of brokers that are in the world but do nothing yet: uid -> ring id.

    The caller then runs the world for as long as the chords take.
    """
    ring = sorted(places, key=places.__getitem__)
    n = len(ring)
    linked: set[frozenset[str]] = set()
    for at, uid in enumerate(ring):
        for step in range(1, REACH + 1):
            pair = frozenset((uid, ring[(at + step) % n]))
            if len(pair) == 2 and pair not in linked:
                linked.add(pair)
                world.link(*sorted(pair))
    for uid in ring:
        world.give(uid, Found(places[uid]))
