"""Rings that break and heal: crashes, brokers that stand still, brokers that leave."""

from __future__ import annotations

import pytest

from overlay.rng import rng_for
from ring.config import LAN
from ring.facts import Alone, Confirmed, Departed, Rejoining, Suspected
from sims.experiments.cluster import KILL, POWER, Cluster
from sims.world.world import CrashMode

MODES = pytest.mark.parametrize("mode", [KILL, POWER], ids=["kill", "power"])
SEEDS = pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (2, 3))]
)
SILENCE_S = LAN.silence_ns / 1e9
CALM_S = 2 * SILENCE_S  #: a ring at rest is watched for that long


def declared_dead(cluster: Cluster) -> set[str]:
    """Return the uids of all that somebody held for dead."""
    return {f.subject.uid for _, f in cluster.told(Confirmed) if isinstance(f, Confirmed)}


# Crashes


@MODES
@pytest.mark.parametrize("run", [1, 2, 3, 5])
@SEEDS
def test_a_run_of_neighbours_that_die_at_once_is_closed(
    run: int, mode: CrashMode, seed: int
) -> None:
    cluster = Cluster.ring_of(24, seed)
    dead = cluster.in_order[5 : 5 + run]
    for uid in dead:
        cluster.crash(uid, mode)
    cluster.rest()
    assert len(cluster.in_order) == 24 - run
    assert {dead[0], dead[-1]} <= declared_dead(cluster) <= set(dead)
    assert cluster.ledger.unrepaired == 0
    assert cluster.told(Rejoining) == []


@SEEDS
def test_a_killed_broker_is_repaired_within_a_few_round_trips(seed: int) -> None:
    cluster = Cluster.ring_of(24, seed)
    cluster.crash(cluster.in_order[7], KILL)
    assert cluster.rest() == pytest.approx(CALM_S, abs=0.5)
    [row] = cluster.ledger.incidents("run")
    assert row.failed_ns is not None
    assert row.repaired_ns is not None
    assert row.repaired_ns - row.failed_ns < 20_000_000


@SEEDS
def test_a_silent_death_is_repaired_in_the_time_of_silence_and_test(seed: int) -> None:
    cluster = Cluster.ring_of(24, seed)
    cluster.crash(cluster.in_order[7], POWER)
    cluster.rest()
    [row] = cluster.ledger.incidents("run")
    assert row.failed_ns is not None
    assert row.repaired_ns is not None
    taken = row.repaired_ns - row.failed_ns
    assert LAN.silence_ns - LAN.heartbeat_ns < taken < LAN.silence_ns + LAN.test_ns + 50_000_000


@MODES
@SEEDS
def test_the_half_that_is_left_is_one_ring(mode: CrashMode, seed: int) -> None:
    cluster = Cluster.ring_of(24, seed)
    dead = rng_for(seed, "dead").sample(cluster.in_order, 12)
    for uid in dead:
        cluster.crash(uid, mode)
    cluster.rest()
    assert len(cluster.in_order) == 12
    assert declared_dead(cluster) <= set(dead)


@MODES
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_rings_of_few_survive_each_of_their_brokers(n: int, mode: CrashMode) -> None:
    for at in range(n):
        cluster = Cluster.ring_of(n)
        cluster.crash(cluster.in_order[at], mode)
        cluster.rest()
        assert len(cluster.in_order) == n - 1


