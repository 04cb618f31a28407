"""A broker that was off the ring for a moment: its clients miss nothing, whoever was silent since.

Each publisher publishes one event, so no later one of it shows that something is missing.
"""

from __future__ import annotations

import pytest

from ges.wire.delivered import Event
from ring.facts import Move
from sims.experiments.service import Service
from sims.workloads.traffic import User

PUBLISHERS = 60
PAUSE_S = 0.02
MORE = range(2, 9)  #: seeds


class Counted(User):
    """Notes whose events have come."""

    def __init__(self, service: Service) -> None:
        super().__init__("counted", service.timeline, service.deliveries)
        self.got: list[str] = []

    def on_events(self, events: list[Event]) -> None:
        """Events have come."""
        self.got += [event.publisher for event in events]


def missed(service: Service, away: str) -> list[str]:
    """Let clients of other brokers publish one event each, and return whose did not come."""
    counted = Counted(service)
    service.attach(away, "counted", counted).subscribe("one")
    others = [uid for uid in service.alive if uid != away]
    clients = [service.subscribe(others[at % len(others)], "none") for at in range(PUBLISHERS)]
    service.run(2)
    assert counted.broker == away
    for at, client in enumerate(clients):
        if at == 5:
            service.give(away, Move("to see what its clients miss"))
        client.publish("one", [b"x"])
        service.run(PAUSE_S)
    service.run(12)
    assert counted.broker == away, "its client stays with it"
    assert len(counted.got) == len({*counted.got}), "nothing comes twice"
    return [client.uid for client in clients if client.uid not in counted.got]


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.soak) for s in MORE)])
def test_clients_of_a_broker_that_joins_anew_miss_nothing(seed: int) -> None:
    service = Service.ring_of(6, seed)
    service.run(8)
    assert missed(service, service.uids[3]) == []


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.soak) for s in MORE)])
def test_so_they_do_where_there_are_several_clusters(seed: int) -> None:
    service = Service.of_clusters(8, 3, seed)
    assert missed(service, service.uids[3]) == []
