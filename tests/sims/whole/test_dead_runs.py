"""Runs of neighbours that die at once: short ones are closed from the rows, long ones by search."""

from __future__ import annotations

from collections import Counter

import pytest

from overlay.machine import Effect, Send
from ring.facts import Rejoining
from ring.wire.messages import Route as RouteMessage
from ring.wire.messages import Towards
from sims.experiments.cluster import KILL, POWER, Cluster
from sims.world.warm import spread_evenly
from sims.world.world import CrashMode

N = 64
CALM_S = 2.5  #: how long a ring must be ideal to be at rest
MODES = pytest.mark.parametrize("mode", [KILL, POWER], ids=["kill", "power"])


def warm(n: int, seed: int) -> tuple[Cluster, Counter[type]]:
    """A ring at rest with its chords, and the count of messages it sends from then on."""
    cluster = Cluster(seed)
    cluster.start_warm(spread_evenly(n))
    cluster.run(5)
    cluster.rest()
    sent: Counter[type] = Counter()

    def count(uid: str, effect: Effect) -> None:
        # Queries for one broker, such as a chord that cannot be linked, go to the nearest.
        if isinstance(effect, Send) and isinstance(effect.message, RouteMessage):
            sent[RouteMessage] += effect.message.towards is not Towards.NEAREST

    cluster.world.on_sent = count
    cluster.facts.clear()
    return cluster, sent


def searched(sent: Counter[type]) -> int:
    return sent[RouteMessage]


@MODES
@pytest.mark.parametrize("run", [1, 2, 3])
def test_a_run_of_up_to_three_is_closed_without_a_search(run: int, mode: CrashMode) -> None:
    cluster, sent = warm(N, run)
    for uid in cluster.in_order[20 : 20 + run]:
        cluster.crash(uid, mode)
    assert cluster.rest() < 3.5 + CALM_S
    assert searched(sent) == 0
    assert cluster.told(Rejoining) == []


@MODES
@pytest.mark.parametrize("run", [5, 9, 20])
def test_a_longer_run_is_closed_by_searches_from_both_sides(run: int, mode: CrashMode) -> None:
    cluster, sent = warm(N, run)
    for uid in cluster.in_order[20 : 20 + run]:
        cluster.crash(uid, mode)
    assert cluster.rest() < 8.0 + CALM_S
    assert 0 < searched(sent) <= 2 * 6 * 6  # silent brokers cost moves, and searches are repeated
    assert cluster.told(Rejoining) == []


@pytest.mark.parametrize("run", [pytest.param(1, marks=pytest.mark.soak), 2])
@pytest.mark.parametrize("mode", [KILL, POWER])
def test_all_that_were_linked_to_the_dead_are_told(run: int, mode: CrashMode) -> None:
    cluster = Cluster(run)
    cluster.start_warm(spread_evenly(64))
    cluster.run(25)
    for at in (5, 25, 45):
        dead = cluster.in_order[at : at + run]
        peers = [cluster.nodes[uid].peer for uid in dead]
        linked = {peer.uid: set(cluster.nodes[peer.uid].linked) - set(dead) for peer in peers}
        for uid in dead:
            cluster.crash(uid, mode)
        cluster.run(4)
        for peer in peers:
            assert [u for u in linked[peer.uid] if not cluster.nodes[u].is_dead(peer)] == []
        cluster.rest()
