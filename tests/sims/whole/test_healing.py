"""Rings that break and heal: crashes, brokers that stand still, brokers that leave."""

from __future__ import annotations

import pytest

from overlay.rng import rng_for
from ring.config import LAN
from ring.facts import Confirmed
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
