"""A story with a bit of everything."""

from __future__ import annotations

from overlay.rng import rng_for
from ring.invariants import zave_findings
from sims.experiments.cluster import KILL, POWER, Cluster
from sims.stories.seen import PATIENCE_S


def churn(seed: int) -> list[str]:
    """Joins, deaths, pauses and returns in any order; one broker, the anchor, lives on."""
    rng = rng_for(seed, "mutants", "churn")
    cluster = Cluster(seed)
    anchor = cluster.found()
    cluster.run(0.5)
    found: list[str] = []
    for _ in range(30):
        alive = [uid for uid in cluster.alive if uid != anchor]
        dead = [uid for uid in cluster.nodes if uid not in cluster.alive]
        verb = rng.choice(["join", "join", "kill", "power", "restart", "pause", "resume", "wait"])
        if verb == "join" and len(alive) < 10:
            cluster.start([anchor])
        elif verb == "restart" and dead:
            cluster.restart(rng.choice(dead), [anchor])
        elif verb in ("kill", "power") and alive:
            cluster.crash(rng.choice(alive), KILL if verb == "kill" else POWER)
        elif verb == "pause" and alive:
            cluster.pause(rng.choice(alive))
        elif verb == "resume":
            for uid in sorted(cluster.paused):
                cluster.resume(uid)
        cluster.run(rng.choice([0.001, 0.01, 0.1, 1.0, 3.0]))
    for uid in sorted(cluster.paused):
        cluster.resume(uid)
    cluster.rest(PATIENCE_S)
    if cluster.ledger.unrepaired:
        found.append("a crash is not repaired")
    return found + cluster.ledger.findings + zave_findings(cluster.snapshots())
