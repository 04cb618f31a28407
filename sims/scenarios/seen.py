"""What the stories look at in a ring."""

from __future__ import annotations

from ring.facts import Confirmed
from ring.invariants import Snapshot
from sims.experiments.cluster import Cluster

PATIENCE_S = 40.0  #: virtual time a ring gets to become ideal again


def told(cluster: Cluster, *kinds: type) -> list[str]:
    """Return which of these facts were stated."""
    return [f"a broker said {kind.__name__}" for kind in kinds if cluster.told(kind)]


def confirmed(cluster: Cluster) -> set[str]:
    """Return who was declared dead, by anybody."""
    return {f.subject.uid for _, f in cluster.told(Confirmed) if isinstance(f, Confirmed)}


def dead_chords(cluster: Cluster, dead: set[str]) -> list[str]:
    """Return who has chords to the dead."""
    return [
        f"{uid[:8]} has a chord to {member.uid[:8]}, long dead"
        for uid in cluster.alive
        for member in cluster.nodes[uid].chords
        if member.uid in dead
    ]


def dead_links(cluster: Cluster, dead: set[str]) -> list[str]:
    """Return who keeps links to the dead."""
    return [
        f"{uid[:8]} keeps a link to {other[:8]}, long dead"
        for uid in cluster.alive
        for other in sorted(dead & cluster.nodes[uid].linked.keys())
    ]


def snapshots(cluster: Cluster) -> list[Snapshot]:
    """Return the pointers of all live members."""
    nodes = (cluster.nodes[uid] for uid in cluster.alive)
    return [Snapshot(n.member, n.left, n.right, n.known) for n in nodes if n.member is not None]


def twins(cluster: Cluster) -> list[str]:
    """Return whether two members have one id."""
    ids = [snapshot.member.ring_id for snapshot in snapshots(cluster)]
    return ["two members have one id"] if len(set(ids)) < len(ids) else []


def used(cluster: Cluster, uid: str) -> set[str]:
    """Return those whom a broker has in its pointers and chords."""
    node = cluster.nodes[uid]
    return {m.uid for m in (*node.left, *node.right, *node.chords)}
