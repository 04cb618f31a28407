"""Stories of whole brokers in several clusters, whose events cross from one to another.

The limit of units is 8, so a ring of 9 to 14 brokers is two or three clusters, or becomes them.
"""

from __future__ import annotations

import random

from ges.units.planner import UnitsConfig
from overlay.ids import nanos
from overlay.rng import rng_for
from overlay.trace_schema import Fate
from sims.experiments.service import Service
from sims.verdicts.judged import Verdict
from sims.workloads.traffic import Flowing
from sims.world.world import CrashMode

LIMIT = 8
SETTLE_S = 10.0  #: units have formed, know of each other, and events name them
ROUNDS = 12  #: so many times that is waited for at most
RATE = 20.0  #: events a second of each publisher


def unit_kills(seed: int) -> list[str]:
    """Brokers of several clusters are killed: the clients of the others miss nothing."""
    rng = rng_for(seed, "stories", "unit-kills")
    service, findings = clusters(seed, rng.randint(9, 13))
    _flow(service, rng)
    for _ in range(3):
        service.run(rng.uniform(1, 5))
        service.kill(rng.choice(service.alive), CrashMode.KILL)
    service.run(6)
    return findings + _findings(service.finish(settle_s=5))


def unit_splits(seed: int) -> list[str]:
    """Brokers join until their cluster is split, and subscribe: who is served misses nothing."""
    rng = rng_for(seed, "stories", "unit-splits")
    service, findings = clusters(seed, rng.randint(5, 7))
    _flow(service, rng)
    for _ in range(6):
        uid = service.start(rng.sample(service.alive, 2))
        service.run(rng.uniform(0.5, 2))
        if service.brokers[uid].node.units.address is not None:
            service.subscribe(uid, rng.choice(("t", "u")))
            service.publish(uid, Flowing(rate=RATE, topics=("t", "u")))
    service.run(12)
    return findings + _findings(service.finish(settle_s=5))


def unit_topics(seed: int) -> list[str]:
    """Clients subscribe one by one, all over two clusters: from then on they miss nothing."""
    rng = rng_for(seed, "stories", "unit-topics")
    service, findings = clusters(seed, rng.randint(9, 13))
    topics = tuple(f"t{number}" for number in range(12))
    for uid in rng.sample(service.alive, 3):
        service.publish(uid, Flowing(rate=60, topics=topics))
    before = service.counters["events_received"]
    service.run(2)
    received = service.counters["events_received"] - before
    if received:
        findings.append(f"{received} events came to brokers that had not asked for them")
    for topic in topics:
        service.subscribe(rng.choice(service.alive), topic)
        service.run(rng.uniform(0.05, 1))
    service.run(2)
    if stuck := service.counters["events_stuck"]:
        findings.append(f"{stuck} events found no way")
    return findings + _findings(service.finish(settle_s=5))


def clusters(seed: int, size: int, limit: int = LIMIT) -> tuple[Service, list[str]]:
    """Return a ring whose units have settled, and what is wrong if they have not."""
    service = Service(seed, units=UnitsConfig(limit, nanos(3)))
    service.start(())
    while len(service.brokers) < size:
        service.start(service.uids)
        service.run(0.05)
    for _ in range(ROUNDS):
        service.run(SETTLE_S)
        nodes = [service.brokers[uid].node for uid in service.alive]
        if all(each.gateways.is_for_all and not each.statements.unknown for each in nodes):
            return service, []
    return service, ["units have not settled"]


def _flow(service: Service, rng: random.Random) -> None:
    """Half of the brokers want one topic and a third the other; three publish both."""
    for topic, share in (("t", 2), ("u", 3)):
        for uid in rng.sample(service.alive, len(service.alive) // share):
            service.subscribe(uid, topic)
    service.run(1)
    for uid in rng.sample(service.alive, 3):
        service.publish(uid, Flowing(rate=RATE, topics=("t", "u")))
    service.run(1)


def _findings(verdict: Verdict) -> list[str]:
    if not verdict.fates[Fate.ONCE]:
        verdict.findings.append("no event came at all")
    return verdict.findings
