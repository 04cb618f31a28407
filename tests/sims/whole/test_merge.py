"""Rings that lost sight of each other: cut in parts, they go on, and become one again."""

from __future__ import annotations

import pytest

from overlay.rng import rng_for
from ring.facts import Alone, Confirmed, Reincarnated, Rejoining
from ring.joining.merge import Merge
from ring.wire.messages import Meet
from sims.experiments.cluster import KILL, POWER, Cluster
from sims.world.cuts import OF_LINKS, Cut
from sims.world.world import CrashMode

SETTLED_S = 30.0  #: time for each side to become a ring
LIMIT_S = 200.0  #: small rings knock rarely
SEEDS = pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (2, 3))]
)


def sides(cluster: Cluster, seed: int, count: int = 2) -> list[list[str]]:
    """Let each broker fall on a side by chance; no side is empty."""
    rng = rng_for(seed, "sides")
    while True:
        groups: list[list[str]] = [[] for _ in range(count)]
        for uid in cluster.alive:
            groups[rng.randrange(count)].append(uid)
        if all(groups):
            return groups


@pytest.mark.parametrize("mode", OF_LINKS)
@pytest.mark.parametrize("seconds", [0.3, 1.0])
def test_two_that_lose_sight_of_each_other_for_a_moment_wait(seconds: float, mode: Cut) -> None:
    cluster = Cluster.ring_of(2)
    a, b = cluster.alive
    cluster.cut(a, b, mode)
    cluster.run(seconds)
    cluster.mend(a, b)
    cluster.rest(LIMIT_S)
    assert cluster.told(Confirmed) == []


@pytest.mark.parametrize("mode", OF_LINKS)
@pytest.mark.parametrize("seconds", [4.5, 7.0, 40.0])
def test_two_that_went_on_alone_meet_where_they_are(seconds: float, mode: Cut) -> None:
    for seed in range(3):
        cluster = Cluster.ring_of(2, seed)
        a, b = cluster.alive
        cluster.cut(a, b, mode)
        cluster.run(seconds)
        assert {uid for uid, _ in cluster.told(Alone)} == {a, b}
        cluster.mend(a, b)
        cluster.rest(LIMIT_S)
        assert cluster.told(Rejoining) == []
        assert len(cluster.in_order) == 2


@pytest.mark.parametrize("mode", [KILL, POWER], ids=["kill", "power"])
@SEEDS
def test_rings_merge_while_brokers_come_and_go(seed: int, mode: CrashMode) -> None:
    cluster = Cluster.ring_of(18, seed)
    cluster.part(sides(cluster, seed))
    cluster.run(SETTLED_S)
    cluster.heal()
    rng = rng_for(seed, "churn")
    for _ in range(4):
        cluster.run(rng.uniform(0, 1.0))
        cluster.crash(rng.choice(cluster.alive), mode)
        cluster.start(rng.sample(cluster.alive, 3))
    cluster.rest(LIMIT_S)
    assert len(cluster.in_order) == 18


@SEEDS
def test_brokers_that_have_one_id_are_told_apart(seed: int) -> None:
    """Two rings that formed apart have many ids in common: the larger uid of each pair rejoins."""
    cluster = Cluster(seed)
    founders = [cluster.found(), cluster.found()]
    for founder in founders:
        for _ in range(5):
            cluster.run(0.5)
            cluster.start([founder])
    cluster.run(5)
    holders: dict[int, list[str]] = {}
    for uid in cluster.alive:
        member = cluster.nodes[uid].member
        assert member is not None
        holders.setdefault(member.ring_id, []).append(uid)
    larger = {max(uids) for uids in holders.values() if len(uids) > 1}
    assert len(larger) >= 2, "the scenario: there are clashes"
    cluster.start(founders)
    cluster.rest(600)
    assert len({node.member.ring_id for node in cluster.nodes.values() if node.member}) == 13
    first = {uid for uid, f in cluster.told(Rejoining) if isinstance(f, Rejoining)}
    assert larger <= first
    assert len(cluster.told(Rejoining)) <= len(larger) + 2


def test_a_one_way_cut_heals() -> None:
    cluster = Cluster.ring_of(12)
    left, right = sides(cluster, 5)
    for uid in left:
        for other in right:
            cluster.cut(uid, other, one_way=True)
    cluster.run(SETTLED_S)
    for uid in left:
        for other in right:
            cluster.mend(uid, other)
    cluster.rest(LIMIT_S)
    assert len(cluster.in_order) == 12


@pytest.mark.parametrize("n", [14, pytest.param(24, marks=pytest.mark.soak)])
def test_a_false_alarm_costs_little(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    """All knock at seeds that are in their own ring: one short route each, and each seed once."""
    asked: list[Meet] = []

    def counted(merge: Merge, uid: str, meet: Meet) -> None:
        asked.append(meet)
        on_meet(merge, uid, meet)

    on_meet = Merge.on_meet
    monkeypatch.setattr(Merge, "on_meet", counted)
    cluster = Cluster.ring_of(n)
    cluster.run(600)
    knocks = sum(meet.hops == 0 for meet in asked)
    seeds = sum(range(n))  # each broker was told of all that were there before it
    assert n <= knocks <= seeds
    assert len(asked) <= 4 * knocks
    assert cluster.told(Reincarnated) == []
    asked.clear()
    cluster.run(200)
    assert len(asked) < n
