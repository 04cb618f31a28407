"""What is left out of a quiet world changes nothing: the same seeds in one that leaves out none.

The world that leaves out none draws the jitter of its messages by key as well, so that the same
message takes the same time in both.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator

import pytest

from overlay.errors import ConfigError
from overlay.ids import nanos
from overlay.machine import Send
from overlay.rng import rng_for
from overlay.trace_schema import Incident
from sims.experiments.cluster import KILL, POWER, Cluster
from sims.scenarios import library
from sims.scenarios.files import parse
from sims.scenarios.forming import is_quiet
from sims.scenarios.play import Outcome, play
from sims.world.cuts import Cut
from sims.world.network import DISTANCES, Latency
from sims.world.quiet import QuietWorld
from sims.world.warm import spread_evenly

VERBS = ("kill", "power", "start", "start", "leave", "pause", "silence", "cut", "skew")


def churned(
    seed: int, nodes: int, *, quiet: bool, answers: bool = True, seconds: float = 40
) -> tuple[Cluster, Counter[tuple[str, str]]]:
    """Return a ring to which a little of everything was done, and what each broker has sent."""
    latency = Latency(DISTANCES["lan"], seed)
    cluster = Cluster(seed, latency=latency, quiet=quiet)
    world, sent = cluster.world, Counter[tuple[str, str]]()
    told = world.on_sent

    def count(uid: str, effect: object) -> None:
        if isinstance(effect, Send):
            told(uid, effect)
            sent[uid, type(effect.message).__name__] += 1

    world.on_sent = count
    if isinstance(world, QuietWorld):
        world.answers.is_used = answers
        world.count()
    else:
        latency.draw_by_key(world)
    cluster.start_warm(spread_evenly(nodes))
    cluster.run(10)
    rng = rng_for(seed, "churned")
    end = world.now + nanos(seconds)
    while world.now < end:
        cluster.run(rng.expovariate(0.2))
        _do(cluster, rng.choice(VERBS), rng.random(), nodes)
    cluster.run(20)
    if isinstance(world, QuietWorld):
        world.catch_up_all()
    return cluster, sent


def _do(cluster: Cluster, verb: str, drawn: float, nodes: int) -> None:
    alive = cluster.alive
    one, other = alive[int(drawn * len(alive))], alive[int(drawn * 7 * len(alive)) % len(alive)]
    if verb in ("kill", "power", "leave"):
        if len(alive) <= nodes // 2:
            return
        if verb == "leave":
            cluster.leave(one)
        else:
            cluster.crash(one, KILL if verb == "kill" else POWER)
    elif verb == "start":
        cluster.start([one, other])
    elif verb == "pause":
        cluster.pause(one)
        cluster.run(4 * drawn)
        cluster.resume(one)
    elif verb == "skew":
        cluster.world.skew(one, 1.02)
    elif one != other and verb == "silence":
        cluster.world.silence(one, other)
    elif one != other:
        cluster.cut(one, other, Cut.BROKEN)
        cluster.run(3)
        cluster.mend(one, other)


def states(cluster: Cluster) -> Iterator[object]:
    """Yield what heartbeats change at each broker that lives, and what it has drawn so far."""
    for uid in cluster.alive:
        parts = cluster.nodes[uid].parts
        yield uid, parts.core.rng.getstate(), dict(parts.core.told)
        for other, link in parts.links.up.items():
            watch = parts.detector.watch_of(other)
            measured = (
                None
                if watch is None
                else (watch.lateness.mean, watch.lateness.deviation, watch.round_trip.mean)
            )
            yield other, link.since, link.heard_at, measured


def _same_without_heartbeats(seed: int, nodes: int) -> None:
    loud, sent = churned(seed, nodes, quiet=False)
    quiet, counted = churned(seed, nodes, quiet=True, answers=False)
    assert quiet.facts == loud.facts
    assert quiet.ledger.incidents("") == loud.ledger.incidents("")
    assert list(states(quiet)) == list(states(loud))
    assert counted == sent
    assert quiet.world.events < loud.world.events


@pytest.mark.parametrize(("seed", "nodes"), [(1, 5), (2, 9), (3, 16), (4, 24)])
def test_without_heartbeats_all_is_the_same_to_the_bit(seed: int, nodes: int) -> None:
    _same_without_heartbeats(seed, nodes)


@pytest.mark.soak
@pytest.mark.parametrize("nodes", [3, 5, 9, 16, 33])
def test_without_heartbeats_all_is_the_same_with_many_seeds(nodes: int) -> None:
    for seed in range(100, 120):
        _same_without_heartbeats(seed, nodes)


# ── with pings and questions to chords answered at once ───────────────────────────────────────


def _compared(seeds: range, nodes: int) -> tuple[int, list[tuple[Incident, Incident]]]:
    """Return how many seeds gave the same incidents to the bit, and the pairs of all others."""
    same, pairs = 0, []
    for seed in seeds:
        loud, _ = churned(seed, nodes, quiet=False)
        quiet, _ = churned(seed, nodes, quiet=True)
        mine, theirs = quiet.ledger.incidents(""), loud.ledger.incidents("")
        if mine == theirs:
            same += 1
        else:
            pairs += list(zip(mine, theirs, strict=True))
    return same, pairs


def _hold_alike(pairs: list[tuple[Incident, Incident]]) -> None:
    """The same brokers fail at the same time, with the same verdict."""
    for mine, theirs in pairs:
        assert mine.incident_id == theirs.incident_id
        assert (mine.failed_ns, mine.verdict) == (theirs.failed_ns, theirs.verdict)
        assert (mine.repaired_ns is None) == (theirs.repaired_ns is None)


@pytest.mark.parametrize("nodes", [9, 16])
def test_incidents_are_those_of_a_world_that_leaves_out_nothing(nodes: int) -> None:
    same, pairs = _compared(range(1, 4), nodes)
    _hold_alike(pairs)
    assert same >= 2


@pytest.mark.soak
@pytest.mark.parametrize("nodes", [9, 24])
def test_incidents_are_those_of_a_world_that_leaves_out_nothing_with_many_seeds(nodes: int) -> None:
    same, pairs = _compared(range(500, 525), nodes)
    _hold_alike(pairs)
    assert same >= 20
    late = [
        abs(mine.repaired_ns - theirs.repaired_ns)
        for mine, theirs in pairs
        if mine.repaired_ns is not None and theirs.repaired_ns is not None
    ]
    assert not late or statistics.median(late) < nanos(0.05)


# ── as a scenario ─────────────────────────────────────────────────────────────────────────────


def played(name: str, *changes: str) -> Outcome:
    file = library.find(name, ())
    return play(file.name, parse(file, changes), 5, file.folder)


def test_a_quiet_scenario_keeps_its_promises_with_half_of_the_events() -> None:
    changes = ("nodes=40", "seconds=40", "churn.0.mean_s=300")
    quiet = played("churn-exponential", *changes, "quiet=true")
    loud = played("churn-exponential", *changes, "quiet=false")
    assert not quiet.broken
    assert quiet.done == loud.done
    assert quiet.result.events < loud.result.events / 2


def test_a_partition_of_a_quiet_ring_heals() -> None:
    assert not played("partition-and-merge", "nodes=24", "quiet=true").broken


@pytest.mark.parametrize(
    "change",
    ['mode="whole"', "network.loss=0.01", "network.mbit_s=10"],
    ids=["whole", "loss", "mbit"],
)
def test_what_cannot_be_quiet_is_refused_if_it_is_to_be(change: str) -> None:
    with pytest.raises(ConfigError, match="quiet = true makes no sense here"):
        played("crash", change, "quiet=true")


def test_large_rings_are_quiet_where_they_can_be() -> None:
    file = library.find("crash", ())
    assert is_quiet(parse(file, ("nodes=2000",)))
    assert not is_quiet(parse(file, ("nodes=1999",)))
    assert not is_quiet(parse(file, ("nodes=2000", "network.loss=0.1")))
    assert not is_quiet(parse(file, ("nodes=2000", "quiet=false")))
