"""Searches over a ring: they reach whom they ask for, also while many are dead."""

from __future__ import annotations

from itertools import pairwise
from math import log2

import pytest

from overlay.rng import rng_for
from ring.config import LAN
from ring.facts import Locate, Located
from ring.geometry import RING_SIZE, clockwise
from sims.experiments.cluster import POWER, Cluster

#: Brokers in the ring. The bounds that the tests check depend on it.
SIZES = pytest.mark.parametrize("n", [32, pytest.param(64, marks=pytest.mark.soak)])
REFRESH_S = LAN.chord_refresh_ns / 1e9


def settled(n: int, seed: int) -> Cluster:
    cluster = Cluster.ring_of(n, seed)
    cluster.run(12 * REFRESH_S)  # chords stay as they are now
    return cluster


def place(cluster: Cluster, uid: str) -> int:
    return next(m.ring_id for m in [cluster.nodes[uid].member] if m)


def search(cluster: Cluster, start: str, target: int, uid: str | None, wait_s: float) -> Located:
    """Let ``start`` search, and return what it found."""
    since = cluster.world.now
    cluster.world.give(start, Locate(target, uid))
    cluster.run(wait_s)
    [(teller, fact)] = cluster.told(Located, since)
    assert isinstance(fact, Located)
    assert teller == start
    return fact


@SIZES
def test_everybody_reaches_everybody_by_uid_in_logarithmic_time(n: int) -> None:
    cluster = settled(n, 1)
    rng = rng_for(1, "pairs")
    hops = []
    for _ in range(200):
        start, goal = rng.sample(cluster.alive, 2)
        found = search(cluster, start, place(cluster, goal), goal, 0.05)
        assert found.reached
        assert found.member == cluster.nodes[goal].member
        assert (found.path[0], found.path[-1]) == (start, goal)
        assert found.hops == len(found.path) - 1
        assert all(b in cluster.nodes[a].linked for a, b in pairwise(found.path))
        hops.append(found.hops)
    assert max(hops) <= 1.5 * log2(n)
    assert sum(hops) / len(hops) <= 0.6 * log2(n)


@SIZES
def test_any_id_is_reached_at_the_nearest_broker(n: int) -> None:
    cluster = settled(n, 2)
    rng = rng_for(2, "ids")
    places = {uid: place(cluster, uid) for uid in cluster.alive}
    for _ in range(100):
        target, start = rng.randrange(RING_SIZE), rng.choice(cluster.alive)
        found = search(cluster, start, target, None, 0.05)
        away = {
            uid: min(clockwise(target, at), clockwise(at, target)) for uid, at in places.items()
        }
        assert found.reached
        assert found.member is not None
        assert away[found.member.uid] == min(away.values())


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_small_rings_are_searched_too(n: int) -> None:
    cluster = Cluster.ring_of(n)
    for start in cluster.alive:
        for goal in cluster.alive:
            found = search(cluster, start, place(cluster, goal), goal, 0.05)
            assert found.reached
            assert found.path[-1] == goal


@SIZES
def test_who_is_not_on_the_ring_is_not_reached(n: int) -> None:
    cluster = settled(n, 1)
    goal = cluster.in_order[n // 2 - 2]
    at = place(cluster, goal)
    cluster.crash(goal, POWER)
    cluster.rest()
    found = search(cluster, cluster.in_order[3], at, goal, 10)
    assert not found.reached
    assert found.member is not None
    assert found.member.uid != goal
