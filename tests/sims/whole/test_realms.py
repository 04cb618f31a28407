"""Events and subscriptions that are kept to their units, in overlays of several levels."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from ges.wire.events import Options
from ges.wire.realms import Realm
from overlay.ids import LinkClass
from overlay.rng import rng_for
from sims.experiments.service import Service
from sims.workloads.readers import Reader
from tests.helpers.overlays import attach, in_another, overlay, units_of

REALM_BY_DISTANCE = [Realm.CLUSTER, Realm.SUPER_CLUSTER, Realm.ALL]


@dataclass
class Overlay:
    """Twelve brokers in two super-clusters, for tests that use topics of their own."""

    service: Service
    here: str
    inside: str  #: of its cluster
    near: str  #: of its super-cluster
    far: str  #: beyond that

    def received(self) -> Counter[str]:
        brokers = self.service.brokers
        return Counter(
            {uid: brokers[uid].stack.counters["events_received"] for uid in self.service.alive}
        )

    def subscribed(self, uid: str, text: str, realm: Realm = Realm.ALL) -> Reader:
        client, notes = attach(self.service, uid)
        client.subscribe(text, realm=realm)
        return notes

    def publish(
        self,
        uid: str,
        topic: str,
        payload: bytes,
        options: Options | None = None,
        link_class: LinkClass = LinkClass.NORMAL,
    ) -> Counter[str]:
        """Publish an event; returns which brokers have seen how many copies of it."""
        client, _ = attach(self.service, uid)
        self.service.run(0.5)
        before = self.received()
        client.publish(topic, [payload], link_class, options=options)
        self.service.run(1)
        return +(self.received() - before)


pytestmark = pytest.mark.formed(overlay, 12, 3)


@pytest.fixture
def whole(service: Service) -> Overlay:
    clusters, supers = units_of(service, 1), units_of(service, 2)
    for here in service.alive:
        inside = [u for u in service.alive if u != here and clusters[u] == clusters[here]]
        near = [
            u for u in service.alive if supers[u] == supers[here] and clusters[u] != clusters[here]
        ]
        far = [u for u in service.alive if supers[u] != supers[here]]
        if inside and near and far:
            return Overlay(service, here, inside[0], near[0], far[0])
    raise AssertionError("too few units")


def test_an_express_event_goes_no_further_than_its_realm(whole: Overlay) -> None:
    topic, link_class = "out", LinkClass.EXPRESS
    notes = [
        whole.subscribed(uid, topic) for uid in (whole.here, whole.inside, whole.near, whole.far)
    ]
    whole.service.run(2)
    for realm in REALM_BY_DISTANCE:
        name, options = realm.name.encode(), Options(realm=realm)
        seen = whole.publish(whole.here, topic, name, options, link_class)
        if realm < Realm.ALL:
            unit = units_of(whole.service, realm)
            assert {unit[uid] for uid in seen} == {unit[whole.here]}, "no broker beyond sees it"
    assert [each.payloads for each in notes] == [
        [b"CLUSTER", b"SUPER_CLUSTER", b"ALL"],
        [b"CLUSTER", b"SUPER_CLUSTER", b"ALL"],
        [b"SUPER_CLUSTER", b"ALL"],
        [b"ALL"],
    ]


def test_a_retained_value_of_a_realm_is_kept_in_it(whole: Overlay) -> None:
    near = Options(retain=True, realm=Realm.CLUSTER)
    seen = whole.publish(whole.here, "kept/1", b"v", near)
    clusters = units_of(whole.service, 1)
    assert {clusters[uid] for uid in seen} == {clusters[whole.here]}, "no broker beyond sees it"
    whole.publish(whole.here, "kept/2", b"w", Options(retain=True))
    whole.service.run(1)
    own, beside, beyond = (
        whole.subscribed(uid, "kept/#") for uid in (whole.inside, whole.near, whole.far)
    )
    restricted = whole.subscribed(whole.near, "kept/#", Realm.CLUSTER)
    whole.service.run(2)
    assert sorted(own.payloads) == [b"v", b"w"]
    assert beside.payloads == beyond.payloads == [b"w"]
    assert restricted.payloads == [], "both were published in another cluster"


@pytest.mark.formed(overlay, 9, 3)
def test_the_edge_drops_what_is_of_another_realm_while_events_go_to_all(service: Service) -> None:
    here = service.uids[0]
    there = in_another(service, 1, here)
    (client, _), (all_of_it, notes), (kept, nothing) = (
        attach(service, here),
        attach(service, there),
        attach(service, there),
    )
    all_of_it.subscribe("t")
    kept.subscribe("t", realm=Realm.CLUSTER)
    service.run(2)
    for uid in rng_for(1, "realms").sample(service.alive, 2):
        service.start((uid,))
    service.run(4)
    brokers = service.brokers
    assert not brokers[here].node.gateways.is_for_all, "units change"
    place = brokers[here].node.ring.member
    assert place is not None
    assert brokers[there].node.gateways.common_level(place.ring_id) > 1
    client.publish("t", [b"near"], options=Options(realm=Realm.CLUSTER))
    client.publish("t", [b"all"])
    service.run(1)
    assert (notes.payloads, nothing.payloads) == ([b"all"], [])
    assert brokers[there].stack.counters["events_out_of_realm"] == 1
