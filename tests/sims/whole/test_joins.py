"""Joins in a simulated ring: through one contact, into one gap, with deaths, and without room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.bars.deaths import deaths, survive
from overlay.ids import NANOS_PER_SECOND
from ring import geometry
from ring.config import LAN
from ring.facts import Joined, JoinRejected
from ring.geometry import gap
from sims.experiments.cluster import KILL, POWER, Cluster


def ids_of(cluster: Cluster) -> list[int]:
    """Return the ring ids of the living, in order."""
    return sorted(m.ring_id for uid in cluster.alive if (m := cluster.nodes[uid].member))


# Small rings


@pytest.mark.parametrize("n", range(1, 9))
def test_a_ring_of_few_has_exact_pointers(n: int) -> None:
    cluster = Cluster.ring_of(n)
    assert cluster.findings() == []
    order = cluster.in_order
    assert len(order) == n
    for at, uid in enumerate(order):
        node = cluster.nodes[uid]
        reach = min(2, n - 1)
        assert [m.uid for m in node.right] == [order[(at + k) % n] for k in range(1, reach + 1)]
        assert [m.uid for m in node.left] == [order[at - k] for k in range(1, reach + 1)]


def test_a_ring_shrinks_to_one_and_grows_back() -> None:
    cluster = Cluster.ring_of(24)
    while len(cluster.alive) > 1:
        for uid in cluster.in_order[1::3] or cluster.in_order[1:]:
            cluster.crash(uid, POWER)
        cluster.rest()
    [last] = cluster.alive
    while len(cluster.alive) < 24:
        cluster.start([last])
        cluster.run(0.1)
    cluster.rest()
    assert len(cluster.in_order) == 24


# Crowds and races


def test_a_crowd_through_one_contact_spreads_over_the_ring() -> None:
    """By the published rule there is room for some 110 around one contact."""
    cluster = Cluster()
    first = cluster.found()
    cluster.run(1)
    for _ in range(120):
        cluster.start([first])
        cluster.run(0.03)
    assert cluster.rest() < 30
    ids = ids_of(cluster)
    assert len(set(ids)) == 121
    widths = [gap(a, b) for a, b in zip(ids, [*ids[1:], ids[0]], strict=True)]
    assert max(widths) <= 2**12 * min(widths)
    assert cluster.told(JoinRejected) == []


@pytest.mark.parametrize(
    "racers", [2, 3, 16, *(pytest.param(n, marks=pytest.mark.soak) for n in (5, 9, 40))]
)
@pytest.mark.parametrize("n", [1, 2, 6])
def test_newcomers_racing_for_one_gap_all_get_a_place(racers: int, n: int) -> None:
    cluster = Cluster.ring_of(n)
    [contact, *_] = cluster.alive
    for _ in range(racers):
        cluster.start([contact])
    assert cluster.rest() < 30
    assert len(set(ids_of(cluster))) == n + racers


def test_an_id_kept_for_a_slow_newcomer_is_given_to_nobody_else() -> None:
    """It stands still with its id in hand, while others take places on both sides of it."""
    cluster = Cluster.ring_of(8)
    seeds = cluster.alive
    slow = seeds[0]
    while (node := cluster.nodes[slow])._core.ring_id is None or node.member is not None:
        if node.member is not None:  # it was quick: its neighbours were linked already
            slow = cluster.start(seeds)
        cluster.run(0.0001)
    kept = cluster.nodes[slow]._core.ring_id
    cluster.pause(slow)
    others = [cluster.start(seeds) for _ in range(24)]
    cluster.run(3.0)
    taken = ids_of(cluster)
    assert len(others) == len([uid for uid in others if cluster.nodes[uid].member])
    assert kept not in taken
    cluster.resume(slow)
    cluster.rest()
    assert len(set(ids_of(cluster))) == len(taken) + 1
    assert cluster.nodes[slow]._core.ring_id == kept


# Deaths


@pytest.mark.parametrize(
    ("n", "seed", "every"),
    [
        (1, 1, 1),
        (2, 2, 3),
        (3, 3, 7),
        (4, 4, 13),
        pytest.param(9, 9, 61, marks=pytest.mark.soak),
        pytest.param(2, 2, 1, marks=pytest.mark.soak),
        pytest.param(3, 3, 1, marks=pytest.mark.soak),
        pytest.param(4, 4, 5, marks=pytest.mark.soak),
        pytest.param(5, 5, 7, marks=pytest.mark.soak),
        pytest.param(9, 9, 23, marks=pytest.mark.soak),
    ],
)
def test_whoever_dies_during_a_join_and_whenever_the_ring_is_whole_afterwards(
    n: int, seed: int, every: int
) -> None:
    outcomes = [survive(death, uid) for death, uid in deaths(n, seed, every)]
    assert len(outcomes) >= 30
    assert [wrong for wrong in outcomes if wrong is not None] == []


# No room


def test_a_full_ring_refuses_clearly_and_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A circle of 64 ids, every one taken; then four are free again, and are found."""
    monkeypatch.setattr(geometry, "RING_SIZE", 64)
    cluster = Cluster()
    ring = cluster.start_warm(range(64))
    cluster.run(16)
    assert cluster.findings() == []
    late = cluster.start(cluster.alive[:3])
    cluster.run(5)
    [(who, rejected)] = cluster.told(JoinRejected)
    assert who == late
    assert isinstance(rejected, JoinRejected)
    assert "full" in rejected.reason
    assert cluster.nodes[late].member is None
    cluster.world.crash(late, KILL)
    for uid in ring[5::16]:
        cluster.crash(uid, KILL)
    cluster.rest()
    for _ in range(4):
        cluster.start(cluster.alive[:3])
        cluster.rest()
    assert ids_of(cluster) == list(range(64))


def test_a_crowd_of_adjacent_ids_keeps_nobody_out() -> None:
    """All ids around every contact are taken; the rest of the circle is free."""
    cluster = Cluster(config=replace(LAN, join_hops=16))
    ring = cluster.start_warm(range(1000, 1100))
    cluster.run(16)
    assert cluster.findings() == []
    for _ in range(10):
        cluster.start(ring[50:53])
    assert cluster.rest() < 30
    assert len(set(ids_of(cluster))) == 110
    assert cluster.told(JoinRejected) == []


# Proximity


def test_the_contact_is_among_the_nearest_by_round_trip_time() -> None:
    """Section 3.3; a newcomer measures the way to eight members and draws among the best three."""
    cluster = Cluster.ring_of(40)
    seeds = cluster.alive
    for _ in range(20):
        uid = cluster.start(seeds[:1])
        newcomer = cluster.nodes[uid].parts.newcomer
        measured: dict[str, int] = {}
        while cluster.nodes[uid].member is None:
            cluster.run(0.0002)
            for other, candidate in newcomer._candidates.items():
                if candidate.round_trip_ns is not None:
                    measured[other] = candidate.round_trip_ns
        assert newcomer.contact in sorted(measured, key=measured.__getitem__)[: LAN.closest]
        joined = [f for who, f in cluster.told(Joined) if who == uid and isinstance(f, Joined)]
        assert joined[0].round_trip_ns == measured[newcomer.contact or ""]
        assert measured[newcomer.contact or ""] < LAN.measure_ns < NANOS_PER_SECOND * 2
