"""The links of one broker to brokers of other units, and which of them events take.

For example, this broker has links to two brokers of cluster 7, which is node 71. Events for that
cluster go over the cheaper link. The other members are told that there are two, and what the
cheaper one costs: a *gate*, which is a gateway as *Grid Event Service protocols*, section 2, has
them, seen from one end.

A link that has not lasted for long is taken only where there is no other. A newcomer stands beside
the clusters at once, and mostly has a slot soon after; until it has one, events for its unit would
wait there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from ges.wire.gateway_messages import StateGate
from overlay.ids import LinkClass
from overlay.multigraph.weights import LinkKey

#: The node of another unit (:mod:`ges.units.nodes`), and a class of links to it.
GateKey = tuple[int, LinkClass]
#: Returns the bucket of what a link costs, given the one that it had.
BucketOf = Callable[[LinkKey, int | None], int]

MAX_COUNT = 2**16  #: links of one gate that are told


class Gates:
    """What leads out of a cluster from one broker."""

    def __init__(self) -> None:
        self.told: tuple[StateGate, ...] = ()  #: what the other members are to know
        self.changes = 0  #: grows when events take other links
        self._uids: dict[GateKey, tuple[str, ...]] = {}  #: the best first
        self._buckets: dict[LinkKey, int] = {}  #: kept while costs waver

    @property
    def keys(self) -> frozenset[GateKey]:
        """The units that there are links to, by class."""
        return frozenset(self._uids)

    def first(self, node: int, link_class: LinkClass, without: str = "") -> str | None:
        """Return the uid of the broker to whom events for a unit go, but for one; None: nobody."""
        found = self._uids.get((node, link_class), ())
        return next((uid for uid in found if uid != without), None)

    def update(
        self,
        links: Iterable[tuple[int, LinkKey]],
        bucket_of: BucketOf,
        fresh: Collection[str] = (),
    ) -> Mapping[LinkClass, int]:
        """Take the links that there are now, each with the node at its other end.

        ``fresh``: uids at the other ends of those that have not lasted for long.

        Returns by class the units for which another link is taken than before, as a mask.
        """
        before, self._buckets = self._buckets, {}
        found: dict[GateKey, list[tuple[bool, int, str]]] = {}
        for node, key in links:
            bucket = self._buckets[key] = bucket_of(key, before.get(key))
            found.setdefault((node, key[1]), []).append((key[0] in fresh, bucket, key[0]))
        for each in found.values():
            each.sort()
        uids = {key: tuple(uid for *_, uid in each) for key, each in found.items()}
        moved = dict.fromkeys(LinkClass, 0)
        for (node, link_class), first in uids.items():
            if first[:1] != self._uids.get((node, link_class), ())[:1]:
                moved[link_class] |= 1 << node
        if uids != self._uids:
            self._uids = uids
            self.changes += 1
        self.told = tuple(
            StateGate(*key, each[0][1], min(len(each), MAX_COUNT)) for key, each in found.items()
        )
        return moved
