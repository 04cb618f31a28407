"""Faults of the simulated network, and what the detector makes of them in small rings."""

from __future__ import annotations

import dataclasses
import math

import pytest

from benchmarks.bars.rings import Ring
from overlay.ids import NANOS_PER_SECOND, Nanos
from overlay.rng import rng_for
from ring.config import LAN
from ring.facts import Confirmed, LinkFailed, Suspected
from ring.wire.messages import Heartbeat
from sims.world.faults import DETECTION, Retransmissions, Traffic, dead_runs, draw_dead
from sims.world.network import DISTANCES, Latency
from sims.world.world import CrashMode

SILENCE_S = LAN.silence_ns / NANOS_PER_SECOND


def declared_dead(ring: Ring) -> set[str]:
    return {fact.subject.uid for _, _, fact in ring.facts if isinstance(fact, Confirmed)}


# The injector


@pytest.mark.parametrize(
    ("dead", "runs"),
    [("", []), ("a", [1]), ("abc", [3]), ("ah", [2]), ("abdfgh", [1, 5]), ("abcdefgh", [8])],
)
def test_runs_are_counted_round_the_ring(dead: str, runs: list[int]) -> None:
    assert sorted(dead_runs("abcdefgh", dead)) == runs


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_runs_of_at_least_k_come_as_often_as_they_should(share: float) -> None:
    """B13: n (1 - f) f^k of them."""
    n = 100_000
    ring = [str(at) for at in range(n)]
    runs = dead_runs(ring, draw_dead(ring, share, rng_for(1, "dead", share)))
    for k in (1, 2, 3):
        expected = n * (1 - share) * share**k
        assert abs(sum(run >= k for run in runs) - expected) < 4 * math.sqrt(expected)


def test_tcp_makes_of_loss_delay() -> None:
    never, often = (
        Retransmissions(DISTANCES["lan"], 1, 0.0),
        Retransmissions(DISTANCES["lan"], 1, 0.1),
    )
    calm = [never.one_way_ns("a", "b") for _ in range(1000)]
    late = [often.one_way_ns("a", "b") > 200_000_000 for _ in range(1000)]
    assert max(calm) < 1_000_000
    assert 70 < sum(late) < 130


def test_traffic_is_counted_as_it_is_framed() -> None:
    traffic = Traffic()
    traffic.add("a", Heartbeat(1))
    assert (traffic.messages["a"], traffic.kinds["Heartbeat"]) == (1, 1)
    assert traffic.bytes["a"] == 6 + len(b"\x92\xa9Heartbeat\x01")


# The detector


def test_one_monitor_hears_of_each_broker_in_each_period() -> None:
    """The whole cost of detection in a quiet ring: one message a period and broker."""
    ring = Ring(30, dataclasses.replace(LAN, chord_refresh_ns=Nanos(10**12)), 1)
    ring.run(5)
    ring.world.traffic = traffic = Traffic()
    ring.run(20)
    beats = traffic.kinds["Heartbeat"]
    assert beats == pytest.approx(30 * 20 * NANOS_PER_SECOND / LAN.heartbeat_ns, rel=0.05)
    assert traffic.messages.total() - beats < 0.3 * beats


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_run_of_dead_does_not_take_a_period_for_each(length: int) -> None:
    ring = Ring(40, LAN, 1)
    ring.run(5)
    ring.wanted = (Confirmed,)
    dead = ring.order[10 : 10 + length]
    for uid in dead:
        ring.crash(uid, CrashMode.POWER)
    ring.run(SILENCE_S + length * 3 * LAN.test_ns / NANOS_PER_SECOND)
    assert declared_dead(ring) == set(dead)


def test_a_tenth_of_all_lost_condemns_nobody() -> None:
    ring = Ring(30, LAN, 1)
    ring.run(5)
    ring.wanted = (Confirmed,)
    ring.world.loss = dict.fromkeys(DETECTION, 0.1)
    ring.run(30)
    assert declared_dead(ring) == set()


def test_but_it_does_where_nobody_is_asked() -> None:
    """So the loss is real, and the witnesses are what makes the difference."""
    ring = Ring(30, dataclasses.replace(LAN, witnesses=0), 1)
    ring.run(5)
    ring.wanted = (Confirmed,)
    ring.world.loss = dict.fromkeys(DETECTION, 0.3)
    ring.run(10)
    assert declared_dead(ring) != set()


def test_segments_sent_again_by_tcp_condemn_nobody() -> None:
    ring = Ring(30, LAN, 1, latency=Retransmissions(DISTANCES["lan"], 1, 0.1))
    ring.run(5)
    ring.wanted = (Confirmed,)
    ring.run(30)
    assert declared_dead(ring) == set()


def test_pairs_that_cannot_reach_each_other_are_no_deaths() -> None:
    """B21, at a size that takes seconds."""
    ring = Ring(60, LAN, 1)
    ring.run(5)
    ring.wanted = (Confirmed, Suspected, LinkFailed)
    ring.world.separated = 0.05
    ring.run(10)
    assert ring.kept_of(LinkFailed) != []
    assert declared_dead(ring) == set()
    assert ring.ledger.ring_findings() == []


def test_who_looks_at_the_clock_before_it_reads_accuses_nobody() -> None:
    ring = Ring(30, LAN, 1)
    ring.world.clock_first = True
    ring.run(5)
    ring.wanted = (Confirmed,)
    for at in (5, 15, 25):
        uid = ring.order[at]
        ring.world.pause(uid)
        ring.run(10)
        ring.world.resume(uid)
        ring.run(5)
    assert declared_dead(ring) == {ring.order[at] for at in (5, 15, 25)}
    assert ring.ledger.ring_findings() == []
    assert len(ring.nodes[ring.order[5]].right) == 2


def test_latencies_do_not_depend_on_the_faults() -> None:
    """Each fault has a random stream of its own."""
    plain, lossy = Latency(DISTANCES["lan"], 1), Retransmissions(DISTANCES["lan"], 1, 0.5)
    pairs = [(plain.one_way_ns("a", "b"), lossy.one_way_ns("a", "b")) for _ in range(50)]
    assert all((late - calm) % 200_000_000 == 0 for calm, late in pairs)
