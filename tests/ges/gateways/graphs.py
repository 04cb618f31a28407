"""Graphs to try paths on, and trees to compare with."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping

from ges.gateways.costs import BUCKETS_NS
from ges.gateways.graph import Graph, Link
from ges.gateways.next_hops import NextHops, bits


def link(a: int, b: int, bucket: int, rng: random.Random) -> Link:
    """Return an edge inside a cluster."""
    return Link(a, b, BUCKETS_NS[bucket], rng.getrandbits(56))


def random_graph(n: int, more: int, rng: random.Random, buckets: int = 4) -> Graph:
    """Return a connected graph of n nodes: a random tree and some edges more."""
    pairs = {(rng.randrange(at), at) for at in range(1, n)}
    for _ in range(more):
        a, b = sorted(rng.sample(range(n), 2))
        pairs.add((a, b))
    return Graph(link(a, b, rng.randrange(buckets), rng) for a, b in sorted(pairs))


def chord_ring(n: int, rng: random.Random, buckets: int = 1) -> Graph:
    """Return a ring with chords by rank: from each broker to those 1, 2, 4, 8, ... to its right."""
    pairs = set()
    step = 1
    while step < n:
        for at in range(n):
            pairs.add(tuple(sorted((at, (at + step) % n))))
        step *= 2
    return Graph(link(a, b, rng.randrange(buckets), rng) for a, b in sorted(pairs) if a != b)


def tables_of(graph: Graph, n: int) -> list[NextHops]:
    """Return the tables of all brokers of a cluster that know the same graph."""
    tables = [NextHops(own) for own in range(n)]
    for table in tables:
        table.update(graph)
    return tables


def spread(tables: list[NextHops], source: int, mask: int) -> tuple[int, dict[int, int], int]:
    """Send an event; return messages sent, how often each destination got it, and who is stuck.

    No copy may pass a broker twice: that raises an AssertionError.
    """
    queue = deque([(source, mask, 0)])
    got: dict[int, int] = {}
    sent = stuck = 0
    while queue:
        at, destinations, trace = queue.popleft()
        assert not trace >> at & 1, "a copy has come back"
        if destinations >> at & 1:
            got[at] = got.get(at, 0) + 1
        trace |= 1 << at
        decision = tables[at].onward(destinations & ~(1 << at), trace)
        assert not stuck & decision.stuck
        stuck |= decision.stuck
        for hop, served in decision.hops:
            sent += 1
            queue.append((hop, served, trace))
    return sent, got, stuck


def steiner(graph: Graph, source: int, mask: int) -> int:
    """Return how many edges a small tree over the source and the destinations has.

    The nearest destination is joined to the tree, again and again (H. Takahashi, A. Matsuyama,
    1980), with each destination as the first one in turn; the smallest tree counts.
    """
    wanted = set(bits(mask)) - {source}
    if not wanted:
        return 0
    return min(_grow(graph, start, wanted | {source}) for start in sorted(wanted | {source}))


def _grow(graph: Graph, start: int, terminals: set[int]) -> int:
    tree, edges = {start}, 0
    while not terminals <= tree:
        parents: dict[int, int] = dict.fromkeys(tree, -1)
        queue = deque(sorted(tree))
        node = -1
        while queue:
            node = queue.popleft()
            if node in terminals and node not in tree:
                break
            for other in _sorted(graph.near(node)):
                if other not in parents:
                    parents[other] = node
                    queue.append(other)
        while node not in tree:
            tree.add(node)
            edges += 1
            node = parents[node]
    return edges


def _sorted(near: Mapping[int, int]) -> list[int]:
    return sorted(near, key=lambda node: near[node])
