"""To the brokers that want it: an event carries them as a mask, and each goes to one next hop.

For example, an event is for brokers 2, 5 and 9. The next hop to 2 and 9 is 2, and to 5 it is 4. So
2 gets it with the destinations 2 and 9, and 4 gets it with 5. A broker delivers an event if its own
bit is set, and passes on what is for others. So nothing comes twice, and nobody gets an event that
is neither wanted there nor on its way.

Where there is no way to a destination for the moment, the event waits (:mod:`ges.routing.stuck`).

Above the cluster a destination is a unit (:mod:`ges.units.nodes`). An event that goes over a gate
into another unit leaves behind the names of brokers inside this one. The broker that gets it there
finds out which brokers inside want it (:mod:`ges.routing.entering`).
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from ges.gateways.cluster import Cluster
from ges.gateways.next_hops import bits
from ges.routing.plan import Onward
from ges.units.address import LEVELS
from ges.units.nodes import from_level, level_of
from ges.wire.events import Duty
from ges.wire.levels import CLUSTER_MASK
from ges.wire.levels import LEVEL_BITS as CLUSTER_BITS
from overlay.ids import LinkClass
from overlay.multigraph.weights import LinkKey

MAX_CACHED = 16384


class Split(NamedTuple):
    """What becomes of one event here."""

    onward: Onward
    stuck: int  #: destinations to which there is no way, as a mask
    strayed: tuple[str, ...]  #: uids of next hops on which order may be broken
    gone: int = 0  #: destinations that are no more, as a mask: nobody gets it there


class MaskPlan:
    """A :class:`~ges.routing.plan.Plan` by destinations, for links of one class."""

    def __init__(self, cluster: Cluster, link_class: LinkClass, lines: Container[LinkKey]) -> None:
        """``lines``: the links that are up."""
        self._cluster = cluster
        self._lines = lines
        self._class = link_class
        self._version = -1
        self._cache: dict[Duty, Split] = {}

    def onward(self, duty: Duty) -> Onward:
        """Return whom to pass an event to; those that are stuck are left out."""
        return self.split(duty).onward

    def split(self, duty: Duty) -> Split:
        """Return whom to pass an event to, and for whom it waits."""
        if self._cluster.version != self._version:
            self._version = self._cluster.version
            self._cache.clear()
        split = self._cache.get(duty)
        if split is None:
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            split = self._cache[duty] = self._split(duty, duty.trace)
        return split

    def takes(self, uid: str) -> bool:
        """Say whether next hops lead over the link to another member of the cluster."""
        slot = self._cluster.slots.get(uid)
        return slot is not None and self._cluster.tables[self._class].is_beside(slot)

    def instead(self, uid: str, place: int, duty: Duty) -> Onward:
        """Return whom to pass an event to so that it does not go by the broker ``uid``."""
        return self.around(uid, duty).onward

    def around(self, uid: str, duty: Duty) -> Split:
        """Return what becomes of an event that is not to go by the broker ``uid``."""
        slot = self._cluster.slots.get(uid)
        avoid = duty.trace | (1 << slot if slot is not None else 0)
        return self._split(duty, avoid, without=uid)

    def _split(self, duty: Duty, avoid: int, without: str = "") -> Split:
        cluster = self._cluster
        if cluster.slot is None:
            return Split((), duty.destinations, ())
        known = cluster.known
        wanted = duty.destinations & known  # those that have died want nothing
        gone = duty.destinations & ~known
        # Others have moved. What goes by an address would come back from where they are now.
        if gone and not duty.address and (moved := cluster.now_at(gone)):
            wanted, gone = wanted | moved, 0
        decision = cluster.tables[self._class].onward(wanted & ~cluster.own, avoid)
        stuck = decision.stuck
        hops: list[tuple[str, Duty]] = []
        for node, served in decision.hops:
            uid = self.first_of(node, without)
            if uid is None:
                stuck |= served
            else:
                hops.append((uid, self._copy(duty, node, served)))
        for node in bits(stuck):
            # Nobody has told of a way, as one of us has just joined: but there may be a link.
            uid = None if avoid >> node & 1 else self.first_of(node, without)
            if uid is not None and (uid, self._class) in self._lines:
                hops.append((uid, self._copy(duty, node, 1 << node)))
                stuck &= ~(1 << node)
        strayed = tuple(
            uid for node in bits(decision.strayed) if (uid := self.first_of(node)) is not None
        )
        return Split(tuple(hops), stuck, strayed, gone)

    def first_of(self, node: int, without: str = "") -> str | None:
        """Return the uid of the broker that is the next hop by that name."""
        if node < CLUSTER_BITS:
            return self._cluster.uids.get(node)
        return self._cluster.gate(node, self._class, without)

    def _copy(self, duty: Duty, node: int, served: int) -> Duty:
        """Return the duty of the broker that gets a copy: what it serves, and what was passed."""
        cluster, level = self._cluster, level_of(node)
        own = cluster.own_at(level) if level else cluster.slot
        trace = from_level(duty.trace, level) | (1 << own if own is not None else 0)
        shape = cluster.levels if served >> CLUSTER_BITS or level or duty.address else 1
        if shape == 1:
            return Duty(1, 0, served, trace & CLUSTER_MASK, millis=duty.millis)
        upper = from_level(served, level)
        return Duty(LEVELS, 0, upper, trace, duty.address, level, duty.millis)
