"""Chords make routes short: greedy by ring id, over links as both ends see them."""

from __future__ import annotations

from math import ceil, log2

import pytest

from overlay.rng import rng_for
from ring.config import LAN
from ring.geometry import clockwise
from sims.experiments.cluster import POWER, Cluster


@pytest.fixture(scope="module", params=[64, pytest.param(128, marks=pytest.mark.soak)])
def ring(request: pytest.FixtureRequest) -> Cluster:
    cluster = Cluster.ring_of(request.param)
    settle(cluster, 2)
    return cluster


def settle(cluster: Cluster, refreshes: float) -> None:
    """Let all chords be found anew, some times."""
    cluster.run(refreshes * LAN.chord_refresh_ns / 1e9)


def hops(cluster: Cluster, start: str, goal: str) -> int | None:
    """Return the length of the greedy route, or None if it gets stuck."""
    places = {uid: node.member.ring_id for uid, node in cluster.nodes.items() if node.member}

    def distance(uid: str) -> int:
        a, b = places[uid], places[goal]
        return min(clockwise(a, b), clockwise(b, a))

    here, count = start, 0
    while here != goal:
        ahead = min(cluster.nodes[here].linked, key=distance)
        if distance(ahead) >= distance(here):
            return None
        here, count = ahead, count + 1
    return count


def routes(cluster: Cluster) -> list[int | None]:
    rng = rng_for(1, "routes")
    return [hops(cluster, *rng.sample(cluster.alive, 2)) for _ in range(500)]


def test_greedy_routes_reach_everybody_in_about_twice_log_n_hops(ring: Cluster) -> None:
    n = len(ring.alive)
    found = [hops for hops in routes(ring) if hops is not None]
    assert len(found) == 500
    assert max(found) <= 2 * log2(n)
    assert sum(found) / 500 <= log2(n)


def test_the_degree_is_logarithmic(ring: Cluster) -> None:
    degrees = [len(ring.nodes[uid].linked) for uid in ring.alive]
    assert sum(degrees) / len(degrees) <= 2 * log2(len(degrees)) + 4


@pytest.mark.parametrize("n", [4, 5, 24, 32])
def test_levels_double_in_rank(n: int) -> None:
    """Level j leads about 2^(j+1) brokers to the right, whatever the ids are.

    About: a chord stays while its rank is within a tolerance, from three quarters to one and a
    half, and ranks are counted by distance where ids are as uneven as joins make them.
    """
    cluster = Cluster.ring_of(n)
    settle(cluster, 12)
    order = cluster.in_order
    for at, uid in enumerate(order):
        ranks = [(order.index(m.uid) - at) % n for m in cluster.nodes[uid].chords]
        assert ranks[0] == 2
        for level, rank in enumerate(ranks):
            assert 0.5 <= rank / 2 ** (level + 1) <= 2, ranks
        assert abs(len(ranks) - (ceil(log2(n)) - 1)) <= 1


def test_routes_are_short_again_after_a_third_has_died() -> None:
    n = 32
    cluster = Cluster.ring_of(n, seed=2)
    for uid in rng_for(2, "dead").sample(cluster.in_order, n // 3):
        cluster.crash(uid, POWER)
    cluster.rest()
    settle(cluster, 2)
    found = [hops for hops in routes(cluster) if hops is not None]
    assert len(found) == 500
    assert max(found) <= 2 * log2(n)
