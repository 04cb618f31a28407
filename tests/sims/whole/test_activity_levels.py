"""A subscription is active in the cluster, then in the super-cluster, then everywhere."""

from __future__ import annotations

import pytest

from ges.wire.client_messages import Level
from ges.wire.delivered import Event
from overlay.ids import LinkClass, Nanos
from sims.experiments.service import Service
from sims.world.clients import SimulatedClient
from tests.helpers.overlays import units_of

STEP_S = 0.01  #: between two events of a publisher
STEPS = 80


class Reader:
    """Keeps what comes."""

    def __init__(self) -> None:
        self.got: set[bytes] = set()

    def on_attached(self, broker: str) -> None:
        """A broker has taken the client."""

    def on_lost(self) -> None:
        """The broker is lost."""

    def on_subscribed(self) -> None:
        """A broker serves the subscription."""

    def on_accepted(self, link_class: LinkClass, sequence: int) -> None:
        """An event is taken."""

    def on_refused(self, link_class: LinkClass, sequence: int, reason: str) -> None:
        """An event is refused."""

    def on_events(self, events: list[Event]) -> None:
        """Events have come."""
        self.got |= {event.payload for event in events}


def told(client: SimulatedClient) -> list[Level]:
    return [action.level for _, action in client.activated]


def told_at(client: SimulatedClient, level: Level) -> Nanos:
    """Return when one was active at least so far."""
    return min(at for at, action in client.activated if action.level >= level)


def subscribed(service: Service, uid: str, topic: str) -> tuple[SimulatedClient, Reader]:
    reader = Reader()
    client = service.attach(uid, f"reader of {topic}", reader)
    client.subscribe(topic)
    return client, reader


@pytest.mark.formed(Service.of_clusters, 12, 3)
def test_what_is_published_in_a_unit_comes_once_it_is_active_there(service: Service) -> None:
    places = {uid: (*units_of(service, 0)[uid],) for uid in service.alive}
    clusters: dict[tuple[int, ...], list[str]] = {}
    for uid, place in places.items():
        clusters.setdefault(place[:3], []).append(uid)
    chosen = [uid for members in clusters.values() for uid in members[:1]]
    sources = {uid: service.attach(uid, f"source {uid}", Reader()) for uid in chosen}
    service.run(1)
    earlier = set()
    #: One in a cluster that is alone in its super-cluster, and one in a cluster that is not.
    readers = [clusters[0, 0, 0][-1], clusters[0, 1, 1][-1]]
    for number, reading in enumerate(readers):
        topic = f"t{number}"
        client, reader = subscribed(service, reading, topic)
        sent: dict[bytes, tuple[str, Nanos]] = {}
        for step in range(STEPS):
            for uid, source in sources.items():
                payload = f"{uid} {step}".encode()
                sent[payload] = uid, service.timeline.now
                source.publish(topic, [payload])
            service.run(STEP_S)
        service.run(1)
        assert told(client)[-1] is Level.SYSTEM
        assert told(client) == sorted(set(told(client))), "each once"
        for payload, (uid, at) in sent.items():
            common = sum(
                places[uid][:size] == places[reading][:size] for size in range(1, 4)
            )  # units that both are in
            level = Level(4 - common)
            if at >= told_at(client, level):
                assert payload in reader.got, (level, at - told_at(client, level))
        earlier |= {*told(client)} - {Level.SYSTEM}
    assert earlier == {Level.CLUSTER, Level.SUPER_CLUSTER}


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
