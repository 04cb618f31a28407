"""Express events between clusters come, and say whether all links on their way were express."""

from __future__ import annotations

import pytest

from ges.units.planner import UnitsConfig
from overlay.ids import LinkClass, nanos
from sims.experiments.service import Service
from sims.world.network import DISTANCES, Distances, Latency
from tests.helpers.overlays import attach, subscribed, units_of

EXPRESS = LinkClass.EXPRESS


@pytest.mark.parametrize("is_near", [True, False], ids=["express links", "none within the range"])
def test_an_express_event_between_clusters_says_whether_all_its_hops_were_express(
    is_near: bool,
) -> None:
    far = Distances(base_ns=nanos(0.008), side_ns=0, jitter_ns=0)
    latency = Latency(DISTANCES["local"] if is_near else far, 1)
    service = Service(1, latency=latency, units=UnitsConfig(3, nanos(3)))
    service.start(())
    while len(service.brokers) < 9:
        service.start(service.uids)
        service.run(0.1)
    service.run(60)
    clusters = units_of(service, 1)
    source = service.uids[0]
    edges = [
        subscribed(service, next(u for u, c in clusters.items() if c == cluster), "t")
        for cluster in set(clusters.values()) - {clusters[source]}
    ]
    client, _ = attach(service, source)
    service.run(2)
    for _ in range(20):
        client.publish("t", [b"x"], EXPRESS)
        service.run(0.5)
    for edge in edges:
        assert [event.link_class for event in edge.events] == [EXPRESS] * 20
        assert {event.express_path for event in edge.events[10:]} == {is_near}
