"""Stories of brokers that join."""

from __future__ import annotations

from ring.facts import JoinRejected, Rejoining, Suspected
from ring.geometry import RING_SIZE, gap
from sims.experiments.cluster import Cluster
from sims.stories.seen import PATIENCE_S, told, twins


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
