"""Queue groups with members in several clusters: one of all gets each event."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from ges.gateways import gateways_part
from ges.wire.events import pack_event, read_head
from ges.wire.realms import Realm
from overlay.ids import LinkClass
from overlay.rng import rng_for
from sims.experiments.service import Service
from sims.workloads.readers import Reader
from sims.world.clients import SimulatedClient
from sims.world.world import CrashMode
from tests.helpers.overlays import CALM, attach, in_another, overlay, units_of


@dataclass
class Member:
    broker: str
    client: SimulatedClient
    notes: Reader


def member(service: Service, uid: str, topic: str = "t", queue: str = "g") -> Member:
    client, notes = attach(service, uid)
    client.subscribe(topic, queue=queue)
    return Member(uid, client, notes)


def publish(
    service: Service,
    client: SimulatedClient,
    topic: str,
    count: int,
    link_class: LinkClass = LinkClass.NORMAL,
) -> list[bytes]:
    """Publish events one by one; returns their payloads."""
    payloads = [b"%d" % number for number in range(count)]
    for payload in payloads:
        client.publish(topic, [payload], link_class)
        service.run(0.02)
    service.run(2)
    return payloads


def got(members: list[Member]) -> Counter[bytes]:
    return Counter(payload for each in members for payload in each.notes.payloads)


pytestmark = pytest.mark.formed(overlay, 12, 3)


@pytest.mark.parametrize("link_class", [LinkClass.NORMAL, LinkClass.EXPRESS])
def test_one_of_all_gets_an_event_and_the_nearest_first(
    service: Service, link_class: LinkClass
) -> None:
    topic = f"near/{link_class}"
    clusters, supers = units_of(service, 1), units_of(service, 2)
    here = next(u for u in service.alive if list(supers.values()).count(supers[u]) > 4)
    inside = next(u for u in service.alive if u != here and clusters[u] == clusters[here])
    near = [u for u in service.alive if clusters[u] != clusters[here] and supers[u] == supers[here]]
    far = [u for u in service.alive if supers[u] != supers[here]]
    plain, seen = attach(service, far[0])
    plain.subscribe(topic)
    beyond = [member(service, uid, topic) for uid in far]
    beside = [member(service, uid, topic) for uid in near]
    own = [member(service, uid, topic) for uid in (here, inside)]
    client, _ = attach(service, here)
    service.run(3)
    everyone = [*beyond, *beside, *own]
    sent: list[bytes] = []
    for first in (own, beside, beyond):
        before = got(everyone)
        payloads = publish(service, client, topic, 20, link_class)
        sent += payloads
        assert got(everyone) - before == Counter(payloads), "one member gets each"
        assert sum(got(first).values()) == 20, "the nearest"
        if first is not own:
            busy = [each for each in first if each.notes.payloads]
            assert len(busy) > 1, "brokers of a unit share what comes into it"
        for each in first:
            each.client.unsubscribe()
        service.run(3)
    assert Counter(seen.payloads) == Counter(sent), "others get all"


def test_a_request_finds_who_answers_in_another_cluster(service: Service) -> None:
    here = service.alive[0]
    there = in_another(service, 1, here)
    replier = member(service, there, "ask", "adders")
    service.run(3)

    def is_alone(topic: bytes, realm: Realm = Realm.ALL) -> bool:
        """Whether a request would be told at once that nobody answers."""
        body = pack_event(False, bytes(16), 1, 1, 0, topic, b"", b"", realm=realm)
        return service.brokers[here].stack.has_nobody_for(read_head(body))

    assert not is_alone(b"ask")
    assert is_alone(b"ask", Realm.CLUSTER), "who answers is beyond"
    assert is_alone(b"nobody")
    client, _ = attach(service, here)
    service.run(0.5)
    publish(service, client, "ask", 1)
    assert replier.notes.payloads == [b"0"]


@pytest.mark.soak
@pytest.mark.formed(overlay, 18, 3, seed=2)
@pytest.mark.parametrize("is_broken", [False, True], ids=["", "planted"])
def test_members_get_what_is_published_while_a_dead_cluster_is_still_stated(
    service: Service, monkeypatch: pytest.MonkeyPatch, is_broken: bool
) -> None:
    if is_broken:  # who has died is believed in what it has said of its links
        monkeypatch.setattr(gateways_part, "believed", lambda edges, *more: edges)
    clusters, supers = units_of(service, 1), units_of(service, 2)
    there = next(u for u in service.alive if len({*_beside(clusters, supers, u)}) == 3)
    *_, dead = sorted({*_beside(clusters, supers, there)})
    members = [
        member(service, next(u for u in service.alive if clusters[u] == each))
        for each in sorted({*_beside(clusters, supers, there)})
    ]
    client, _ = attach(service, next(u for u in service.alive if supers[u] != supers[there]))
    service.run(6)
    for uid in service.alive:
        if clusters[uid] == dead:
            service.crash(uid, CrashMode.POWER)
    service.run(4)  # it is known by then whose links are down, and the cluster is still stated
    sent = publish(service, client, "t", 80)
    # The member of the dead cluster may be elsewhere by now.
    assert (got(members) == Counter(sent)) is not is_broken


def _beside(
    clusters: dict[str, tuple[int, ...]], supers: dict[str, tuple[int, ...]], uid: str
) -> list[tuple[int, ...]]:
    """The clusters of the super-cluster of a broker."""
    return [clusters[each] for each in clusters if supers[each] == supers[uid]]


@pytest.mark.soak
@pytest.mark.formed(overlay, 9, 4)
def test_few_events_go_to_two_members_or_none_while_units_change(service: Service) -> None:
    members = [member(service, uid) for uid in service.alive]
    client, _ = attach(service, service.alive[0])
    service.run(3)
    sent: list[bytes] = []
    for round_ in range(8):
        if round_ < 4:
            service.start(rng_for(1, "groups", round_).sample(service.alive, 2))
        for number in range(40):
            payload = b"%d/%d" % (round_, number)
            sent.append(payload)
            client.publish("t", [payload])
            service.run(0.05)
    service.run(3)
    service.rest_units(CALM)
    counts = got(members)
    assert set(counts) == set(sent), "each event has come to a member"
    assert sum(counts.values()) == len(sent), "and to one only"
