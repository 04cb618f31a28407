"""Whole brokers with clients: what befalls the cluster is no concern of theirs."""

from __future__ import annotations

import pytest

from ges.units.planner import UnitsConfig
from overlay.ids import nanos
from sims.experiments.service import Service
from sims.workloads.traffic import Flowing
from sims.world.world import CrashMode


def addresses(service: Service) -> list[str]:
    units = [service.brokers[uid].node.units for uid in service.alive]
    assert len({unit.digest for unit in units}) == 1
    assert len({unit.steward for unit in units}) == 1
    return [str(unit.address) for unit in units]


def test_a_new_steward_and_new_slots_disturb_no_client() -> None:
    service = Service.ring_of(5, seed=3)
    assert sorted(addresses(service)) == [f"0.0.0.{slot}" for slot in range(5)]
    steward = service.uids[0]
    assert service.brokers[steward].node.units.steward == steward
    for uid in service.uids[1:]:
        service.subscribe(uid)
    service.run(0.5)
    service.publish(service.uids[1], Flowing(rate=20.0))
    service.run(1)
    connections = [client.connection for client in service.clients]
    before = addresses(service)[1:]
    service.kill(steward, CrashMode.KILL)
    service.run(5)
    service.rest()
    service.start(service.alive)
    service.run(5)
    after = addresses(service)
    assert after[: len(before)] == before
    assert after[-1] == "0.0.0.5", "the slot of the dead rests"
    assert all(connections)
    assert [client.connection for client in service.clients] == connections
    verdict = service.finish()
    assert verdict.findings == []


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_clients_miss_nothing_while_clusters_are_split_and_folded(seed: int) -> None:
    service = Service.ring_of(3, seed, units=UnitsConfig(limit=4))
    for uid in service.uids[1:]:
        service.subscribe(uid)
    service.run(0.5)
    for uid in service.uids[:2]:
        service.publish(uid, Flowing(rate=20.0))
    service.run(1)
    for _ in range(4):
        service.start(service.alive)
        service.run(1.5)
    service.run(2)
    service.rest()
    clusters = {service.brokers[uid].node.units.cluster for uid in service.alive}
    assert len(clusters) == 2
    service.subscribe(service.uids[5])
    service.run(1)
    for uid in service.uids[2:]:
        service.leave(uid)
        service.run(1)
    first = service.brokers[service.uids[0]].node.units
    while len(first.tables[1].rows) > 1:
        service.run(1)
        assert service.timeline.now < nanos(120), "they are folded"
    service.run(5)
    units = [service.brokers[uid].node.units for uid in service.alive]
    assert not any(unit.is_for_all for unit in units), "for a while events still go to all"
    service.run(75)
    assert all(service.brokers[uid].node.units.is_for_all for uid in service.alive)
    verdict = service.finish()
    assert verdict.findings == []
    assert verdict.lost == {}
