"""Stories of units that stay as they are: what is promised of events between them.

Twelve brokers with a limit of 3 are four clusters in two super-clusters. Nothing fails, so each
event has exactly the places to go to that ``docs/unit-events.md`` gives it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ges.wire.client_messages import Level
from ges.wire.events import Options
from ges.wire.names import name_filter
from ges.wire.realms import Realm
from overlay.ids import Nanos, short
from overlay.rng import rng_for
from sims.experiments.service import Service
from sims.workloads.readers import Reader
from sims.world.clients import SimulatedClient

SIZE, LIMIT = 12, 3
REALMS = (Realm.CLUSTER, Realm.SUPER_CLUSTER, Realm.ALL)
GROUP_EVENTS = 40
STEPS, STEP_S = 80, 0.01  #: events published while a subscription becomes active


@dataclass(slots=True)
class Client:
    """A client and what it was told."""

    broker: str
    client: SimulatedClient
    reader: Reader


class Settled:
    """An overlay whose units have formed."""

    def __init__(self, seed: int, story: str) -> None:
        self.service = Service.of_clusters(SIZE, LIMIT, seed)
        self.rng = rng_for(seed, "stories", story)
        self.places = {
            uid: address.numbers
            for uid in self.service.alive
            if (address := self.service.brokers[uid].node.units.address) is not None
        }
        self.findings: list[str] = []

    def common(self, uid: str, other: str) -> int:
        """Return the level of the smallest unit in which two brokers are; 0: they are the same."""
        here, there = self.places[uid], self.places[other]
        return next((4 - at for at in range(4) if here[at] != there[at]), 0)

    def spots(self) -> tuple[str, str, str, str]:
        """Return a broker, one of its cluster, one of its super-cluster, and one beyond that."""
        for here in self.rng.sample(self.service.alive, SIZE):
            found = {self.common(here, other): other for other in self.service.alive}
            if found.keys() >= {1, 2, 3}:
                return here, found[1], found[2], found[3]
        raise AssertionError("there are too few units")

    def attach(self, uid: str) -> Client:
        """Attach a client that keeps what it is told."""
        reader = Reader()
        return Client(
            uid, self.service.attach(uid, f"c{len(self.service.clients)}", reader), reader
        )

    def subscribe(
        self, uid: str, topic: str, *, realm: Realm = Realm.ALL, queue: str | None = None
    ) -> Client:
        """Attach a client that wants a topic."""
        found = self.attach(uid)
        found.client.subscribe(topic, queue=queue, realm=realm)
        return found

    def received(self) -> Counter[str]:
        """Return how many events each broker has got from others so far."""
        brokers = self.service.brokers
        return Counter({uid: brokers[uid].counters["events_received"] for uid in brokers})

    def expect(self, what: str, found: Iterable[bytes], expected: Iterable[bytes]) -> None:
        """Note it if other events have come than should have, or some of them twice."""
        got, due = Counter(found), Counter(expected)
        if got != due:
            missing, more = (sorted((a - b).elements()) for a, b in ((due, got), (got, due)))
            self.findings.append(f"{what}: missing {missing[:5]}, too many {more[:5]}")


def unit_realms(seed: int) -> list[str]:
    """Events and subscriptions of each realm: they meet if both allow it, and nobody else sees."""
    it = Settled(seed, "unit-realms")
    spots = here, inside, near, far = it.spots()
    subscribers = {
        (uid, realm): it.subscribe(uid, "t", realm=realm) for uid in spots for realm in REALMS
    }
    sources = {uid: it.attach(uid) for uid in spots}
    it.service.run(2)
    sent: dict[bytes, tuple[str, Realm]] = {}

    def publish(uid: str, realm: Realm, topic: str = "t") -> Counter[str]:
        before = it.received()
        payload = b"%d" % len(sent)
        sent[payload] = uid, realm
        sources[uid].client.publish(topic, [payload], options=Options(realm=realm))
        it.service.run(0.3)
        return +(it.received() - before)

    for uid in spots:
        for realm in REALMS:
            for other, copies in publish(uid, realm).items():
                if it.common(uid, other) > realm:
                    it.findings.append(f"an event of realm {realm} came to a broker beyond it")
                if copies > 1:
                    it.findings.append(f"an event came to {short(other)} {copies} times")
    for (uid, realm), each in subscribers.items():
        due = [
            payload
            for payload, (source, event_realm) in sent.items()
            if it.common(source, uid) <= min(realm, event_realm)
        ]
        it.expect(f"realm {realm} at {short(uid)}", each.reader.payloads, due)
    # A subscription that is kept near is told to nobody beyond: no event sets out for it.
    for realm, outside in ((Realm.CLUSTER, near), (Realm.SUPER_CLUSTER, far)):
        topic = f"near/{realm}"
        it.subscribe(inside, topic, realm=realm)
        it.service.run(2)
        if publish(outside, Realm.ALL, topic):
            it.findings.append(f"an event came for a subscription of realm {realm} from beyond it")
    _while_units_change(it, here)
    return it.findings


def _while_units_change(it: Settled, here: str) -> None:
    """Let brokers join, so that events go to all: clients beyond a realm still get none of it."""
    service = it.service
    beyond = [uid for uid in it.places if it.common(here, uid) > 1]
    anything = {uid: it.subscribe(uid, "changing") for uid in beyond}
    kept = {uid: it.subscribe(uid, "changing", realm=Realm.CLUSTER) for uid in beyond}
    source = it.attach(here)
    service.run(2)
    for uid in it.rng.sample(service.alive, 2):
        service.start((uid,))
    due = []
    for at in range(12):
        service.run(0.5)
        beyond = [uid for uid in beyond if _is_beyond(service, here, uid)]
        source.client.publish("changing", [b"near"], options=Options(realm=Realm.CLUSTER))
        source.client.publish("changing", [b"%d" % at])
        due.append(b"%d" % at)
    service.run(1)
    for uid in sorted(uid for uid in beyond if _is_beyond(service, here, uid)):
        it.expect("while units change", anything[uid].reader.payloads, due)
        it.expect("while units change, realm 1", kept[uid].reader.payloads, ())


def _is_beyond(service: Service, here: str, uid: str) -> bool:
    """Say whether a broker is in another cluster than another one, as it sees that."""
    place = service.brokers[here].node.ring.member
    return place is not None and service.brokers[uid].node.gateways.common_level(place.ring_id) > 1


def unit_groups(seed: int) -> list[str]:
    """Queue groups with members all over: one gets each event, though others want it as well."""
    it = Settled(seed, "unit-groups")
    spots = it.spots()
    groups = {
        queue: [it.subscribe(uid, "t", queue=queue) for uid in uids]
        for queue, uids in (
            ("all", [*spots, *it.rng.sample(it.service.alive, 4)]),
            ("far", spots[2:]),
            ("beyond", [uid for uid in it.places if it.common(spots[0], uid) == 3]),
        )
    }
    plain = [it.subscribe(uid, "t") for uid in (*spots, *it.rng.sample(it.service.alive, 2))]
    sources = [it.attach(uid) for uid in spots]
    it.service.run(2)
    due = []
    for number in range(GROUP_EVENTS):
        due.append(b"%d" % number)
        it.rng.choice(sources).client.publish("t", [due[-1]])
        it.service.run(0.02)
    it.service.run(2)
    for queue, members in groups.items():
        it.expect(f"group {queue}", (p for each in members for p in each.reader.payloads), due)
    for each in plain:
        it.expect(f"subscriber at {short(each.broker)}", each.reader.payloads, due)
    return it.findings


def unit_names(seed: int) -> list[str]:
    """Named clients in all units move to other brokers: what is sent to them finds them."""
    it = Settled(seed, "unit-names")
    service, rng = it.service, it.rng
    names = [f"n{number}" for number in range(4)]
    clients = {}
    for name in names:
        clients[name] = it.attach(rng.choice(service.alive))
        clients[name].client.subscribe(name_filter(name))
    sources = [it.attach(uid) for uid in it.spots()]
    service.run(2)
    due: dict[str, list[bytes]] = {name: [] for name in names}

    def publish() -> None:
        for source in sources:
            chosen = rng.sample(names, 2)
            payload = b"%d" % sum(map(len, due.values()))
            source.client.publish("t", [payload], options=Options(to=tuple(chosen)))
            for name in chosen:
                due[name].append(payload)

    for _ in range(4):
        publish()
        service.run(1)
        for name in rng.sample(names, 2):
            clients[name].client.move(service.brokers[rng.choice(service.alive)].url)
        service.run(2)
        publish()
        service.run(2)
    service.run(2)
    for name in names:
        it.expect(f"client {name}", clients[name].reader.payloads, due[name])
    it.findings += [reason for source in sources for reason in source.reader.refused]
    return it.findings


def unit_active(seed: int) -> list[str]:
    """Subscriptions become active, level by level: from then on nothing of that level is missed."""
    it = Settled(seed, "unit-active")
    service = it.service
    firsts = {number[:3]: uid for uid, number in it.places.items()}
    sources = [it.attach(uid) for uid in firsts.values()]
    service.run(1)
    for number, uid in enumerate(it.rng.sample(service.alive, 3)):
        each = it.subscribe(uid, f"t{number}")
        sent: dict[bytes, tuple[str, Nanos]] = {}
        for step in range(STEPS):
            for source in sources:
                payload = b"%s %d" % (source.broker.encode(), step)
                sent[payload] = source.broker, service.timeline.now
                source.client.publish(f"t{number}", [payload])
            service.run(STEP_S)
        service.run(1)
        told = [action.level for _, action in each.client.activated]
        if told != sorted(set(told)) or told[-1:] != [Level.SYSTEM]:
            it.findings.append(f"it was told to be active in {', '.join(map(str, told))}")
            continue
        got = set(each.reader.payloads)
        for payload, (source_uid, at) in sent.items():
            level = max(1, it.common(source_uid, uid))
            since = min(at for at, action in each.client.activated if action.level >= level)
            if at >= since and payload not in got:
                it.findings.append(f"an event was missed after it was active in level {level}")
    return it.findings
