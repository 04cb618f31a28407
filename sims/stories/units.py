"""Stories of whole brokers in several clusters, whose events cross from one to another.

The limit of units is 8, so a ring of 9 to 14 brokers is two or three clusters, or becomes them.
"""

from __future__ import annotations

import random

from ges.units.planner import UnitsConfig
from ges.units.unit_names import parse_unit
from overlay.rng import rng_for
from overlay.trace_schema import Fate
from sims.experiments.service import Service
from sims.experiments.unit_joins import joining
from sims.verdicts.judged import Verdict
from sims.workloads.traffic import Flowing
from sims.world.world import CrashMode

LIMIT = 8
SMALL = 4
RATE = 20.0  #: events a second of each publisher


def unit_kills(seed: int) -> list[str]:
    """Brokers of several clusters are killed: the clients of the others miss nothing."""
    rng = rng_for(seed, "stories", "unit-kills")
    service = Service.of_clusters(rng.randint(9, 13), LIMIT, seed)
    _flow(service, rng)
    for _ in range(3):
        service.run(rng.uniform(1, 5))
        service.crash(rng.choice(service.alive), CrashMode.KILL)
    service.run(6)
    return _findings(service.finish(settle_s=5))


def unit_splits(seed: int) -> list[str]:
    """Brokers join until their cluster is split, and subscribe: who is served misses nothing."""
    rng = rng_for(seed, "stories", "unit-splits")
    service = Service.of_clusters(rng.randint(5, 7), LIMIT, seed)
    _flow(service, rng)
    for _ in range(6):
        uid = service.start(rng.sample(service.alive, 2))
        service.run(rng.uniform(0.5, 2))
        if service.brokers[uid].node.units.address is not None:
            service.subscribe(uid, rng.choice(("t", "u")))
            service.publish(uid, Flowing(rate=RATE, topics=("t", "u")))
    service.run(12)
    return _findings(service.finish(settle_s=5))


def unit_topics(seed: int) -> list[str]:
    """Clients subscribe one by one, all over two clusters: from then on they miss nothing."""
    rng = rng_for(seed, "stories", "unit-topics")
    service = Service.of_clusters(rng.randint(9, 13), LIMIT, seed)
    topics = tuple(f"t{number}" for number in range(12))
    for uid in rng.sample(service.alive, 3):
        service.publish(uid, Flowing(rate=60, topics=topics))
    before = service.counters["events_received"]
    service.run(2)
    received = service.counters["events_received"] - before
    if received:
        return [f"{received} events came to brokers that had not asked for them"]
    for topic in topics:
        service.subscribe(rng.choice(service.alive), topic)
        service.run(rng.uniform(0.05, 1))
    service.run(2)
    if stuck := service.counters["events_stuck"]:
        return [f"{stuck} events found no way"]
    return _findings(service.finish(settle_s=5))


def unit_joins(seed: int) -> list[str]:
    """A super-cluster joins another super-super-cluster: its own number alone is new in there."""
    service = Service(seed, units=UnitsConfig(LIMIT))
    for unit in ("eu/fra/a", "eu/fra/b", "eu/fra/b", "eu/fra/c", "us/nyc/x"):
        service.start(service.uids[:1], unit=parse_unit(unit))
        service.run(2)
    service.rest_units()
    *moving, other = service.uids
    service.subscribe_everywhere()
    service.publish(other, Flowing(rate=RATE))
    brokers = {uid: broker.node for uid, broker in service.brokers.items()}
    before = {uid: str(brokers[uid].units.address) for uid in moving}
    first, command = joining(brokers, moving, [other], 2)
    service.give(first, command)
    service.run(20)
    verdict = service.finish(settle_s=5)
    after = {uid: str(brokers[uid].units.address) for uid in moving}
    wanted = {uid: address.replace("0.0.", "1.1.", 1) for uid, address in before.items()}
    found = [f"{u[:8]} is {after[u]}, not {wanted[u]}" for u in moving if after[u] != wanted[u]]
    return found or _findings(verdict)


def unit_crowds(seed: int) -> list[str]:
    """More brokers join at once than there are slots, with clients: these miss nothing."""
    rng = rng_for(seed, "stories", "unit-crowds")
    service = Service.of_clusters(rng.randint(7, 9), SMALL, seed)
    _flow(service, rng)
    for _ in range(rng.randint(4, 6)):
        uid = service.start(rng.sample(service.alive, 2))
        service.run(rng.choice((0, 0, 0.3)))
        service.subscribe(uid, rng.choice(("t", "u")))
    service.run(12)
    return _findings(service.finish(settle_s=5))


def unit_distances(seed: int) -> list[str]:
    """Clusters of one super-cluster change, again and again, while events come from another one."""
    rng = rng_for(seed, "stories", "unit-distances")
    service = Service.of_clusters(12, 3, seed)
    near = {uid: service.brokers[uid].node.units.address for uid in service.alive}
    alone = [uid for uid, address in near.items() if address and address.numbers[:2] == (0, 0)]
    others = [uid for uid in service.alive if uid not in alone]
    topics = tuple(f"t{number}" for number in range(len(others)))
    for uid, topic in zip(others, topics, strict=True):
        service.subscribe(uid, topic)
    service.run(1)
    service.publish(rng.choice(alone), Flowing(rate=12.0 * len(topics), topics=topics))
    service.run(1)
    for _ in range(3):
        service.start((rng.choice(others),))
        service.run(rng.uniform(1, 3))
    for uid in rng.sample(others, 2):
        service.leave(uid)
        service.run(rng.uniform(1, 3))
    service.run(2)
    return _findings(service.finish(settle_s=5))


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