def test_brokers_may_die_one_after_the_other_until_one_is_left() -> None:
    cluster = Cluster.ring_of(12)
    while len(cluster.alive) > 1:
        cluster.crash(cluster.in_order[len(cluster.alive) // 2], POWER)
        cluster.rest()
    assert len(cluster.told(Alone)) == 1


@MODES
def test_a_broker_that_restarts_before_anybody_notices_is_back(mode: CrashMode) -> None:
    for after in (0, 0.0002, 0.001, 0.01, 0.5, 1.0):
        cluster = Cluster.ring_of(8)
        uid = cluster.in_order[3]
        cluster.crash(uid, mode)
        cluster.run(after)
        cluster.restart(uid, cluster.alive[:3])
        cluster.rest()
        assert len(cluster.in_order) == 8
        assert cluster.nodes[uid].peer.incarnation >= 2


# Standing still


@pytest.mark.parametrize("pause_s", [2 * SILENCE_S, 30.0, 300.0])
@pytest.mark.parametrize("n", [2, 3, 5, 12])
def test_who_stood_still_too_long_comes_back_under_the_same_uid(n: int, pause_s: float) -> None:
    cluster = Cluster.ring_of(n)
    uid = cluster.in_order[n // 2]
    cluster.pause(uid)
    cluster.run(pause_s + (LAN.alone_ns / 1e9 if n == 2 else 0))
    assert declared_dead(cluster) == {uid}
    cluster.resume(uid)
    cluster.rest()
    assert declared_dead(cluster) == {uid}, "it accused nobody when it woke"
    assert len(cluster.in_order) == n
    life = cluster.nodes[uid].peer.incarnation
    assert life == (2 if n > 2 else 1), "of two, one alone is no witness: both stay who they are"


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("n", [2, 3, 12])
def test_who_stood_still_shortly_is_not_missed_and_accuses_nobody(n: int, share: float) -> None:
    cluster = Cluster.ring_of(n)
    uid = cluster.in_order[0]
    for _ in range(5):
        cluster.pause(uid)
        cluster.run(share * SILENCE_S)
        cluster.resume(uid)
        cluster.run(2 * SILENCE_S)
    assert cluster.findings() == []
    assert cluster.told(Suspected) == []


@pytest.mark.parametrize("pause_s", [2 * SILENCE_S, 3600.0])
def test_a_whole_ring_that_stood_still_goes_on_as_if_nothing_had_been(pause_s: float) -> None:
    """As when the one machine they all run on is suspended."""
    cluster = Cluster.ring_of(12)
    for uid in cluster.alive:
        cluster.pause(uid)
    cluster.run(pause_s)
    for uid in cluster.alive:
        cluster.resume(uid)
    cluster.rest()
    assert declared_dead(cluster) == set()
    assert cluster.told(Rejoining) == []
    cluster.crash(cluster.in_order[5], POWER)
    assert cluster.rest() < CALM_S + 2 * SILENCE_S, "and it is as watchful as before"


def test_half_of_a_ring_that_stood_still_comes_back() -> None:
    cluster = Cluster.ring_of(12)
    still = cluster.in_order[::2]
    for uid in still:
        cluster.pause(uid)
    cluster.run(10)
    for uid in still:
        cluster.resume(uid)
    cluster.rest()
    assert len(cluster.in_order) == 12
    assert declared_dead(cluster) == set(still)


# Leaving


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 12])
def test_nobody_is_suspected_when_a_broker_leaves(n: int) -> None:
    cluster = Cluster.ring_of(n)
    uid = cluster.in_order[n // 2]
    cluster.leave(uid)
    cluster.rest()
    assert len(cluster.in_order) == n - 1
    assert cluster.told(Suspected) == []
    assert {f.member.uid for _, f in cluster.told(Departed) if isinstance(f, Departed)} == {uid}


def test_neighbours_may_leave_together() -> None:
    cluster = Cluster.ring_of(12)
    for uid in cluster.in_order[4:8]:
        cluster.leave(uid)
    cluster.rest()
    assert len(cluster.in_order) == 8
    assert cluster.told(Suspected) == []


# Alone


@MODES
@pytest.mark.parametrize("n", [2, 3, 8])
def test_who_is_alone_goes_on_as_a_ring_of_one(n: int, mode: CrashMode) -> None:
    cluster = lone(n, mode)
    assert cluster.findings() == []
    assert len(cluster.told(Alone)) == 1


@MODES
@pytest.mark.parametrize("n", [2, 3, 8])
@pytest.mark.parametrize("how", ["through the lone one", "through each other", "as a new ring"])
def test_the_lone_one_and_those_that_restart_are_one_ring_again(
    n: int, mode: CrashMode, how: str
) -> None:
    cluster = lone(n, mode)
    [survivor] = cluster.alive
    dead = [uid for uid in cluster.nodes if uid != survivor]
    for at, uid in enumerate(dead):
        if how == "as a new ring" and at == 0:
            cluster.restart(uid, [])
        elif how == "through the lone one":
            cluster.restart(uid, [survivor])
        else:
            cluster.restart(uid, [other for other in dead if other != uid])
    cluster.rest(limit_s=200)
    assert len(cluster.in_order) == n


def lone(n: int, mode: CrashMode) -> Cluster:
    """A ring of ``n`` of which all have died but one."""
    cluster = Cluster.ring_of(n)
    for uid in cluster.in_order[1:]:
        cluster.crash(uid, mode)
    cluster.rest()
    return cluster


def test_two_small_rings_that_hear_of_each_other_become_one() -> None:
    cluster = Cluster()
    first, second = cluster.found(), cluster.found()
    cluster.run(0.5)
    for contacts in ([first], [second], [first], [second, first]):
        cluster.start(contacts)
        cluster.run(0.5)
    cluster.rest(limit_s=600)
    assert len(cluster.in_order) == 6
