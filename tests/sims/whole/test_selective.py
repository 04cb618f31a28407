"""Events go only where somebody asked for them: whole brokers in virtual time, nothing fails."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import pytest

from ges.gateways.next_hops import bits
from overlay.ids import LinkClass
from overlay.rng import rng_for
from sims.experiments.service import Service
from sims.workloads.traffic import Flowing

NORMAL = LinkClass.NORMAL
SETTLED_S = 8.0  #: links that last are known by then, and measured


def ring_of(n: int, seed: int = 1) -> Service:
    service = Service.ring_of(n, seed=seed)
    service.run(SETTLED_S)
    return service


def received(service: Service) -> dict[str, int]:
    """Return how many events each broker has had from others."""
    return {uid: broker.counters["events_received"] for uid, broker in service.brokers.items()}


def on_the_way(service: Service, source: str, wanted: Sequence[str]) -> set[str]:
    """Return whoever an event from a source passes, by the tables of all brokers."""
    found: set[str] = set()
    for goal in wanted:
        here = source
        while here != goal:
            gateways = service.brokers[here].node.gateways
            hop = gateways.tables[NORMAL].next_hop(gateways.slots[goal])
            here = gateways.uids[hop]
            found.add(here)
    return found


@pytest.mark.parametrize("n", [3, 5, 8, pytest.param(16, marks=pytest.mark.soak)])
def test_nobody_else_sees_an_event(n: int) -> None:
    service = ring_of(n)
    source, wanted = service.uids[0], service.uids[1 : 1 + max(1, n // 4)]
    for uid in wanted:
        service.subscribe(uid)
    service.run(0.5)
    publisher = service.publish(source, Flowing(rate=50))
    before, way = received(service), on_the_way(service, source, wanted)
    for _ in range(8):
        service.run(0.25)
        way |= on_the_way(service, source, wanted)  # costs are measured, and may change
    publisher.stop()
    verdict = service.finish(settle_s=1)
    assert (verdict.findings, verdict.lost) == ([], {})
    got = {uid for uid, count in received(service).items() if count > before[uid]}
    assert set(wanted) <= got <= way
    if n <= 5:
        assert got == set(wanted), "all are linked: one message, one hop for each"


def test_an_event_that_nobody_wants_stays_where_it_is() -> None:
    service = ring_of(6)
    service.subscribe(service.uids[3], "other")
    service.run(0.5)
    service.publish(service.uids[0], Flowing(rate=50))
    service.run(1)
    assert set(received(service).values()) == {0}


def test_while_nothing_changes_nobody_asks_anything() -> None:
    """One publisher publishes to four topics, so each broker sees gaps in its numbers."""
    service = ring_of(8)
    for at, uid in enumerate(service.uids):
        service.subscribe(uid, f"t{at % 3}")
    client = service.subscribe(service.uids[0], "t3")
    service.run(0.5)
    for step in range(400):
        client.publish(f"t{step % 4}", [b"x"])
        service.run(0.02)
    assert sum(received(service).values()) > 400
    for broker in service.brokers.values():
        assert broker.stack.ordering.doubts == 0
        assert broker.counters["events_recalled"] == broker.counters["events_stuck"] == 0


#: Share of brokers that want an event, and how many messages it may cost over a Steiner tree.
BARS = [(1.0, 1.0), (0.5, 1.3), (0.1, 1.3), (0.02, 1.7)]


@pytest.mark.parametrize(
    "n", [8, pytest.param(32, marks=pytest.mark.soak), pytest.param(55, marks=pytest.mark.soak)]
)
def test_messages_for_an_event_beside_a_steiner_tree(n: int) -> None:
    """The link states are those that brokers have told each other; the tree is the best known."""
    service = ring_of(n)
    rng = rng_for(n, "wanted")
    first = service.brokers[service.uids[0]].node.gateways
    graph = first.tables[NORMAL]._graph
    links = nx.Graph([(a, b) for a in graph.adjacent for b in bits(graph.adjacent[a])])
    slots = sorted(first.uids)
    for share, bar in BARS:
        spent = best = 0
        for _ in range(30):
            source = rng.choice(slots)
            others = [slot for slot in slots if slot != source]
            wanted = rng.sample(others, max(1, round(share * len(others))))
            uids = [first.uids[slot] for slot in wanted]
            spent += len(on_the_way(service, first.uids[source], uids))
            tree = nx.algorithms.approximation.steiner_tree(links, [source, *wanted])
            best += tree.number_of_edges()
        assert spent <= bar * best, (share, spent / best)
        if share == 1.0:
            assert spent == 30 * (n - 1)
