"""An event comes into a unit: whoever gets it first in there finds out who wants it inside.

For example, an event is for clusters 1 and 7. The first broker of cluster 7 that gets it strikes
out 7, and names the members of cluster 7 that want it. Where an event comes into a super-cluster,
its first broker there names the clusters as well. An event for one broker names it by its address,
and nobody looks at what is wanted.
"""

from __future__ import annotations

from typing import Protocol

from ges.gateways.cluster import Cluster
from ges.units.nodes import from_level
from ges.wire.events import Duty, Head
from ges.wire.levels import CLUSTER_MASK
from ges.wire.matter import Matter


class Wanting(Protocol):
    """Who wants an event, by level; see :meth:`ges.node.BrokerNode.mask_of`."""

    def __call__(self, matter: Matter) -> int:
        """Return the members, and other units as far as the event goes, as a mask."""


class Entering:
    """What becomes of an event that comes into a unit of this broker."""

    def __init__(self, cluster: Cluster, mask_of: Wanting) -> None:
        self._cluster = cluster
        self._mask_of = mask_of

    def duty(self, head: Head, every: int = 0) -> Duty:
        """Return the duty of this broker: whom inside the unit the event is for, too.

        ``every``: nodes that get it whether they want it or not, as far as they are inside.
        """
        duty, cluster = head.duty, self._cluster
        level = duty.entering
        destinations = from_level(duty.destinations, level)
        if self.is_inside(duty):
            destinations &= cluster.known & ~cluster.own
            destinations |= self._inside(head, level)
            destinations |= every & ~from_level(every, level) & ~cluster.own_units
        trace = from_level(duty.trace, level)
        return duty._replace(destinations=destinations, trace=trace, entering=0)

    def beyond(self, duty: Duty) -> Duty:
        """Return the duty for others than this broker's unit, of an event that was handed on."""
        destinations = from_level(duty.destinations, duty.entering) & ~self._cluster.own
        trace = from_level(duty.trace, duty.entering)
        return duty._replace(destinations=destinations, trace=trace, entering=0)

    def is_inside(self, duty: Duty) -> bool:
        """Say whether an event that has come in is for somebody in this broker's unit.

        A unit that is not known here is a part of it, by a later table than this broker's.
        """
        cluster, own = self._cluster, self._cluster.own_at(duty.entering)
        destinations = from_level(duty.destinations, duty.entering)
        strange = destinations & ~(cluster.known | cluster.own)
        return own is None or bool(strange) or bool(destinations >> own & 1)

    def _inside(self, head: Head, level: int) -> int:
        duty = head.duty
        if not duty.address:
            common = self._cluster.common_level(head.source)
            return self._mask_of(Matter(head.link_class, head.topic, level, common))
        if self._cluster.address == duty.address - 1:
            return self._own_slot
        return self._cluster.toward(duty.address - 1)

    @property
    def _own_slot(self) -> int:
        own: int = self._cluster.own & CLUSTER_MASK
        return own
