"""Stories of brokers that stand still, leave, restart, or are left alone."""

from __future__ import annotations

from overlay.ids import Peer
from overlay.rng import rng_for
from ring.config import LAN
from ring.facts import Confirmed, Departed, Rejoining, Suspected
from ring.geometry import RING_SIZE
from sims.experiments.cluster import KILL, POWER, Cluster
from sims.stories.seen import MERGE_S, PATIENCE_S, confirmed, told

SILENCE_S = LAN.silence_ns / 1e9
#: A heartbeat may be late by that much, and pings then take their time.
LATE_S = (LAN.lateness_ns + LAN.test_min_ns) / 1e9 - 0.03
JOIN_S = LAN.join_ns / 1e9  #: a step of a join that takes longer is started again
RETURNED_S = 5.0  #: after a return the ring is ideal within that time


def standstills(seed: int) -> list[str]:
    """A broker stands still, first briefly, then too long; then all brokers stand still at once."""
    cluster = Cluster.ring_of(8, seed)
    uid = cluster.in_order[seed % 8]
    cluster.pause(uid)
    cluster.run(0.4 * SILENCE_S)
    cluster.resume(uid)
    cluster.run(2 * SILENCE_S)
    found = told(cluster, Suspected, Confirmed, Rejoining)
    cluster.pause(uid)
    cluster.run(4 * SILENCE_S)
    if confirmed(cluster) != {uid}:
        found.append("one stood still, others or none were declared dead")
    cluster.resume(uid)
    cluster.rest(PATIENCE_S)
    if cluster.nodes[uid].peer.incarnation != 2:
        found.append("it came back, but not once and under a new incarnation")
    cluster.facts.clear()
    for other in cluster.alive:
        cluster.pause(other)
    cluster.run(60)
    for other in cluster.alive:
        cluster.resume(other)
    cluster.rest(PATIENCE_S)
    return found + told(cluster, Suspected, Confirmed, Rejoining) + cluster.ledger.findings


def leaves(seed: int) -> list[str]:
    """A broker leaves of its own will: nobody suspects it, or points at it afterwards."""
    cluster = Cluster.ring_of(9, seed)
    uid = cluster.in_order[seed % 9]
    cluster.leave(uid)
    while uid in cluster.alive:
        cluster.run(0.01)
    cluster.run(0.2)
    held = [
        other
        for other in cluster.alive
        if uid in {m.uid for m in (*cluster.nodes[other].left, *cluster.nodes[other].right)}
    ]
    found = [f"{other[:8]} still points at one that left" for other in held]
    cluster.rest(PATIENCE_S)
    if not cluster.told(Departed):
        found.append("nobody noticed that a broker left")
    return found + told(cluster, Suspected, Confirmed, Rejoining) + cluster.ledger.findings


def restarts(seed: int) -> list[str]:
    """A broker dies and is back, before or after it was missed: nobody else has to join anew."""
    found: list[str] = []
    for after in (0.0005, 0.5, 3.0):
        cluster = Cluster.ring_of(8, seed)
        uid = cluster.in_order[3]
        cluster.crash(uid, KILL if seed % 2 else POWER)
        cluster.run(after)
        cluster.restart(uid, [other for other in cluster.in_order if other != uid][:3])
        cluster.rest(PATIENCE_S)
        others = {other for other, _ in cluster.told(Rejoining)} - {uid}
        found += [f"{other[:8]} lived all the time and had to rejoin" for other in others]
        found += cluster.ledger.findings
    return found


def moved_lives(seed: int) -> list[str]:
    """A broker loses power and is back elsewhere before it was missed: at once, and nobody minds.

    The widest gap is on the far side of the ring, so the new life gets its place there, from a
    broker that still has a link to the old life.
    """
    found: list[str] = []
    for number in range(3):
        rng = rng_for(seed, "story", "moved lives", number)
        cluster = Cluster(rng.getrandbits(32))
        places = [at * RING_SIZE // 18 for at in range(18) if at not in (9, 10)]
        uids = cluster.start_warm(places)
        cluster.run(1.0)
        uid, contact = uids[0], uids[13]
        cluster.crash(uid, POWER)
        cluster.run(rng.uniform(0, 0.8 * SILENCE_S))
        cluster.restart(uid, [contact])
        cluster.run(JOIN_S)
        if cluster.nodes[uid].member is None:
            found.append("a new life found no place within a step of its join")
        cluster.run(RETURNED_S - JOIN_S)
        others = {other for other, _ in cluster.told(Rejoining)} - {uid}
        found += [f"{other[:8]} lived all the time and had to rejoin" for other in others]
        found += cluster.findings()
    return found


def alone(seed: int) -> list[str]:
    """All brokers but one die, and come back without knowing of the one that lived."""
    cluster = Cluster.ring_of(4, seed)
    dead = cluster.in_order[1:]
    for uid in dead:
        cluster.crash(uid, KILL)
    cluster.rest(PATIENCE_S)
    cluster.restart(dead[0], [])
    for uid in dead[1:]:
        cluster.restart(uid, [dead[0]])
    cluster.rest(MERGE_S)
    return cluster.ledger.findings


def wakings(seed: int) -> list[str]:
    """All stand still, and wake within the time a heartbeat may be late: nobody is suspected."""
    cluster = Cluster.ring_of(8, seed)
    for uid in cluster.alive:
        cluster.pause(uid)
    cluster.run(60)
    order = rng_for(seed, "mutants", "wakings").sample(cluster.alive, 8)
    for uid in order[2:]:
        cluster.resume(uid)
    cluster.run(LATE_S)
    for uid in order[:2]:
        cluster.resume(uid)
    cluster.rest(PATIENCE_S)
    return told(cluster, Suspected, Confirmed, Rejoining) + cluster.ledger.findings


def doors(seed: int) -> list[str]:
    """Brokers refuse links to an earlier life of a member, and to a second broker of its uid."""
    cluster = Cluster.ring_of(8, seed)
    uid = cluster.in_order[seed % 8]
    cluster.crash(uid, KILL)
    cluster.run(3)
    cluster.restart(uid, [other for other in cluster.alive if other != uid][:3])
    cluster.rest(PATIENCE_S)
    old, new = Peer(uid, 1, cluster.nodes[uid].peer.url), cluster.nodes[uid].peer
    double = Peer(uid, new.incarnation, "chordal://double.test:9470")
    found = []
    for other in (node for node in cluster.nodes.values() if uid in node.linked):
        if other.admit(new) is not None:
            found.append("a link to a member in its present life is refused")
        if other.admit(old) is None:
            found.append("a link to a life that is over is let in")
        if other.admit(double) is None:
            found.append("a link to a second broker of the same uid is let in")
    return found
