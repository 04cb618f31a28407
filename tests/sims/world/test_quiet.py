"""What is left out of a quiet world changes nothing: the same seeds in a world that leaves out none.

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
from sims.scenarios.play import Outcome, play
from sims.world.network import DISTANCES, Latency
from sims.world.quiet import QuietWorld
from sims.world.warm import spread_evenly
from sims.world.world import CutMode

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
        cluster.cut(one, other, CutMode.BROKEN)
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


def _judged(cluster: Cluster) -> list[tuple[object, ...]]:
    return [
        (row.subject, row.verdict, row.failed_ns, row.repaired_ns is None)
        for row in cluster.ledger.incidents("")
    ]
