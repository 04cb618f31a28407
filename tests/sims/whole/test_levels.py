"""Events between clusters: they go where they are wanted, once, in order, and nowhere else."""

from __future__ import annotations

from collections import Counter

import pytest

from overlay.ids import LinkClass
from overlay.rng import rng_for
from overlay.trace_schema import Fate
from sims.experiments.service import Service
from sims.workloads.traffic import Flowing
from tests.helpers.overlays import units_of

NINE = pytest.mark.formed(Service.of_clusters, 9, 3)


def received(service: Service) -> Counter[str]:
    return Counter(
        {uid: service.brokers[uid].stack.counters["events_received"] for uid in service.alive}
    )


@pytest.mark.parametrize(
    "levels",
    [
        pytest.param(1, marks=NINE),
        pytest.param(2, marks=[pytest.mark.formed(Service.of_clusters, 20, 4), pytest.mark.soak]),
    ],
)
def test_an_event_goes_to_the_clusters_that_want_it_and_no_others(
    service: Service, levels: int
) -> None:
    clusters = units_of(service, 1)
    assert len(set(clusters.values())) >= 3
    assert len(set(units_of(service, levels).values())) >= 2
    source = service.uids[0]
    wanting = next(uid for uid in service.uids if clusters[uid] != clusters[source])
    service.subscribe(wanting)
    service.run(1)
    before = received(service)
    service.publish(source, Flowing(rate=20))
    service.run(3)
    verdict = service.finish()
    assert verdict.findings == []
    assert verdict.fates[Fate.ONCE] >= 50
    got = received(service) - before
    assert got[wanting] >= 50
    assert len(got) <= 4, "the way there; all others are spared"


@pytest.mark.parametrize(
    "link_class",
    [
        pytest.param(LinkClass.NORMAL, marks=NINE),
        pytest.param(
            LinkClass.SECURE, marks=pytest.mark.formed(Service.of_clusters, 9, 3, secure=True)
        ),
        pytest.param(LinkClass.EXPRESS, marks=[NINE, pytest.mark.soak]),  # test_express_units: too
    ],
)
def test_events_of_all_classes_cross_clusters(service: Service, link_class: LinkClass) -> None:
    service.subscribe_everywhere()
    service.run(1)
    service.publish(service.uids[1], Flowing(rate=20, link_class=link_class, park_ms=1000))
    service.run(3)
    verdict = service.finish(settle_s=1)
    assert (verdict.findings, verdict.lost) == ([], {})
    assert verdict.fates[Fate.ONCE] >= 9 * 50


def test_events_go_to_all_while_brokers_anywhere_wait_for_slots() -> None:
    """They come by joining at once; a split that moves others into a full cluster does the same."""
    service = Service.of_clusters(9, 4)
    for _ in range(7):
        service.start(rng_for(1, len(service.brokers)).sample(service.alive, 2))
    lasted, seen = 0, 0
    for _ in range(100):
        service.run(0.1)
        nodes = [service.brokers[uid].node for uid in service.alive]
        served = [each for each in nodes if each.units.slot is not None]
        lasted = lasted + 1 if any(each.units.is_crowded for each in served) else 0
        if lasted > 10:  # a statement of each level has been told by then
            seen += 1
            assert not any(each.gateways.is_for_all for each in served)
            assert all(each.units.is_crowded or each.statements.is_crowded for each in served)
        if seen == 3:
            return
    raise AssertionError("there was room for all at once")
