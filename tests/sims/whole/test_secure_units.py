"""Secure events between clusters: to units that are whole, over secure links alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ges.units.planner import UnitsConfig
from ges.wire.delivered import Event
from ges.wire.statement_messages import SecureHealth
from overlay.ids import LinkClass, nanos
from sims.experiments.service import Service
from sims.world.clients import SimulatedClient
from sims.world.cuts import Cut
from sims.world.processes import Network, Process, Socket
from tests.helpers.overlays import units_of
from tests.helpers.tap import Tap

SECURE = LinkClass.SECURE
SECRET, OPEN = b"nobody-may-see-this", b"anybody-may-see-this"


class Person:
    """Keeps what a client is told."""

    def __init__(self) -> None:
        self.got: list[Event] = []
        self.accepted = 0
        self.refused: list[str] = []

    def on_attached(self, broker: str) -> None:
        """A broker has taken the client."""

    def on_lost(self) -> None:
        """The broker is lost."""

    def on_subscribed(self) -> None:
        """The subscription is served."""

    def on_accepted(self, link_class: LinkClass, sequence: int) -> None:
        """Events are taken."""
        self.accepted = sequence

    def on_refused(self, link_class: LinkClass, sequence: int, reason: str) -> None:
        """An event is refused."""
        self.refused.append(reason)

    def on_events(self, events: list[Event]) -> None:
        """Events have come."""
        self.got += events


def attached(
    service: Service, uid: str, topic: str | None = None
) -> tuple[SimulatedClient, Person]:
    person = Person()
    client = service.attach(uid, f"client {len(service.clients)}", person)
    if topic is not None:
        client.subscribe(topic)
    return client, person


class TlsCuts:
    """Pairs of brokers between which no TLS connection is made, while plain ones are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, service: Service) -> None:
        self._service = service
        self._pairs: set[frozenset[str]] = set()
        network = service.network
        connect = network.connect

        def connect_if(
            caller: Process,
            url: str,
            *,
            secure: bool,
            on_open: Callable[[Socket], None],
            on_refused: Callable[[], None],
        ) -> None:
            target = next(b.name for b in service.brokers.values() if b.url == url)
            if secure and frozenset((caller.name, target)) in self._pairs:
                service.timeline.at(service.timeline.now + 1000, caller.step, on_refused)
            else:
                connect(caller, url, secure=secure, on_open=on_open, on_refused=on_refused)

        monkeypatch.setattr(network, "connect", connect_if)

    def cut(self, uid: str, others: list[str]) -> None:
        brokers, network = self._service.brokers, self._service.network
        for other in others:
            self._pairs.add(frozenset((brokers[uid].name, brokers[other].name)))
            network.harm(brokers[uid], brokers[other], Cut.CLOSED)

    def mend(self) -> None:
        self._pairs.clear()


def healths(service: Service, level: int, node: int) -> set[SecureHealth]:
    """Return what all brokers outside a unit hold of its secure part."""
    found = set()
    for uid in service.alive:
        statements = service.brokers[uid].node.statements
        found |= {each for each in SecureHealth if statements.in_health(each) >> node & 1}
    return found


@pytest.mark.formed(Service.of_clusters, 9, 3, secure=True)
def test_a_unit_whose_secure_part_is_broken_is_sent_nothing_until_it_is_whole(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = units_of(service, 1)
    members = [uid for uid, cluster in clusters.items() if cluster == (0, 0, 1)]
    source = next(uid for uid, cluster in clusters.items() if cluster == (0, 0, 0))
    cuts = TlsCuts(monkeypatch, service)
    _, edge = attached(service, members[0], "t")
    _, elsewhere = attached(
        service, next(u for u, c in clusters.items() if c == (0, 0, 2)), "other"
    )
    client, publisher = attached(service, source)
    service.run(2)
    assert healths(service, 1, 64 + 1) == {SecureHealth.WHOLE}
    client.publish("t", [SECRET], SECURE)
    service.run(1)
    assert (publisher.refused, len(edge.got)) == ([], 1)

    cuts.cut(members[0], members[1:])
    service.run(1.5)
    assert healths(service, 1, 64 + 1) == {SecureHealth.BROKEN}
    client.publish("t", [SECRET], SECURE)
    service.run(0.5)
    told = "in unit 0.0.1 not all that want it reach each other over secure links"
    assert [told in reason for reason in publisher.refused] == [True]
    client.publish("other", [SECRET], SECURE)
    service.run(0.5)
    assert len(elsewhere.got) == 1, "what the broken unit does not want goes on"
    client.publish("t", [SECRET], SECURE, 300_000)
    service.run(2)
    assert (len(publisher.refused), len(edge.got)) == (1, 1), "it is parked"

    cuts.mend()
    for _ in range(40):
        service.run(1)
        if len(edge.got) == 2:
            break
    assert len(edge.got) == 2, "it has gone as soon as the unit was whole"
    assert healths(service, 1, 64 + 1) == {SecureHealth.WHOLE}
    assert len(publisher.refused) == 1


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
    readers = [attached(service, uid, "#")[1] for uid in holders]
    service.secure = False
    open_readers = [attached(service, uid, "#")[1] for uid in service.alive]
    open_source, _ = attached(service, service.alive[2])
    service.secure = True
    sources = [attached(service, uid) for uid in holders[:3]]
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
    assert sum(event.payload == SECRET for each in readers for event in each.got) > 0
    assert {event.payload for each in open_readers for event in each.got} == {OPEN}


@pytest.mark.formed(Service.of_clusters, 9, 3)
def test_a_cluster_without_identities_says_so(service: Service) -> None:
    assert {healths(service, 1, node).pop() for node in (64, 65, 66)} == {SecureHealth.NONE}
    levels = [service.brokers[uid].node.statements_part.health(1) for uid in service.alive]
    assert set(levels) == {SecureHealth.NONE}
