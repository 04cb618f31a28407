"""Stories of units whose links are lost, secure ones and all, and of what brokers say then."""

from __future__ import annotations

from ges.gateways.losses import Severity
from ges.gateways.losses_part import GatewayLost
from ges.wire.statement_messages import SecureHealth
from overlay.ids import LinkClass, nanos, short
from overlay.rng import rng_for
from overlay.trace_schema import Why
from ring.facts import Rejoining
from sims.experiments.service import Service
from sims.workloads.readers import Reader
from sims.workloads.traffic import Flowing
from sims.world.cuts import Cut

SIZE, LIMIT = 9, 3
TOLD_S = 1.5  #: from a lost link until all know that the secure part is broken
WHOLE_S = 40.0  #: until secure links are made again
HALF = 8  #: the limit of units, where clusters are to have four members and more
LOSS_S = 8.0  #: until all have judged what was lost inside a cluster ...
PARTED_S = 30.0  #: ... and between clusters
STUCK_S = 8.0  #: events wait for a way for longer than this
PARK_MS = 300_000


def unit_secrets(seed: int) -> list[str]:
    """A cluster's secure part breaks: secure events for it are refused, or they wait."""
    rng = rng_for(seed, "stories", "unit-secrets")
    service = Service.of_clusters(SIZE, LIMIT, seed, secure=True)
    clusters = _clusters(service)
    names = [name for name, members in clusters.items() if len(members) == LIMIT]
    if len(names) < 2:
        return []
    there, here = rng.sample(names, 2)
    edge, *beside = rng.sample(clusters[there], LIMIT)
    reader, publisher, other = Reader(), Reader(), Reader()
    service.attach(edge, "reader", reader).subscribe("t")
    service.attach(rng.choice(clusters[here]), "other", other).subscribe("other")
    client = service.attach(clusters[here][0], "publisher", publisher)
    service.run(2)

    def publish(topic: str = "t", park_ms: int = 0) -> None:
        client.publish(topic, [topic.encode()], LinkClass.SECURE, park_ms)

    publish()
    service.run(1)
    if publisher.refused or len(reader.payloads) != 1:
        return ["a secure event was not delivered, though all secure links are up"]
    brokers = service.brokers
    for uid in beside:
        service.network.forbid_tls(brokers[edge], brokers[uid])
    service.run(TOLD_S)
    findings = []
    if _healths(service, there) != {SecureHealth.BROKEN}:
        findings.append("others do not know that the secure part of a cluster is broken")
    publish()
    publish("other")
    publish(park_ms=PARK_MS)
    service.run(0.5)
    if ["reach each other over secure links" in reason for reason in publisher.refused] != [True]:
        findings.append(f"what could not be delivered was refused so: {publisher.refused}")
    if len(other.payloads) != 1:
        findings.append("a secure event was held up that the broken cluster does not want")
    for uid in beside:
        service.network.allow_tls(brokers[edge], brokers[uid])
    end = service.timeline.now + nanos(WHOLE_S)
    while len(reader.payloads) < 2 and service.timeline.now < end:
        service.run(1)
    if len(reader.payloads) != 2:
        findings.append(f"{len(reader.payloads) - 1} events came that waited for secure links")
    return findings


def unit_losses(seed: int) -> list[str]:
    """Links are lost inside a cluster and between clusters: all say rightly how bad it is."""
    rng = rng_for(seed, "stories", "unit-losses")
    service = Service.of_clusters(SIZE, HALF, seed)
    clusters = _clusters(service)
    findings = []
    if _told(service, 0):
        findings.append("losses were told of while units formed")
    # A broker has one member of its cluster left that it is linked to: all reach it by that one.
    name = rng.choice([*clusters])
    lone, *beside = rng.sample(clusters[name], len(clusters[name]))
    service.part([[lone], beside[1:]], Cut.BROKEN)
    service.run(LOSS_S)
    if any(each.severity is Severity.PARTITION for each in _told(service, 0)):
        findings.append("a broker was said to be cut off that others reach by way of a third one")
    service.heal()
    service.rest()
    since = len(service.facts)
    others = [uid for uid in service.alive if uid not in clusters[name]]
    service.part([clusters[name], others])
    end = service.timeline.now + nanos(PARTED_S)
    while (silent := _silent(service, since)) and service.timeline.now < end:
        service.run(1)
    return findings + [f"{short(uid)} has not said that a cluster is cut off" for uid in silent]


def unit_ways(seed: int) -> list[str]:
    """Two clusters reach each other by way of other super-clusters alone: events wait, and come."""
    rng = rng_for(seed, "stories", "unit-ways")
    service = Service.of_clusters(12, LIMIT, seed)
    clusters = _clusters(service)
    supers = {name[:2] for name in clusters}
    inside = next(
        [name for name in clusters if name[:2] == each]
        for each in supers
        if sum(name[:2] == each for name in clusters) > 1
    )
    away = rng.choice(inside)
    others = [uid for name in inside if name != away for uid in clusters[name]]
    subscribers = [rng.choice(clusters[away]), rng.choice(others)]
    for uid in subscribers:
        service.subscribe(uid)
    service.run(1)
    for uid in (rng.choice(clusters[away]), rng.choice(others)):
        service.publish(uid, Flowing(rate=20.0))
    service.run(1)
    since = service.timeline.now
    service.part([clusters[away], others], Cut.BROKEN)
    service.run(rng.uniform(2, STUCK_S))
    service.heal()
    service.run(6)
    if any(at > since and isinstance(fact, Rejoining) for at, _, fact in service.facts):
        service.excuse(Why.APART, since - nanos(1))  # brokers were held for dead that were not
    return service.finish(settle_s=5).findings


def _clusters(service: Service) -> dict[tuple[int, ...], list[str]]:
    """Return the brokers by the numbers of their cluster, from the top."""
    found: dict[tuple[int, ...], list[str]] = {}
    for uid in service.alive:
        address = service.brokers[uid].node.units.address
        assert address is not None
        found.setdefault(address.numbers[:3], []).append(uid)
    return found


def _healths(service: Service, cluster: tuple[int, ...]) -> set[SecureHealth]:
    """Return what all brokers outside a cluster hold of its secure part."""
    node = 64 + cluster[2]
    found = set()
    for uid in service.alive:
        statements = service.brokers[uid].node.statements
        found |= {each for each in SecureHealth if statements.in_health(each) >> node & 1}
    return found


def _told(service: Service, since: int) -> list[GatewayLost]:
    return [fact for _, _, fact in service.facts[since:] if isinstance(fact, GatewayLost)]


def _silent(service: Service, since: int) -> list[str]:
    """Return who has not told of a partition between clusters since so many facts."""
    told = {
        uid
        for _, uid, fact in service.facts[since:]
        if isinstance(fact, GatewayLost) and (fact.level, fact.severity) == (1, Severity.PARTITION)
    }
    return [uid for uid in service.alive if uid not in told]
