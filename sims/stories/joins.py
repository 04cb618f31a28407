"""Stories of brokers that join."""

from __future__ import annotations

from collections.abc import Sequence

from overlay.ids import Nanos
from overlay.rng import rng_for
from ring.facts import Joined, JoinRejected, Rejoining, Suspected
from ring.geometry import RING_SIZE, gap
from sims.experiments.cluster import KILL, POWER, Cluster
from sims.stories.seen import PATIENCE_S, told, twins

STARTS = 4  #: of brokers with one list, in one story: each takes little


def joins(seed: int) -> list[str]:
    """Newcomers race for one gap, then come one by one: all get on the ring, evenly spread."""
    cluster = Cluster(seed)
    contact = cluster.found()
    cluster.run(0.5)
    for _ in range(6):
        cluster.start([contact])
    found: list[str] = []
    for _ in range(40):
        cluster.run(0.001)
        found += twins(cluster)
    cluster.rest(PATIENCE_S)
    for _ in range(10):
        found += _entry(cluster, cluster.start([cluster.in_order[0]]))
    cluster.rest(PATIENCE_S)
    found += told(cluster, Rejoining, JoinRejected, Suspected)
    ids = [member.ring_id for uid in cluster.in_order if (member := cluster.nodes[uid].member)]
    widest = max(gap(a, b) for a, b in zip(ids, [*ids[1:], ids[0]], strict=True))
    if widest > RING_SIZE // 3:
        found.append(f"a gap of {widest / RING_SIZE:.0%} of the circle is left among {len(ids)}")
    return found + cluster.ledger.findings


def early_starters(seed: int) -> list[str]:
    """Brokers start while the founder of their ring does not answer yet: all join in the end."""
    cluster = Cluster(seed)
    founder = cluster.found()
    cluster.pause(founder)
    early = [cluster.start([founder]) for _ in range(3)]
    cluster.run(10)
    found = [
        f"{uid[:8]} is a member of a ring whose only broker has not answered"
        for uid in early
        if cluster.nodes[uid].member is not None
    ]
    cluster.resume(founder)
    cluster.rest(PATIENCE_S)
    return found + cluster.ledger.findings


def one_list(seed: int) -> list[str]:
    """Brokers that all start with one list, and some that stand in none, die and form one ring."""
    return [found for start in range(STARTS) for found in _start(STARTS * seed + start)]


def _start(seed: int) -> list[str]:
    rng = rng_for(seed, "stories", "one-list")
    cluster = Cluster(seed, distances=rng.choice(("lan", "wan")))
    names = [cluster.name(number) for number in range(rng.randint(2, 8))]
    everybody = names + [cluster.name(len(names) + k) for k in range(rng.randint(0, 3))]
    at_once = rng.random() < 0.7
    for uid in rng.sample(everybody, len(everybody)):
        cluster.start(names, uid=uid)
        cluster.run(0.0 if at_once else rng.choice((0.0, 0.05, 0.4, 1.5)))
    crashes: list[tuple[Nanos, str]] = []
    for _ in range(rng.randint(0, 2)):
        cluster.run(rng.choice((0.05, 0.4, 1.5)))
        uid = rng.choice(everybody)
        cluster.crash(uid, rng.choice((KILL, POWER)))
        crashes.append((cluster.world.now, uid))
        cluster.run(rng.choice((0.05, 0.4, 1.5)))
        cluster.restart(uid, names)
    cluster.rest(PATIENCE_S)
    return second_founders(cluster, crashes, names) + cluster.ledger.findings


def second_founders(
    cluster: Cluster, crashes: list[tuple[Nanos, str]], names: Sequence[str]
) -> list[str]:
    """Say who founded a ring where one of the list ``names`` lived on one.

    ``crashes``: when, and whose. A ring of which no member stands in the list cannot be known.
    """
    found: list[str] = []
    on_ring: set[str] = set()
    left = list(crashes)
    for at, uid, fact in cluster.facts:
        while left and left[0][0] <= at:
            on_ring.discard(left.pop(0)[1])
        if isinstance(fact, Rejoining):
            on_ring.discard(uid)
        elif isinstance(fact, Joined):
            if fact.contact is None and on_ring:
                found.append(f"{uid[:8]} founded a ring, and there was one")
            on_ring.update({uid} & set(names))
    return found


def _entry(cluster: Cluster, newcomer: str) -> list[str]:
    """Watch a newcomer until it is a member: it then has its neighbours already."""
    node = cluster.nodes[newcomer]
    for _ in range(1000):
        cluster.run(0.0002)
        if node.member is not None:
            cluster.run(0.001)  # a neighbour's view may still be on its way; a link takes longer
            order = cluster.in_order
            beside = order[(order.index(newcomer) + 1) % len(order)]
            if [member.uid for member in node.right[:1]] != [beside]:
                return ["a newcomer is a member before it is linked to its neighbours"]
            break
    cluster.run(0.1)
    return []
