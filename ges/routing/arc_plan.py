"""One message a broker: the spanning tree of a normal event over ring links and chords.

A broker that is to serve the arc from itself to ``limit`` passes the event to every linked broker
inside the arc, and gives each the part up to the next one. As everybody is linked to its right
neighbour, no broker is left out, and none is served twice: n-1 messages for n brokers, in O(log n)
steps. (Broadcast in DKS, S. El-Ansary, L. Alima, P. Brand, S. Haridi, 2003, carried over to chords
that can be used from both ends.) The hierarchical routing of the event service will replace it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from ring.geometry import between, clockwise

MAX_CACHED = 4096


class ArcTree:
    """Where an event goes from here, by the limit it came with."""

    def __init__(self) -> None:
        self._here = 0
        self._row: list[tuple[int, str]] = []
        self._cache: dict[int, tuple[tuple[str, int], ...]] = {}

    def update(self, here: int, linked: Mapping[str, int]) -> None:
        """Set this broker's ring id, and uid -> ring id of the members it is linked to."""
        self._here = here
        self._row = sorted(
            ((ring_id, uid) for uid, ring_id in linked.items() if ring_id != here),
            key=lambda entry: clockwise(here, entry[0]),
        )
        self._cache.clear()

    @property
    def is_empty(self) -> bool:
        """This broker is linked to no other: it is the whole ring, as far as it knows."""
        return not self._row

    def onward(self, limit: int) -> tuple[tuple[str, int], ...]:
        """Return (uid, limit) of those to pass the event to.

        ``limit`` is the one it came with; this broker's own ring id where it is published.
        """
        cached = self._cache.get(limit)
        if cached is None:
            inside = [entry for entry in self._row if between(self._here, entry[0], limit)]
            ends = [*(ring_id for ring_id, _ in inside), limit][1:]
            cached = tuple((uid, end) for (_, uid), end in zip(inside, ends, strict=True))
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            self._cache[limit] = cached
        return cached

    def instead(self, place: int, limit: int) -> tuple[tuple[str, int], ...]:
        """Return (uid, limit) of those to pass the event to in place of the broker at ``place``.

        It was to serve the ring from there to ``limit``. The last one before it serves some more,
        and those behind it serve what they would if it had never been linked. Where this broker is
        in that part of the ring itself, the last one before it serves all of it.
        """
        is_ahead = between(self._here, place, limit)
        end = limit if is_ahead else self._here
        inside = [entry for entry in self._row if between(self._here, entry[0], end)]
        far = clockwise(self._here, place)
        first = bisect_right(inside, far, key=lambda entry: clockwise(self._here, entry[0]))
        serving = inside[max(0, first - 1) :]
        if not is_ahead:
            return tuple((uid, limit) for _, uid in serving[:1])
        ends = [*(ring_id for ring_id, _ in serving), limit][1:]
        return tuple((uid, end) for (_, uid), end in zip(serving, ends, strict=True))
