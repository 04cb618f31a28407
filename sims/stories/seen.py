"""What the stories look at in a ring."""

from __future__ import annotations

from ring.facts import Confirmed
from sims.experiments.cluster import Cluster

PATIENCE_S = 40.0  #: virtual time a ring gets to become ideal again ...
MERGE_S = 200.0  #: ... and two rings to become one: small rings knock rarely


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


def twins(cluster: Cluster) -> list[str]:
    """Return whether two members have one id."""
    ids = [snapshot.member.ring_id for snapshot in cluster.snapshots()]
    return ["two members have one id"] if len(set(ids)) < len(ids) else []


def used(cluster: Cluster, uid: str) -> set[str]:
    """Return those whom a broker has in its pointers and chords."""
    node = cluster.nodes[uid]
    return {m.uid for m in (*node.left, *node.right, *node.chords)}
