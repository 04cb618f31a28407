"""Clients whose whole cluster has died: what other clusters have published meanwhile comes, too."""

from __future__ import annotations

from collections import defaultdict

import pytest

from sims.experiments.service import Service
from sims.workloads.traffic import Flowing
from sims.world.world import CrashMode

CLUSTERS = 3


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 20))]
)
def test_a_client_that_comes_to_another_cluster_has_what_was_published_in_a_third(
    seed: int,
) -> None:
    service = Service.of_clusters(9, 3, seed, calm=2)
    clusters = defaultdict(list)
    for uid in service.alive:
        clusters[service.brokers[uid].node.units.cluster].append(uid)
    assert len(clusters) == CLUSTERS
    lost, *others = clusters.values()
    for uid in lost:
        service.subscribe(uid)
    service.run(2)
    for cluster in others:
        service.publish(cluster[0], Flowing(rate=50))
    service.run(2)
    for uid in lost:
        service.kill(uid, CrashMode.POWER)
    service.run(15)
    verdict = service.finish()
    assert (verdict.findings, verdict.lost) == ([], {})
    replayed = service.counters["events_replayed"]
    assert replayed, "some of them were attached again"
