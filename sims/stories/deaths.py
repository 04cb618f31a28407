"""Stories of brokers that die, alone or with their neighbours."""

from __future__ import annotations

from dataclasses import replace

from overlay.ids import Nanos, nanos
from overlay.rng import rng_for
from ring.config import LAN, ChordStrategy
from ring.facts import Confirmed, Locate, Located, Rejoining, Suspected
from ring.invariants import DeadPointers
from sims.experiments.cluster import KILL, POWER, Cluster
from sims.stories.seen import (
    PATIENCE_S,
    confirmed,
    dead_chords,
    dead_links,
    told,
)

TOLD_NS = nanos(0.1)  #: a death confirmed by one is known to all who point there after this
REPAIRED_NS = nanos(2.5)  #: the ring around one dead broker is whole after this ...
RUN_REPAIRED_NS = nanos(7.0)  #: ... and around two or three dead neighbours after this
SEARCHED_S = 7.5  #: and around five, without chords
MAX_MISSED = 0.1  #: share of searches that may be lost while a quarter of the ring is dead
MAX_DEAD_LINKS = 3  #: that may be left after six deaths


def kills(seed: int) -> list[str]:
    """One to three neighbours are killed, and their sockets close: the ring is soon repaired."""
    return _crashes(seed, run=1 + (seed - 1) % 3, power=False)


def outages(seed: int) -> list[str]:
    """A broker loses power, and its sockets stay open: the ring is soon repaired."""
    return _crashes(seed, run=1, power=True)


def runs(seed: int) -> list[str]:
    """Two or three neighbours lose power at once: the ring is soon repaired."""
    return _crashes(seed, run=2 + seed % 2, power=True)


def _crashes(seed: int, *, run: int, power: bool) -> list[str]:
    cluster = Cluster.ring_of(14, seed)
    cluster.run(3)
    dead = set(cluster.in_order[4 : 4 + run])
    for uid in sorted(dead):
        cluster.crash(uid, POWER if power else KILL)
    # Of a run that died at once, each is found out by itself: silence, and all the witnesses.
    found_out = LAN.silence_ns + 2 * LAN.witnesses * LAN.test_ns
    watch = DeadPointers(TOLD_NS if len(dead) == 1 else found_out)
    found: list[str] = []
    for step in range(200):
        cluster.run(0.02)
        if step == 150 and len(dead) == 1:
            found += dead_chords(cluster, dead)
        for at, _, fact in cluster.facts:
            if isinstance(fact, Confirmed):
                watch.confirmed(fact.subject, at)
        found += watch.findings(cluster.snapshots(), cluster.world.now)[:1]
    cluster.rest(PATIENCE_S)
    found += [f"{uid[:8]} lives and was declared dead" for uid in confirmed(cluster) - dead]
    found += told(cluster, Rejoining)
    if cluster.ledger.unrepaired:
        found.append("a crash is not repaired")
    # With a run of them the backups die as well: who held chords there learns it at a refresh.
    cluster.run(3 if len(dead) == 1 else 2 * LAN.chord_refresh_ns / 1e9)
    found += dead_chords(cluster, dead)
    found += _late(cluster, REPAIRED_NS if len(dead) == 1 else RUN_REPAIRED_NS)
    return found + cluster.ledger.findings


def _late(cluster: Cluster, at_most: Nanos) -> list[str]:
    found = []
    for row in cluster.ledger.incidents("story"):
        if row.failed_ns is not None and row.repaired_ns is not None:
            took = row.repaired_ns - row.failed_ns
            if took > at_most:
                found.append(f"a crash is repaired only after {took / 1e9:.3f} s")
    return found


def holders(seed: int) -> list[str]:
    """A broker falls silent: those with links to it are told, and give these links up.

    All but a few, over several deaths: a link younger than the last backup is in none.
    """
    kept: list[str] = []
    for story in range(6 * seed - 5, 6 * seed + 1):
        cluster = Cluster.ring_of(14, story)
        cluster.run(3)
        dead = {cluster.in_order[4]}
        cluster.crash(min(dead), POWER)
        cluster.run(10)
        kept += dead_links(cluster, dead)
    return kept if len(kept) > MAX_DEAD_LINKS else []


def testers(seed: int) -> list[str]:
    """A broker loses power while it waits for witnesses of a death: both are declared dead."""
    cluster = Cluster.ring_of(14, seed)
    cluster.run(3)
    subject = cluster.in_order[4]
    cluster.crash(subject, POWER)
    asking: list[str] = []
    while not asking and cluster.world.now < nanos(60):
        cluster.run(0.02)
        asking = [
            uid
            for uid, fact in cluster.told(Suspected)
            if isinstance(fact, Suspected) and fact.subject.uid == subject
        ]
    if not asking:
        return ["a silent broker is not missed"]
    cluster.run(LAN.test_min_ns / 2e9)
    cluster.crash(asking[0], POWER)
    cluster.rest(PATIENCE_S)
    dead = {subject, asking[0]}
    found = [f"{uid[:8]} lives and was declared dead" for uid in confirmed(cluster) - dead]
    found += [f"{uid[:8]} is dead and was not declared so" for uid in dead - confirmed(cluster)]
    found += _late(cluster, RUN_REPAIRED_NS)
    return found + told(cluster, Rejoining) + cluster.ledger.findings


def long_runs(seed: int) -> list[str]:
    """Four to seven neighbours die at once, more than a broker has to one side: it is repaired."""
    cluster = Cluster.ring_of(24, seed)
    cluster.run(30)
    dead = set(cluster.in_order[4 : 8 + seed % 4])
    for uid in sorted(dead):
        cluster.crash(uid, POWER if seed % 2 else KILL)
    cluster.rest(PATIENCE_S)
    found = [f"{uid[:8]} lives and was declared dead" for uid in confirmed(cluster) - dead]
    return found + told(cluster, Rejoining) + cluster.ledger.findings


def bare_runs(seed: int) -> list[str]:
    """Five neighbours lose power in a ring without chords: a search leads round the gap."""
    cluster = Cluster.ring_of(16, seed, replace(LAN, chords=ChordStrategy.NONE))
    cluster.run(3)
    for uid in cluster.in_order[4:9]:
        cluster.crash(uid, POWER)
    cluster.rest(SEARCHED_S)
    return told(cluster, Rejoining) + cluster.ledger.findings


def routes(seed: int) -> list[str]:
    """A quarter of the ring lost power a moment ago: searches among the living still arrive."""
    rng = rng_for(seed, "mutants", "routes")
    cluster = Cluster.ring_of(24, seed)
    cluster.run(30)
    for uid in rng.sample(cluster.in_order, 6):
        cluster.crash(uid, POWER)
    asked = set()
    for uid in cluster.alive:
        for other in rng.sample([other for other in cluster.alive if other != uid], 5):
            member = cluster.nodes[other].member
            assert member is not None
            asked.add((uid, other))
            cluster.world.give(uid, Locate(member.ring_id, other))
    cluster.run(1)
    located = [(uid, fact) for uid, fact in cluster.told(Located) if isinstance(fact, Located)]
    missed = asked - {(uid, fact.uid) for uid, fact in located if fact.reached}
    if len(missed) > MAX_MISSED * len(asked):
        return [f"{len(missed)} of {len(asked)} searches among the living did not arrive"]
    return []
