"""Rings that form: of every small size, and by joins that race or are cut short."""

from __future__ import annotations

import pytest

from ring.facts import Joined, JoinRejected
from ring.node import RingNode
from sims.experiments.cluster import KILL, POWER, Cluster
from sims.stories import joins
from sims.world.world import CrashMode

MODES = pytest.mark.parametrize("mode", [KILL, POWER], ids=["kill", "power"])
SOAK = pytest.mark.soak
SIZES = pytest.mark.parametrize(
    "n", [2, pytest.param(3, marks=SOAK), 5, pytest.param(8, marks=SOAK)]
)


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


@pytest.mark.parametrize(
    "k", [k if k in (2, 3, 4, 6, 9, 16) else pytest.param(k, marks=SOAK) for k in range(2, 17)]
)
def test_newcomers_racing_through_one_contact_form_one_ring(k: int) -> None:
    for seed in range(3):
        cluster = Cluster(seed)
        contact = cluster.found()
        cluster.run(0.5)
        for _ in range(k):
            cluster.start([contact])
        cluster.rest()
        ids = {node.member.ring_id for node in cluster.nodes.values() if node.member}
        assert len(ids) == k + 1


def test_newcomers_racing_through_all_members_form_one_ring() -> None:
    cluster = Cluster.ring_of(8)
    members = list(cluster.nodes)
    for at in range(16):
        cluster.start([members[at % 8]])
    cluster.rest()
    assert len(cluster.in_order) == 24


def test_brokers_may_start_before_the_ring_they_look_for() -> None:
    assert joins.early_starters(1) == []


def test_a_join_finds_a_seed_that_is_up_among_those_that_are_not() -> None:
    cluster = Cluster.ring_of(5)
    dead, live = cluster.in_order[1], cluster.in_order[3]
    cluster.crash(dead, POWER)
    cluster.start([dead, live])
    cluster.rest()
    assert len(cluster.in_order) == 5


@pytest.mark.soak  # a crowd that comes faster is in test_joins
def test_a_broker_joins_after_any_number_of_joins_through_one_contact() -> None:
    """By the published rule one contact finds room for some 110; all here know one address."""
    cluster = Cluster()
    contact = cluster.found()
    cluster.run(0.5)
    for _ in range(120):
        cluster.start([contact])
        cluster.run(0.1)
    cluster.rest()
    assert len(cluster.in_order) == 121
    assert cluster.told(JoinRejected) == []


# Cut short

#: Milliseconds after a join has begun; it takes some 12.
MOMENTS = (0.2, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 8, 10, 12, 15, 25)


def joining(n: int, moment_ms: float) -> tuple[Cluster, str, str]:
    """Return a ring of ``n`` into which a newcomer is on its way, its uid and its contact's."""
    cluster = Cluster.ring_of(n)
    contact = cluster.in_order[0]
    newcomer = cluster.start(cluster.in_order[:2])
    cluster.run(moment_ms / 1000)
    return cluster, newcomer, contact


def owner_of_the_gap(n: int) -> str:
    """Return who inserts the newcomer, as seen in a world like it in which nobody dies."""
    cluster, newcomer, _ = joining(n, 1000)
    order = cluster.in_order
    return order[order.index(newcomer) - 1]


@MODES
@SIZES
def test_a_newcomer_that_dies_on_its_way_leaves_no_ghost(n: int, mode: CrashMode) -> None:
    for moment in MOMENTS:
        cluster, newcomer, _ = joining(n, moment)
        cluster.crash(newcomer, mode)
        cluster.rest()
        assert newcomer not in cluster.in_order
        assert all(newcomer not in held(node) for node in living(cluster))


@MODES
@SIZES
def test_a_newcomer_joins_although_its_contact_dies(n: int, mode: CrashMode) -> None:
    for moment in MOMENTS:
        cluster, newcomer, contact = joining(n, moment)
        cluster.crash(contact, mode)
        cluster.rest()
        assert newcomer in cluster.in_order


@MODES
@SIZES
def test_a_newcomer_joins_although_the_owner_of_its_gap_dies(n: int, mode: CrashMode) -> None:
    owner = owner_of_the_gap(n)
    for moment in MOMENTS:
        cluster, newcomer, _ = joining(n, moment)
        cluster.crash(owner, mode)
        cluster.rest()
        assert newcomer in cluster.in_order


def test_a_newcomer_joins_while_its_neighbours_die_around_it() -> None:
    for moment in MOMENTS:
        cluster, newcomer, contact = joining(8, moment)
        for uid in cluster.in_order[3:6]:
            if uid not in (newcomer, contact):
                cluster.crash(uid, KILL)
        cluster.rest()
        assert newcomer in cluster.in_order
        assert len(cluster.told(Joined)) == 1


def living(cluster: Cluster) -> list[RingNode]:
    return [cluster.nodes[uid] for uid in cluster.alive]


def held(node: RingNode) -> set[str]:
    """Return whom a broker points at or is linked to."""
    return {m.uid for m in (*node.left, *node.right, *node.chords)} | node.linked.keys()
