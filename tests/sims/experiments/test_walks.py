"""The way of an event by tables alone is the way that events take."""

from __future__ import annotations

from collections import Counter

import pytest

from overlay.rng import rng_for
from sims.experiments.machines import Machines
from sims.experiments.service import Service
from sims.experiments.walks import walk
from sims.world.world import CrashMode

LIMIT = 4
TOPICS = 6


def test_a_walk_is_the_way_of_a_published_event() -> None:
    service = Service.of_clusters_at_once(16, LIMIT, seed=3)
    rng = rng_for(3, "walk")
    for topic in range(TOPICS):
        for uid in rng.sample(service.alive, 1 + topic % 5):
            service.subscribe(uid, f"t/{topic}")
    service.run(2.0)
    nodes = {uid: broker.node for uid, broker in service.brokers.items()}
    publishers = {uid: service.subscribe(uid, "none") for uid in rng.sample(service.alive, 2)}
    service.run(2.0)
    for uid, client in publishers.items():
        for topic in range(TOPICS):
            before = _received(service)
            client.publish(f"t/{topic}", [b"x"])
            service.run(0.5)
            walked = walk(nodes, uid, f"t/{topic}".encode())
            assert _received(service) - before == walked.received
            assert walked.stuck == 0


def _received(service: Service) -> Counter[str]:
    return Counter(
        {uid: broker.counters["events_received"] for uid, broker in service.brokers.items()}
    )


@pytest.mark.parametrize("n", [16, pytest.param(96, marks=pytest.mark.soak)])
def test_events_come_once_to_those_that_want_them_after_deaths_and_joins(n: int) -> None:
    machines = Machines.laid_out(n, LIMIT if n == 16 else 16, seed=5)
    rng = rng_for(5, "walks")
    subscribed: dict[int, set[str]] = {topic: set() for topic in range(TOPICS)}
    for topic in range(TOPICS):
        for uid in rng.sample(machines.alive, 1 + topic % 4):
            machines.subscribe(uid, f"t/{topic}")
            subscribed[topic].add(uid)
    machines.run(2.0)
    assert all(machines.active_after(f"t/{topic}") for topic in range(TOPICS))
    for _ in range(2):
        machines.crash(rng.choice(machines.alive), CrashMode.KILL)
        machines.start(rng.sample(machines.alive, 3))
        machines.run(1.0)
    machines.run(10.0)
    machines.rest_units()
    assert machines.unit_findings() == []
    for topic in range(TOPICS):
        walked = walk(machines.brokers, rng.choice(machines.alive), f"t/{topic}".encode())
        assert walked.delivered == Counter(subscribed[topic].intersection(machines.alive))
        assert max(walked.received.values(), default=1) == 1
        assert walked.stuck == 0
