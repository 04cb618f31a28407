"""Stories of brokers that are off the ring for a moment, or gone: what clients have missed comes.

Each publisher publishes for somebody else first, and then one event for the client that is watched.
So no later event of it shows that one is missing, and the broker that gets it has to ask whether
there was another one before it.
"""

from __future__ import annotations

from collections import defaultdict

from ges.wire.delivered import Event
from overlay.ids import NANOS_PER_SECOND, LinkClass, Nanos, short
from overlay.rng import rng_for
from ring.facts import Move
from sims.experiments.service import Service
from sims.workloads.traffic import User
from sims.world.clients import SimulatedClient
from sims.world.world import CrashMode

PUBLISHERS = 40
PAUSE_S = 0.02  #: between two events
BEFORE = 5  #: events, before the broker moves
LATE_S = 4.0  #: it asks 2 s after it is back, and is answered at once
SETTLE_S = 12.0


class Watcher(User):
    """A client that notes what has come, and when."""

    def __init__(self, service: Service) -> None:
        super().__init__("watcher", service.timeline, service.deliveries)
        self.got: list[tuple[Nanos, Event]] = []

    def on_events(self, events: list[Event]) -> None:
        """Events have come."""
        self.got += [(self._clock.now, event) for event in events]


def event_absences(seed: int) -> list[str]:
    """A broker leaves its place and joins anew, while events for its client are published."""
    rng = rng_for(seed, "stories", "event-absences")
    service = Service.ring_of(rng.randint(5, 7), seed)
    service.run(8)
    return _missed(service, rng.choice(service.uids))


def unit_absences(seed: int) -> list[str]:
    """The same, where there are several clusters."""
    rng = rng_for(seed, "stories", "unit-absences")
    service = Service.of_clusters(rng.randint(7, 9), 3, seed)
    return _missed(service, rng.choice(service.uids))


def unit_extinctions(seed: int) -> list[str]:
    """A whole cluster loses power; its clients go to others, and have what a third one published.

    Publishers are at all brokers that live on.
    """
    service = Service.of_clusters(9, 3, seed, calm=2)
    clusters = defaultdict(list)
    for uid in service.alive:
        clusters[service.brokers[uid].node.units.cluster].append(uid)
    lost = rng_for(seed, "stories", "unit-extinctions").choice(sorted(clusters.values()))
    readers = [_reader(service, uid) for uid in lost]
    others = [uid for uid in service.alive if uid not in lost]
    clients = _publishers(service, others)
    for at, client in enumerate(clients):
        if at == BEFORE:
            for uid in lost:
                service.crash(uid, CrashMode.POWER)
        client.publish("one", [b"x"])
        service.run(PAUSE_S)
    service.run(SETTLE_S)
    # Events of the last moment may have been confirmed by a broker of the cluster, and died there.
    return [line for reader in readers for line in _findings(reader, clients[BEFORE:])]


def _missed(service: Service, away: str) -> list[str]:
    """Let a broker move while clients of others publish; return what its own client misses."""
    reader = _reader(service, away)
    clients = _publishers(service, [uid for uid in service.alive if uid != away])
    published: dict[str, int] = {}
    for at, client in enumerate(clients):
        if at == BEFORE:
            service.give(away, Move("to see what its clients miss"))
        published[client.uid] = service.timeline.now
        client.publish("one", [b"x"])
        service.run(PAUSE_S)
    service.run(SETTLE_S)
    found = _findings(reader, clients)
    if reader.broker != away:
        found.append("its client has moved")
    late = [(at - published[event.publisher]) / NANOS_PER_SECOND for at, event in reader.got]
    if max(late, default=0.0) > LATE_S:
        found.append(f"an event came after {max(late):.3f} s")
    return found


def _reader(service: Service, uid: str) -> Watcher:
    reader = Watcher(service)
    service.attach(uid, f"reader-{short(uid)}", reader).subscribe("one")
    return reader


def _publishers(service: Service, uids: list[str]) -> list[SimulatedClient]:
    clients = [service.subscribe(uids[at % len(uids)], "none") for at in range(PUBLISHERS)]
    service.run(2)
    for client in clients:
        client.publish("two", [b"x"])
    service.run(2)
    return clients


def _findings(reader: Watcher, clients: list[SimulatedClient]) -> list[str]:
    got = [event.publisher for _, event in reader.got]
    missing = sum(client.uid not in got for client in clients)
    found = [f"{missing} of {len(clients)} events did not come"] if missing else []
    return [*found, *(["an event came twice"] if len(got) > len({*got}) else [])]


def event_tails(seed: int) -> list[str]:
    """A relay loses power with the last events of publishers that say nothing after that."""
    rng = rng_for(seed, "stories", "event-tails")
    service = Service.ring_of(rng.randint(10, 12), seed)
    service.run(8)
    edge = rng.choice(service.uids)
    reader = _reader(service, edge)
    ways = [(uid, hop) for uid in service.uids if (hop := _hop(service, uid, edge)) != edge]
    relay = rng.choice(ways)[1]
    sources = [uid for uid, hop in ways if hop == relay]
    clients = _publishers(service, sources)
    service.cut(relay, edge)
    for client in clients:
        client.publish("one", [b"x"])
    service.run(0.2)
    service.crash(relay, CrashMode.POWER)
    service.mend(relay, edge)
    service.run(SETTLE_S)
    return _findings(reader, clients)


def _hop(service: Service, uid: str, goal: str) -> str:
    gateways = service.brokers[uid].node.gateways
    if uid == goal:
        return goal
    return gateways.uids[gateways.tables[LinkClass.NORMAL].next_hop(gateways.slots[goal])]
