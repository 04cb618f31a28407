"""Overlays whose units are there from the beginning."""

from __future__ import annotations

from collections import Counter

from ges.node import BrokerNode
from sims.experiments.service import Service
from sims.workloads.traffic import Flowing


def nodes(service: Service) -> list[BrokerNode]:
    return [service.brokers[uid].node for uid in service.alive]


def test_units_that_are_laid_out_hold_together() -> None:
    service = Service.of_clusters_at_once(14, 4)
    before = {each.units.address for each in nodes(service)}
    assert len(before) == 14
    sizes = Counter(each.units.cluster for each in nodes(service))
    assert set(sizes.values()) <= {2, 3}, "5/8 of the limit"
    assert len({(cluster or ())[:2] for cluster in sizes}) > 1, "there are several super-clusters"
    service.subscribe(service.uids[0])
    service.run(1)
    service.publish(service.uids[-1], Flowing(rate=20))
    service.run(1)
    verdict = service.finish(1)
    assert (verdict.findings, verdict.lost) == ([], {})
    assert {each.units.address for each in nodes(service)} == before, "nothing is split or folded"
