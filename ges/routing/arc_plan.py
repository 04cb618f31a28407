"""One message a broker: the spanning tree of a normal event over ring links and chords.

The tree is that of :mod:`ges.telling.arcs`. It serves normal and express events for some moments,
while units change and no mask is sure: it needs no table of units.

Where events take links alone that an operator has named (:mod:`ges.topology.declared_links`), there
is no such tree. Then an event goes over all of these links, and a broker that has had it drops it.

The target of a duty is ``limit``, a ring id.

What a broker has asked for that waits for a slot cannot name it. It goes *toward* its place, each
time to the broker that stands nearest before it, as letters do (:mod:`ges.telling.post`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ges.routing.plan import Onward
from ges.telling.arcs import inside, row_from, shares
from ges.wire.events import Duty
from ring.geometry import RING_SIZE, between, clockwise

MAX_CACHED = 4096

NOBODY: Mapping[str, int] = MappingProxyType({})


class ArcPlan:
    """A :class:`~ges.routing.plan.Plan` that serves arcs of the ring."""

    def __init__(self) -> None:
        self._here = 0
        self._row: list[tuple[int, str]] = []
        self._parts: dict[str, tuple[int, int]] = {}  #: of the ring, by uid of who serves them
        self._moved: set[str] = set()
        #: Those that get every event, whoever else serves their arc.
        self.beside: Onward = ()
        self._cache: dict[Duty, Onward] = {}

    def update(
        self, here: int, linked: Mapping[str, int], beside: Mapping[str, int] = NOBODY
    ) -> None:
        """Set this broker's ring id, and uid -> ring id of the members it is linked to.

        ``beside``: those to which events take a named link, as the ring links that the tree of
        arcs is made of carry no events there.
        """
        self._here = here
        self.beside = tuple((uid, whole_ring(ring_id)) for uid, ring_id in beside.items())
        self._row = row_from(here, ((ring_id, uid) for uid, ring_id in linked.items()))
        ends = dict(shares(self._row, here))
        parts = {uid: (place, ends[uid]) for place, uid in self._row}
        self._moved |= {uid for uid, part in parts.items() if self._parts.get(uid) != part}
        self._parts = parts
        self._cache.clear()

    def take_moved(self) -> Iterable[str]:
        """Return, once, the uids of those that serve another part of the ring than before.

        What went to somebody in there before has gone another way, and may be on it yet.
        """
        moved, self._moved = self._moved, set()
        return sorted(moved)

    @property
    def is_empty(self) -> bool:
        """This broker is linked to no other: it is the whole ring, as far as it knows."""
        return not self._row and not self.beside

    def onward(self, duty: Duty) -> Onward:
        """Return whom to pass an event to by the tree, and what each is to serve.

        ``duty`` is the one it came with; :func:`whole_ring` of this broker where it is published.
        """
        cached = self._cache.get(duty)
        if cached is None:
            limit = duty.target
            cached = self.arcs(limit)
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            self._cache[duty] = cached
        return cached

    def arcs(self, limit: int) -> Onward:
        """Return who is linked in the arc that ends there, nearest first, with the part of each."""
        return _arcs(inside(self._here, self._row, limit), limit)

    def before_us(self, duty: Duty) -> Onward:
        """Return the last one before this broker on the ring, to serve a part of the ring."""
        return tuple((uid, duty) for _, uid in self._row[-1:])

    def instead(self, uid: str, place: int, duty: Duty) -> Onward:
        """Return whom to pass an event to in place of the broker at ``place``.

        It was to serve the ring from there to the limit. The last one before it serves some more,
        and those behind it serve what they would if it had never been linked. Where this broker is
        in that part of the ring itself, the last one before it serves all of it.
        """
        limit = duty.target
        is_ahead = between(self._here, place, limit)
        end = limit if is_ahead else self._here
        linked = inside(self._here, self._row, end)
        far = clockwise(self._here, place)
        first = bisect_right(linked, far, key=lambda entry: clockwise(self._here, entry[0]))
        serving = linked[max(0, first - 1) :]
        if not is_ahead:
            return tuple((uid, duty) for _, uid in serving[:1])
        return _arcs(serving, limit)


class TowardPlan:
    """A :class:`~ges.routing.plan.Plan` that leads to one place on the ring, over some arcs."""

    def __init__(self, arcs: ArcPlan) -> None:
        self._arcs = arcs

    def onward(self, duty: Duty) -> Onward:
        """Return who stands nearest before the place, or there; nobody if that is this broker."""
        serving = self._arcs.arcs(duty.target)
        return tuple((uid, duty) for uid, _ in serving[-1:])

    def instead(self, uid: str, place: int, duty: Duty) -> Onward:
        """Return who stands nearest before the place, but for a broker."""
        serving = self._arcs.arcs(duty.target)
        return tuple((other, duty) for other, _ in serving if other != uid)[-1:]


def toward(place: int, age_ms: int = 0) -> Duty:
    """Return the duty of those that lead events to a place; ``age_ms``: that they tell, or 0."""
    return Duty(0, (place + 1) % RING_SIZE, millis=age_ms)


def whole_ring(ring_id: int) -> Duty:
    """Return the duty of the broker at ``ring_id`` where it serves everybody but itself."""
    return Duty(0, ring_id)


def _arcs(serving: list[tuple[int, str]], limit: int) -> Onward:
    return tuple((uid, Duty(0, end)) for uid, end in shares(serving, limit))
