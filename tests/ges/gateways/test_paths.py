"""Cheapest paths, against figure 5 and against all simple paths."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from ges.gateways.costs import LEVEL_NS, edge_ns
from ges.gateways.graph import Graph, Link, cluster_graph, level_of
from ges.gateways.link_state import LinkStates
from ges.gateways.paths import NOBODY, Paths
from ges.wire.gateway_messages import LinkState, StateLink
from overlay.ids import LinkClass
from tests.ges.gateways.graphs import random_graph

#: Nodes of the graph at SSC-A.SC-1.c.6.
N4, N5, N6 = 4, 5, 6
UNIT_A, UNIT_B = 64 + 0, 64 + 1
SC2, SC3 = 128 + 2, 128 + 3
SSC_B, SSC_D = 192 + 1, 192 + 3


def figure_5() -> Graph:
    """Return the connectivity graph of figure 5 (P0), with links of 50 us."""
    ties = iter(range(1000, 2000, 37))
    pairs = [(N6, N4), (N6, N5), (N4, N5), (N5, SC2), (N4, UNIT_B), (SC3, SC2), (SC3, UNIT_B)]
    pairs += [(SC3, SSC_B), (UNIT_A, SSC_B), (SSC_B, SSC_D), (UNIT_A, UNIT_B)]
    return Graph(Link(a, b, edge_ns(level_of(a), level_of(b), 0), next(ties)) for a, b in pairs)


@pytest.mark.parametrize(
    ("to", "hop", "cost"),
    [
        (N4, N4, 0),
        (N5, N5, 0),
        (UNIT_B, N4, 1),
        (SC2, N5, 2),
        (UNIT_A, N4, 3),
        (SC3, N4, 4),
        (SSC_B, N4, 7),
        (SSC_D, N4, 13),
    ],
)
def test_figure_5(to: int, hop: int, cost: int) -> None:
    paths = Paths(figure_5(), N6)
    found = paths.cost_ns(to)
    assert found is not None
    assert (paths.next_hop[to], found // LEVEL_NS) == (hop, cost)


def test_figure_5_neighbours_by_level() -> None:
    graph = figure_5()
    assert graph.lateral_and_below(SC3) == 1 << SC2 | 1 << UNIT_B
    assert graph.above(SC3) == 1 << SSC_B
    assert graph.lateral_and_below(N6) == graph.adjacent[N6] == 1 << N4 | 1 << N5


def test_outward_from_the_vertex_levels_never_decrease() -> None:
    """Broker 2 has no link inside its cluster; the way by cluster b would leave and come back."""
    graph = Graph([Link(1, UNIT_B, 1), Link(UNIT_B, 2, 1)])
    paths = Paths(graph, 1)
    assert paths.next_hop[UNIT_B] == UNIT_B
    assert paths.next_hop[2] == NOBODY
    assert paths.cost_ns(2) is None


def simple_paths(graph: Graph, path: list[int]) -> Iterator[tuple[int, list[int]]]:
    """Yield all simple paths that go on from one, by the recursion of the papers."""
    yield 0, path
    for other, weight in graph.near(path[-1]).items():
        if other not in path and level_of(other) >= level_of(path[-1]):
            for more, whole in simple_paths(graph, [*path, other]):
                yield weight + more, whole


def recursive(graph: Graph, source: int, without: int = 0) -> dict[int, tuple[int, list[int]]]:
    """Return the best of all simple paths to each node."""
    best: dict[int, tuple[int, list[int]]] = {}
    for weight, path in simple_paths(graph, [source]):
        if any(without >> node & 1 for node in path[1:]):
            continue
        if path[-1] not in best or weight < best[path[-1]][0]:
            best[path[-1]] = weight, path
    return best


def with_levels(graph: Graph, n: int, rng: random.Random) -> Graph:
    """Return the same edges between nodes of random levels, the source at level 0."""
    names = [0] + [64 * rng.randrange(3) + at for at in range(1, n)]
    return Graph(
        Link(names[a], names[b], edge_ns(level_of(names[a]), level_of(names[b]), 0), w % 2**56)
        for a in range(n)
        for b, w in graph.near(a).items()
        if a < b
    )


@pytest.mark.parametrize("levels", [False, True], ids=["one level", "three levels"])
def test_paths_equal_the_recursive_oracle(levels: bool) -> None:
    rng = random.Random(5)
    for _ in range(1500):
        n = rng.randrange(2, 8)
        graph = random_graph(n, rng.randrange(8), rng, buckets=rng.choice((1, 3)))
        if levels:
            graph = with_levels(graph, n, rng)
        without = rng.getrandbits(n) & ~1 if rng.random() < 0.5 else 0
        paths, oracle = Paths(graph, 0, without), recursive(graph, 0, without)
        assert paths.reached == sum(1 << node for node in oracle)
        for node, (weight, path) in oracle.items():
            assert paths.cost_ns(node) == weight >> 64
            assert paths.next_hop[node] == (path[1] if node else NOBODY)


def test_a_part_of_a_shortest_path_is_the_shortest_path_of_the_broker_there() -> None:
    """With all costs equal there are many ties, and all brokers break them alike."""
    rng = random.Random(8)
    for _ in range(50):
        n = rng.randrange(10, 40)
        graph = random_graph(n, 3 * n, rng, buckets=1)
        tables = [Paths(graph, at).next_hop for at in range(n)]
        for to in range(n):
            for at in range(n):
                there, whole = at, [at]
                while there != to:
                    there = tables[there][to]
                    whole.append(there)
                back = [to]
                while back[-1] != at:
                    back.append(tables[back[-1]][at])
                assert back == whole[::-1]


def test_all_members_build_the_same_graph_from_the_same_states() -> None:
    rng = random.Random(1)
    uids = [f"{at:032x}" for at in range(12)]
    members = dict(zip(uids, rng.sample(range(64), 12), strict=True))
    said = [
        LinkState(
            uid,
            members[uid],
            1,
            1,
            tuple(
                StateLink(other, LinkClass.NORMAL, rng.randrange(5))
                for other in uids
                if other != uid
            ),
        )
        for uid in uids
    ]
    graphs = []
    for own in uids[:3]:
        states = LinkStates(own)
        rng.shuffle(said)
        for state in said:
            states.table.take_row(state)
        graphs.append(cluster_graph(states, members, LinkClass.NORMAL))
    assert graphs[0] == graphs[1] == graphs[2]
    assert sum(mask.bit_count() for mask in graphs[0].adjacent.values()) == 12 * 11
    one, two = members[uids[0]], members[uids[1]]
    assert graphs[0].near(one)[two] == graphs[0].near(two)[one]
