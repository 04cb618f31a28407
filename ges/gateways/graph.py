"""The connectivity graph: nodes as bits of a mask, and edges with weights that never tie.

A *node* is a number: 64 times its level, plus its number in the unit above (Grid Event Service
protocols, section 3.2). Broker 6 of this cluster is node 6, cluster 3 of this super-cluster is node
67. With one cluster there are nodes 0 to 63 only.

Two paths of equal cost would be chosen differently by different brokers. So an edge's *weight* has
its cost in the upper bits and a hash of its two ends in the lower 64. Weights add up along a path,
and sums of hashes are different for different paths. Every shortest path is then the only one, and
each part of it is the shortest path between its own ends.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from ges.gateways.costs import LAST_BUCKET, edge_ns
from ges.gateways.link_state import LinkStates
from ges.wire.statement_messages import UnitEdge
from overlay.ids import LinkClass, Nanos

UNIT_BITS = 6  #: of a number in a unit
ALL_NODES = 4 << UNIT_BITS  #: brokers of a cluster, and units of three levels
TIE_BITS = 64  #: below the cost in a weight
_HASH_BITS = 56  #: so that the sum of 255 of them stays below the cost


def level_of(node: int) -> int:
    """Return the level of a node: 0 is a broker."""
    return node >> UNIT_BITS


@dataclass(frozen=True, slots=True)
class Link:
    """An edge between two nodes, over the links that join them."""

    a: int
    b: int
    cost_ns: Nanos  #: both ways
    tie: int = 0  #: decides between paths of one cost; below 2 ** 56


class Graph:
    """Nodes and edges of one class; it does not change."""

    __slots__ = ("_near", "adjacent")

    def __init__(self, links: Iterable[Link] = ()) -> None:
        """Take the edges; of two between the same nodes the cheaper one counts."""
        self._near: dict[int, dict[int, int]] = {}
        #: node -> mask of the nodes it has an edge to
        self.adjacent: dict[int, int] = {}
        for link in links:
            weight = (link.cost_ns << TIE_BITS) + link.tie
            for here, there in ((link.a, link.b), (link.b, link.a)):
                near = self._near.setdefault(here, {})
                near[there] = min(weight, near.get(there, weight))
                self.adjacent[here] = self.adjacent.get(here, 0) | 1 << there

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self._near == other._near

    __hash__ = None  # type: ignore[assignment]  # graphs are compared, never looked up

    def near(self, node: int) -> Mapping[int, int]:
        """Return the weight of each edge of a node."""
        return self._near.get(node, {})

    def lateral_and_below(self, node: int) -> int:
        """Return L_UL as a mask: neighbours of the same level or a lower one."""
        return self.adjacent.get(node, 0) & (1 << ((level_of(node) + 1) << UNIT_BITS)) - 1

    def above(self, node: int) -> int:
        """Return L_D as a mask: neighbours of a higher level."""
        return self.adjacent.get(node, 0) & ~self.lateral_and_below(node)


def cluster_graph(states: LinkStates, members: Mapping[str, int], link_class: LinkClass) -> Graph:
    """Return the graph of one class over the members of a cluster, by uid, with their slots."""
    return Graph(cluster_links(states, members, link_class))


def cluster_links(
    states: LinkStates, members: Mapping[str, int], link_class: LinkClass
) -> Iterator[Link]:
    """Yield the edges of one class between the members of a cluster, by uid, with their slots."""
    for edge in states.edges(link_class, members):
        cost = edge_ns(0, 0, edge.bucket)
        yield Link(members[edge.a], members[edge.b], cost, _tie(edge.a, edge.b))


def gate_links(
    states: LinkStates, members: Mapping[str, int], others: int, link_class: LinkClass
) -> Iterator[Link]:
    """Yield the edges from members to other units, of which ``others`` is the mask."""
    for uid, slot in members.items():
        state = states.get(uid)
        for gate in state.gates if state is not None else ():
            if gate.link_class is link_class and others >> gate.node & 1:
                cost = edge_ns(0, level_of(gate.node), min(gate.bucket, LAST_BUCKET))
                yield Link(slot, gate.node, cost, _tie(uid, f"{gate.node}"))


def outer_links(edges: Iterable[tuple[int, UnitEdge]], others: int) -> Iterator[Link]:
    """Yield the edges between other units; ``edges``: from which node each one is."""
    for node, edge in edges:
        if others >> node & others >> edge.node & 1 and node != edge.node:
            a, b = sorted((node, edge.node))
            cost = edge_ns(level_of(a), level_of(b), min(edge.bucket, LAST_BUCKET))
            yield Link(a, b, cost, _tie(f"{a}", f"{b}"))


@lru_cache(maxsize=16384)
def _tie(a: str, b: str) -> int:
    hashed = hashlib.blake2b(f"{a} {b}".encode(), digest_size=_HASH_BITS // 8).digest()
    return int.from_bytes(hashed)
