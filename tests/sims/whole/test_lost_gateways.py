"""What brokers say of lost connections between units, in whole overlays."""

from __future__ import annotations

import pytest

from ges.gateways.losses import Severity
from ges.gateways.losses_part import GatewayLost
from sims.experiments.service import Service
from sims.world.world import CrashMode
from tests.helpers.overlays import units_of


def told(service: Service, since: int = 0) -> dict[str, set[tuple[int, tuple[str, str], Severity]]]:
    """Return what each broker has told of since so many facts."""
    found: dict[str, set[tuple[int, tuple[str, str], Severity]]] = {}
    for _, uid, fact in service.facts[since:]:
        if isinstance(fact, GatewayLost):
            found.setdefault(uid, set()).add((fact.level, fact.units, fact.severity))
    return found


@pytest.mark.formed(Service.of_clusters, 9, 3)
def test_a_cluster_that_is_cut_off_is_a_partition_on_both_sides(service: Service) -> None:
    assert told(service) == {}, "who joins, and units that form, lose nothing"
    clusters = units_of(service, 1)
    away = [uid for uid, cluster in clusters.items() if cluster == (0, 0, 1)]
    others = [uid for uid in service.alive if uid not in away]
    since = len(service.facts)
    service.part([away, others])
    cut_off: dict[str, int] = {}
    for _ in range(14):
        service.run(1)
        for uid in service.alive:
            seen = service.brokers[uid].node.losses.cut_off[1]
            cut_off[uid] = max(seen, cut_off.get(uid, 0))
    partition = Severity.PARTITION
    expected = {(1, ("0.0.0", "0.0.1"), partition), (1, ("0.0.1", "0.0.2"), partition)}
    assert told(service, since) == dict.fromkeys(service.alive, expected)
    assert cut_off == {uid: 2 if uid in away else 1 for uid in service.alive}


def test_links_that_are_lost_with_a_broker_are_harmless_where_others_are_left() -> None:
    service = Service.of_clusters(12, 4)
    since = len(service.facts)
    victim = service.alive[3]
    service.crash(victim, CrashMode.KILL)
    service.run(4)
    found = {loss for each in told(service, since).values() for loss in each}
    assert found, "its links to other units"
    assert {severity for *_, severity in found} == {Severity.HARMLESS}
    counts = [service.brokers[uid].node.losses.counters for uid in service.alive]
    assert all(each.keys() <= {"gateways_lost_harmless"} for each in counts)
