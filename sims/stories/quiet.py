"""A ring in which nothing happens."""

from __future__ import annotations

from ring.config import LAN
from ring.facts import LinkFailed, NeighboursChanged, Rejoining, Suspected
from sims.experiments.cluster import Cluster
from sims.stories.seen import told, used

CALM_S = 120.0  #: after this all chords are where they are to stay


def quiet(seed: int) -> list[str]:
    """Nothing is done to a ring: nothing happens, chords double, and only links in use are kept."""
    cluster = Cluster.ring_of(16 + seed % 4, seed)
    cluster.run(CALM_S)
    cluster.facts.clear()
    links = {uid: set(cluster.nodes[uid].linked) for uid in cluster.alive}
    sent = [0]
    cluster.world.on_sent = lambda uid, effect: sent.append(sent.pop() + 1)
    found: list[str] = []
    for _ in range(500):
        cluster.run(0.02)
        found += _unheard(cluster)
    found += told(cluster, Suspected, NeighboursChanged, LinkFailed, Rejoining)
    order = cluster.in_order
    n = len(order)
    rate = sent[0] / 10 / n
    if rate > 2.5e9 / LAN.heartbeat_ns:
        found.append(f"{rate:.1f} messages per second and broker in a quiet ring")
    uses = {uid: used(cluster, uid) for uid in order}
    for at, uid in enumerate(order):
        node = cluster.nodes[uid]
        in_use = {other for other in order if other in uses[uid] or uid in uses[other]}
        if not in_use <= set(node.linked) & links[uid]:
            found.append(f"{uid[:8]} makes or drops links in a quiet ring")
        # A knock at a peer of old makes a link for two seconds; for ten, none is kept.
        idle = sorted(set(node.linked) & links[uid] - in_use)
        found += [f"{uid[:8]} keeps a link to {other[:8]} that neither uses" for other in idle]
        ranks = [(order.index(m.uid) - at) % n for m in node.chords]
        if not _doubles(ranks, n):
            found.append(f"{uid[:8]} has chords to {ranks}, not about 2, 4, 8, ... to the right")
    return found + cluster.ledger.findings


def _doubles(ranks: list[int], n: int) -> bool:
    """Say whether chords lead about 2, 4, 8, ... brokers to the right, in a ring of ``n``.

    A chord stays while its rank is within a tolerance, from three quarters to one and a half. The
    rank is counted by distance, and ids are uneven: so a factor of two is allowed, and one level
    more or less at the far end.
    """
    levels = (n - 1).bit_length() - 1
    return (
        ranks[:1] == [2]
        and abs(len(ranks) - levels) <= 1
        and all(2**level <= rank <= 4 * 2**level for level, rank in enumerate(ranks))
    )


def _unheard(cluster: Cluster) -> list[str]:
    """Whose right neighbour has sent nothing for longer than a heartbeat may take to come."""
    late = LAN.heartbeat_ns + LAN.lateness_ns // 2
    found = []
    for uid in cluster.alive:
        node = cluster.nodes[uid]
        link = node.parts.links.up[node.right[0].uid]
        if cluster.world.now - link.heard_at > late:
            found.append(f"{uid[:8]} has not heard its right neighbour for a period")
    return found
