"""Rings that lost sight of each other: cut in parts, they go on, and become one again."""

from __future__ import annotations

import pytest

from overlay.rng import rng_for
from ring.config import LAN
from ring.facts import Alone, Confirmed, Joined, Reincarnated, Rejoining
from ring.joining.merge import Merge
from ring.wire.messages import Meet
from sims.experiments.cluster import KILL, POWER, Cluster
from sims.stories import partitions
from sims.world.cuts import OF_LINKS, Cut
from sims.world.world import CrashMode

SILENCE_S = LAN.silence_ns / 1e9
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


def is_ring(cluster: Cluster, side: list[str]) -> bool:
    """Say whether the brokers of one side are an ideal ring by themselves."""
    return not cluster.ledger.ring_findings(side)


@pytest.mark.parametrize("parts", [2, 3])
@SEEDS
def test_the_parts_of_a_ring_are_rings_and_become_one(seed: int, parts: int) -> None:
    cluster = Cluster.ring_of(18, seed)
    groups = sides(cluster, seed, parts)
    cluster.part(groups)
    cluster.run(SETTLED_S)
    assert all(is_ring(cluster, group) for group in groups)
    places = {uid: cluster.nodes[uid].member for uid in cluster.alive}
    cluster.heal()
    cluster.rest(LIMIT_S)
    assert len(cluster.in_order) == 18
    if all(len(group) > 1 for group in groups):
        assert cluster.told(Rejoining) == [], "nobody had to join again"
        for uid, member in places.items():
            now = cluster.nodes[uid].member
            assert member is not None
            assert now is not None
            assert member.ring_id == now.ring_id


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_rings_of_few_may_be_cut_anywhere(n: int) -> None:
    for seed in range(4):
        cluster = Cluster.ring_of(n, seed)
        cluster.part(sides(cluster, seed))
        cluster.run(SETTLED_S)
        cluster.heal()
        cluster.rest(LIMIT_S)
        assert len(cluster.in_order) == n


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


@pytest.mark.parametrize("share", [1, 3, 9])
def test_an_arc_that_was_cut_off_comes_back(share: int) -> None:
    cluster = Cluster.ring_of(18)
    order = cluster.in_order
    cluster.part([order[:share], order[share:]])
    cluster.run(SETTLED_S)
    cluster.heal()
    cluster.rest(LIMIT_S)
    assert len(cluster.in_order) == 18


@pytest.mark.parametrize("seconds", [0.3, SILENCE_S, 1.5, 2.0, 3.0, 5.0])
def test_a_short_cut_heals_too_whatever_each_side_knows_by_then(seconds: float) -> None:
    for seed in range(2):
        cluster = Cluster.ring_of(8, seed)
        cluster.part(sides(cluster, seed))
        cluster.run(seconds)
        cluster.heal()
        cluster.rest(LIMIT_S)
        assert len(cluster.in_order) == 8


@SEEDS
def test_who_was_cut_off_and_is_back_draws_nobody_into_it(seed: int) -> None:
    """It is back just as it holds its neighbours for dead, to which nobody bears witness."""
    assert partitions.returns(seed) == []


@SEEDS
def test_cuts_may_follow_one_another_before_the_last_has_healed(seed: int) -> None:
    cluster = Cluster.ring_of(12, seed)
    for at, (cut_s, whole_s) in enumerate([(20, 0.05), (5, 0.5), (2, 3), (20, 20)]):
        cluster.part(sides(cluster, 10 * seed + at))
        cluster.run(cut_s)
        cluster.heal()
        cluster.run(whole_s)
    cluster.rest(LIMIT_S)
    assert len(cluster.in_order) == 12


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


def test_who_was_held_for_dead_lives_on_in_a_later_life() -> None:
    cluster = Cluster.ring_of(12)
    left, right = sides(cluster, 3)
    cluster.part([left, right])
    cluster.run(SETTLED_S)
    dead = {f.subject.uid for _, f in cluster.told(Confirmed) if isinstance(f, Confirmed)}
    assert dead == {*left, *right}
    since = cluster.world.now
    cluster.heal()
    cluster.rest(LIMIT_S)
    reborn = [uid for uid, _ in cluster.told(Reincarnated, since)]
    assert reborn
    assert cluster.told(Joined, since) == []
    assert cluster.told(Confirmed, since) == []
    for uid in reborn:
        assert cluster.nodes[uid].peer.incarnation > 1


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
