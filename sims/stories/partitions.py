"""Stories of rings that lose sight of each other, and merge."""

from __future__ import annotations

from overlay.rng import rng_for
from ring.facts import Alone, Confirmed, Rejoining
from sims.experiments.cluster import Cluster
from sims.stories.seen import MERGE_S, told

APART_S = 30.0  #: time for each side to become a ring


def partitions(seed: int) -> list[str]:
    """A ring is cut in two: each part becomes a ring, and later both are one; nobody joins anew."""
    cluster = Cluster.ring_of(12, seed)
    drawn = rng_for(seed, "mutants", "sides").sample(cluster.alive, 12)
    sides = [drawn[:4], drawn[4:]] if seed % 2 else [drawn[:6], drawn[6:]]
    cluster.part(sides)
    cluster.run(APART_S)
    found = [finding for side in sides for finding in cluster.ledger.ring_findings(side)]
    cluster.heal()
    cluster.rest(MERGE_S)
    return found + _with_the_dead(cluster) + told(cluster, Rejoining) + cluster.ledger.findings


def castaways(seed: int) -> list[str]:
    """One broker is cut off from all others for long: it comes back, and nobody else joins anew."""
    cluster = Cluster.ring_of(9, seed)
    uid = cluster.in_order[seed % 9]
    rest = [other for other in cluster.alive if other != uid]
    cluster.part([[uid], rest])
    cluster.run(APART_S)
    found = cluster.ledger.ring_findings(rest)
    cluster.heal()
    cluster.rest(MERGE_S)
    return found + _drawn_into(cluster, uid) + _with_the_dead(cluster) + cluster.ledger.findings


def returns(seed: int) -> list[str]:
    """Brokers are cut off for a second, one after another: nobody else is drawn into it.

    Each is back just as it holds its neighbours for dead: none of them has to join anew, and nobody
    else believes it.
    """
    cluster = Cluster.ring_of(12, seed)
    rng = rng_for(seed, "mutants", "returns")
    found = []
    for _ in range(12):
        lone = rng.choice(cluster.alive)
        cluster.facts.clear()
        cluster.part([[lone], [uid for uid in cluster.alive if uid != lone]])
        cluster.run(rng.uniform(1.0, 1.3))
        cluster.heal()
        cluster.run(8)
        found += _drawn_into(cluster, lone)
    cluster.rest(MERGE_S)
    return found + cluster.ledger.findings


def strangers(seed: int) -> list[str]:
    """Two rings that formed apart, and so have ids in common, become one through a newcomer."""
    cluster = Cluster(seed)
    founders = [cluster.found(), cluster.found()]
    for founder in founders:
        for _ in range(3):
            cluster.run(0.5)
            cluster.start([founder])
    cluster.run(5)
    cluster.start(founders)
    cluster.rest(600)
    return cluster.ledger.findings


def bridges(seed: int) -> list[str]:
    """Two rings without an id in common become one through a newcomer that knows both."""
    cluster = Cluster(seed)
    founders = [cluster.found(), cluster.found(123_456_789 + 77 * seed)]
    for founder in founders:
        for _ in range(15):
            cluster.start([founder])
            cluster.run(0.1)
    cluster.run(10)
    cluster.start(founders)
    cluster.rest(MERGE_S)
    return told(cluster, Rejoining) + cluster.ledger.findings


def _drawn_into(cluster: Cluster, lone: str) -> list[str]:
    """Return who had to rejoin, or held others for dead, because ``lone`` was cut off."""
    found = [
        f"{uid[:8]} had to rejoin because {lone[:8]} was cut off"
        for uid, _ in cluster.told(Rejoining)
        if uid != lone
    ]
    found += [
        f"{uid[:8]} believes {lone[:8]}, which was cut off, that others are dead"
        for uid, fact in cluster.told(Confirmed)
        if isinstance(fact, Confirmed) and lone not in (uid, fact.subject.uid)
    ]
    return found


def _with_the_dead(cluster: Cluster) -> list[str]:
    """Return who is linked to a life that it declared dead itself.

    But for those that were alone: then it was they who were cut off, and they forget all verdicts.
    """
    alone = {uid for uid, _ in cluster.told(Alone)}
    found = []
    for uid, fact in cluster.told(Confirmed):
        if uid in alone or uid not in cluster.alive or not isinstance(fact, Confirmed):
            continue
        linked = cluster.nodes[uid].linked.get(fact.subject.uid)
        if linked is not None and linked.incarnation <= fact.subject.incarnation:
            found.append(f"{uid[:8]} is linked to a life of {linked.uid[:8]} it declared dead")
    return found
