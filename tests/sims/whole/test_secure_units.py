"""Secure events between clusters: to units that are whole, over secure links alone."""

from __future__ import annotations

import pytest

from ges.units.planner import UnitsConfig
from ges.wire.statement_messages import SecureHealth
from overlay.ids import LinkClass, nanos
from sims.experiments.service import Service
from sims.world.cuts import Cut
from sims.world.processes import Network, Socket
from tests.helpers.overlays import attach, subscribed, units_of
from tests.helpers.tap import Tap

SECURE = LinkClass.SECURE
SECRET, OPEN = b"nobody-may-see-this", b"anybody-may-see-this"


def healths(service: Service, level: int, node: int) -> set[SecureHealth]:
    """Return what all brokers outside a unit hold of its secure part."""
    found = set()
    for uid in service.alive:
        statements = service.brokers[uid].node.statements
        found |= {each for each in SecureHealth if statements.in_health(each) >> node & 1}
    return found


def mixed(n: int, limit: int) -> Service:
    """A ring in which each third broker holds no identity."""
    service = Service(5, units=UnitsConfig(limit, nanos(3)))
    for number in range(n):
        service.secure = number % 3 != 2
        service.start(service.uids)
        service.run(0.05)
    service.secure = True
    service.rest()
    for _ in range(12):
        service.run(10)
        nodes = [service.brokers[uid].node for uid in service.alive]
        if all(each.gateways.is_for_all and not each.statements.unknown for each in nodes):
            return service
    raise AssertionError("units have not settled")


def test_no_secure_byte_on_a_plain_stream_between_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers with and without identities, whose links break while events are under way."""
    service = mixed(9, 3)
    clusters = units_of(service, 1)
    assert len(set(clusters.values())) >= 3
    holders = [uid for uid in service.alive if service.brokers[uid].node.peer.secure]
    assert 0 < len(holders) < 9
    plain, secured = Tap(SECRET, OPEN), Tap(SECRET, OPEN)
    carry = Network.carry

    def tapped(network: Network, socket: Socket, data: bytes | None) -> None:
        (secured if socket.secure else plain).saw(id(socket), bytes(data or b""), out=True)
        carry(network, socket, data)

    monkeypatch.setattr(Network, "carry", tapped)
    readers = [subscribed(service, uid, "#") for uid in holders]
    service.secure = False
    open_readers = [subscribed(service, uid, "#") for uid in service.alive]
    open_source, _ = attach(service, service.alive[2])
    service.secure = True
    sources = [attach(service, uid) for uid in holders[:3]]
    service.run(3)
    victim = next(uid for uid in holders if uid not in holders[:3])
    near = [uid for uid in service.alive if uid != victim]
    for step in range(60):
        for client, _ in sources:
            client.publish("vault", [SECRET], SECURE, 2000 if step % 2 else 0)
        open_source.publish("open", [OPEN])
        if step % 15 == 5:
            for other in near[step % 4 :: 2]:
                service.network.harm(service.brokers[victim], service.brokers[other], Cut.CLOSED)
        if step == 40:
            service.part([[victim], near[:3]])
        if step == 50:
            service.heal()
        service.run(0.1)
    service.run(8)
    assert plain.found == {OPEN}
    assert secured.found == {SECRET, OPEN}
    assert sum(payload == SECRET for each in readers for payload in each.payloads) > 0
    assert {payload for each in open_readers for payload in each.payloads} == {OPEN}


@pytest.mark.formed(Service.of_clusters, 9, 3)
def test_a_cluster_without_identities_says_so(service: Service) -> None:
    assert {healths(service, 1, node).pop() for node in (64, 65, 66)} == {SecureHealth.NONE}
    levels = [service.brokers[uid].node.statements_part.health(1) for uid in service.alive]
    assert set(levels) == {SecureHealth.NONE}
