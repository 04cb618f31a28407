"""Whole brokers with clients: what befalls the cluster is no concern of theirs."""

from __future__ import annotations

import pytest

from ges.units.planner import UnitsConfig
from ges.units.unit_names import parse_unit
from overlay.ids import nanos
from overlay.trace_schema import Fate
from sims.experiments.service import Service
from sims.experiments.unit_joins import joining
from sims.verdicts.units import unit_findings
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
    service.crash(steward, CrashMode.KILL)
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


def standing(service: Service, moving: list[str]) -> list[str]:
    """Return what is wrong with the units, and who of these has no address."""
    alive = (service.brokers[uid] for uid in service.alive)
    found = unit_findings(((each.node.ring.member, each.node.units) for each in alive), 3)
    addresses = {uid: service.brokers[uid].node.units.address for uid in moving}
    return found + [uid for uid, address in addresses.items() if address is None]


@pytest.mark.parametrize(
    ("seed", "each"), [(0, 1), *(pytest.param(n, 3, marks=pytest.mark.soak) for n in range(4))]
)
def test_clients_miss_nothing_while_their_unit_joins_another(seed: int, each: int) -> None:
    """H08: with nine brokers that move in the long run, and a limit of 3; clients stay attached."""
    service = Service(seed, units=UnitsConfig(limit=3))
    service.excuse = lambda *args, **more: None  # type: ignore[method-assign]
    for unit in (*(f"eu/fra/{name}" for name in "abc" for _ in range(each)), "us/nyc/x"):
        service.start(service.uids[:1], unit=parse_unit(unit))
        service.run(2)
    service.rest()
    service.rest_units()
    *moving, other = service.uids
    service.subscribe_everywhere()
    for uid in (*moving[::2], other):
        service.publish(uid, Flowing(rate=20.0))
    service.run(3)
    connections = [client.connection for client in service.clients]
    brokers = {uid: broker.node for uid, broker in service.brokers.items()}
    before = {uid: str(brokers[uid].units.address) for uid in moving}
    first, command = joining(brokers, moving, [other], 2)
    service.give(first, command)
    service.run(3)
    for _ in range(20):
        if not standing(service, moving):
            break
        service.run(1)
    assert standing(service, moving) == []
    service.run(5)
    after = {uid: str(brokers[uid].units.address) for uid in moving}
    assert {after[uid] for uid in moving} == {
        before[uid].replace("0.0.", "1.1.", 1) for uid in moving
    }
    assert all(connections)
    assert [client.connection for client in service.clients] == connections
    verdict = service.finish()
    assert verdict.findings == []
    assert verdict.lost == {}
    assert verdict.fates[Fate.ONCE] > 1000 * each
