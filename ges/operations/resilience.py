"""How many brokers a ring can lose before those left fall apart, and where it is weakest.

The *node connectivity* k of the graph of links is the size of its smallest node cut: the fewest
brokers without which the others no longer reach each other (Menger: between any two brokers that
are not linked there are k ways with no broker in common). Whatever k-1 brokers are lost at one
moment, the survivors are still connected, and the ring can heal. Where everybody is linked to
everybody there is no cut, and any loss is survived; k is then n-1, as is usual.

Exact up to :data:`EXACT_BROKERS` (Esfahanian and Hakimi, as in networkx). Beyond that the smallest
cut *found* is told, an upper bound: around each run of a few brokers in ring order, which is where
a ring is weakest, and between pairs drawn at random. The time grows linearly with
the links: some 10 s for 10^4 brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ges.wire.status import Status
from overlay.rng import rng_for

if TYPE_CHECKING:
    from networkx import Graph

EXACT_BROKERS = 200
MOST_PAIRS = 64  #: of brokers, drawn in larger rings ...
FEWEST_PAIRS = 8
PAIRS_TIMES_BROKERS = 32_000  #: ... and fewer of them, the larger the ring
LONGEST_RUN = 8  #: brokers in a row whose surroundings are looked at, in larger rings

#: uid -> uids it is linked to, in ring order.
Links = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Resilience:
    """What a set of links survives."""

    brokers: int
    links: int
    k: int  #: node connectivity; 0: in parts already (or a single broker)
    is_complete: bool  #: everybody is linked to everybody: no loss parts the others
    is_exact: bool  #: False: the smallest cut found; there may be a smaller one
    cut: tuple[str, ...]  #: uids of a smallest node cut, in ring order; empty if there is none
    parts: tuple[int, ...]  #: brokers in each part once the cut is gone, the smallest first

    @property
    def survives(self) -> int:
        """Brokers whose loss at one moment leaves the others connected, whichever they are."""
        return max(self.k - 1, 0)


def live_links(brokers: Iterable[Status]) -> dict[str, list[str]]:
    """Return the normal links that both their ends report; control travels on no others.

    A link that one end alone reports has just been opened or lost, or its other end was not met.
    """
    ends = {
        status.uid: {link.uid for link in status.links if link.link_class.is_base}
        for status in brokers
    }
    return {
        uid: [other for other in ends if other in own and uid in ends[other]]
        for uid, own in ends.items()
    }


def ring_links(brokers: Iterable[Status]) -> dict[str, list[str]]:
    """Return the live links between ring neighbours: left, right, left-left, right-right."""
    ring = list(brokers)
    near = {status.uid: {m.uid for m in (*status.left, *status.right)} for status in ring}
    return {
        uid: [other for other in others if other in near[uid] or uid in near[other]]
        for uid, others in live_links(ring).items()
    }


def measure(links: Links) -> Resilience:
    """Return what ``links`` survives; the keys are all brokers, in ring order."""
    import networkx

    graph: Graph[str] = networkx.Graph()
    graph.add_nodes_from(links)
    graph.add_edges_from((uid, other) for uid, others in links.items() for other in others)
    n, size = len(graph), graph.number_of_edges()
    if size == n * (n - 1) // 2:
        return Resilience(n, size, max(n - 1, 0), True, True, (), (n,) if n else ())
    if not networkx.is_connected(graph):
        return Resilience(n, size, 0, False, True, (), _parts(graph, ()))
    is_exact = n <= EXACT_BROKERS
    cut = networkx.minimum_node_cut(graph) if is_exact else _sampled_cut(graph)
    ordered = tuple(uid for uid in links if uid in cut)
    return Resilience(n, size, len(cut), False, is_exact, ordered, _parts(graph, ordered))


# ── inside ────────────────────────────────────────────────────────────────────────────────────


def _sampled_pairs(n: int) -> int:
    return max(FEWEST_PAIRS, min(MOST_PAIRS, PAIRS_TIMES_BROKERS // n))


def _parts(graph: Graph[str], cut: Iterable[str]) -> tuple[int, ...]:
    import networkx

    left = graph.copy()
    left.remove_nodes_from(cut)
    return tuple(sorted(len(part) for part in networkx.connected_components(left)))


def _sampled_cut(graph: Graph[str]) -> set[str]:
    """Return the smallest node cut found in bounded time."""
    from networkx.algorithms.connectivity import (
        build_auxiliary_node_connectivity,
        local_node_connectivity,
        minimum_st_node_cut,
    )
    from networkx.algorithms.flow import build_residual_network

    ring = list(graph)
    best = _cut_around_runs(graph, ring)
    auxiliary = build_auxiliary_node_connectivity(graph)
    residual = build_residual_network(auxiliary, "capacity")
    rng = rng_for(0, "connectivity", len(ring))
    for _ in range(_sampled_pairs(len(ring))):
        a, b = rng.sample(ring, 2)
        if graph.has_edge(a, b):
            continue
        reuse = {"auxiliary": auxiliary, "residual": residual}
        if local_node_connectivity(graph, a, b, cutoff=len(best), **reuse) < len(best):
            best = set(minimum_st_node_cut(graph, a, b, **reuse))
    return best


def _cut_around_runs(graph: Graph[str], ring: Sequence[str]) -> set[str]:
    n = len(ring)
    best: set[str] = set(ring)
    for start in range(n):
        run: set[str] = set()
        around: set[str] = set()
        for step in range(LONGEST_RUN):
            uid = ring[(start + step) % n]
            run.add(uid)
            around.update(graph[uid])
            border = around - run
            if len(border) < len(best) and len(border) + len(run) < n:
                best = border
    return best
