"""A subscription is active in the cluster, then in the super-cluster, then everywhere."""

from __future__ import annotations

import pytest

from ges.wire.client_messages import Level
from sims.experiments.service import Service
from sims.workloads.readers import Reader
from sims.world.clients import SimulatedClient


def told(client: SimulatedClient) -> list[Level]:
    return [action.level for _, action in client.activated]


def subscribed(service: Service, uid: str, topic: str) -> tuple[SimulatedClient, Reader]:
    reader = Reader()
    client = service.attach(uid, f"reader of {topic}", reader)
    client.subscribe(topic)
    return client, reader


def test_in_an_overlay_of_one_cluster_the_system_alone_is_told() -> None:
    service = Service.ring_of(3, seed=2)
    client, _ = subscribed(service, service.uids[1], "t")
    service.run(1)
    assert told(client) == [Level.SYSTEM]


@pytest.mark.parametrize("is_covered", [False, True])
@pytest.mark.formed(Service.of_clusters, 9, 3)
def test_one_that_is_covered_is_active_everywhere_at_once(
    service: Service, is_covered: bool
) -> None:
    uid = service.uids[4]
    if is_covered:
        subscribed(service, uid, "a/#")
        service.run(1)
    client, _ = subscribed(service, uid, "a/b")
    service.run(1)
    assert told(client) == ([Level.SYSTEM] if is_covered else [Level.CLUSTER, Level.SYSTEM])
