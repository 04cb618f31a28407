"""Cheapest paths from one node, which all members of a cluster compute alike.

Broker 6 finds that its path to 9 leads by 4 and 7. Then the path of 4 to 9 leads by 7, because
weights never tie (:mod:`ges.gateways.graph`). So every copy of an event follows one tree from its
source, whichever broker decides, and a copy for everybody costs n - 1 messages.

The *direction rule* of the papers (Grid Event Service protocols, section 3.2): outward from the
vertex, levels never decrease. A path to another cluster does not lead back into a broker of this
one.
"""

from __future__ import annotations

import heapq

from ges.gateways.graph import ALL_NODES, TIE_BITS, UNIT_BITS, Graph
from overlay.ids import Nanos

NOBODY = -1  #: the next hop to what cannot be reached, and to oneself


class Paths:
    """The tree of cheapest paths from ``source``."""

    __slots__ = ("_weights", "next_hop", "reached", "source")

    def __init__(self, graph: Graph, source: int, without: int = 0) -> None:
        """Find the paths that pass no node of the mask ``without``; O(edges * log nodes)."""
        self.source = source
        #: By destination: the node to go to first.
        self.next_hop: list[int] = [NOBODY] * ALL_NODES
        self._weights: dict[int, int] = {}
        queue: list[tuple[int, int, int]] = [(0, source, NOBODY)]
        while queue:
            weight, node, first = heapq.heappop(queue)
            if node in self._weights:
                continue
            self._weights[node] = weight
            self.next_hop[node] = first
            level = node >> UNIT_BITS
            for other, more in graph.near(node).items():
                if other in self._weights or without >> other & 1 or other >> UNIT_BITS < level:
                    continue
                heapq.heappush(queue, (weight + more, other, other if first < 0 else first))
        self.reached = sum(1 << node for node in self._weights)  #: as a mask, the source included

    def cost_ns(self, node: int) -> Nanos | None:
        """Return the cost of the path to a node; None if there is none."""
        weight = self._weights.get(node)
        return weight >> TIE_BITS if weight is not None else None
