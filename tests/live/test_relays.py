"""Real brokers, one link of which becomes slow: events go by way of another broker, and return."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Broker, Fleet, whole
from benchmarks.stage.proxy import free_port
from benchmarks.stage.waiting import eventually
from tests.helpers.slow_proxy import SlowProxy

pytestmark = pytest.mark.live

SLOW_SECONDS = 0.1
EVENTS = 200


def relay(here: Broker, there: Broker) -> list[str] | None:
    """Return by whom normal events go from one broker to another; None: by the direct link."""
    for way in here.status()["ways"]:
        if (way["uid"], way["link_class"]) == (there.uid, "normal"):
            return [*way["path"][:-1]]
    return None


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def test_events_leave_a_slow_link_and_come_back(brokers: Fleet, stack: ExitStack) -> None:
    fronts = []
    for _ in range(3):
        port = free_port()
        front = stack.enter_context(closing(SlowProxy(port)))
        join = ("--join", brokers.brokers[0].url) if brokers.brokers else ()
        place = ("--listen", f"127.0.0.1:{port}", "--advertise", f"127.0.0.1:{front.port}")
        assert brokers.broker(*place, *join).ready
        fronts.append(front)
    a, b, c = brokers.brokers
    whole(a.url, 3)
    count = 3 * EVENTS
    subscriber = brokers.subscriber("t", b.url, "--count", str(count))

    def publish(start: int) -> None:
        for number in range(start, start + EVENTS, EVENTS // 4):
            lines = "".join(f"{n}\n" for n in range(number, number + EVENTS // 4))
            done = chordal_here("pub", "t", "-", "--lines", "--broker", a.url, given=lines)
            assert done.returncode == 0, done.stderr

    eventually(lambda: all(link["rtt_ms"] for link in a.status()["links"]), what="measured links")
    publish(0)
    fronts[0].slow.add(b.uid)
    fronts[1].slow.add(a.uid)
    for front in fronts:
        front.seconds = SLOW_SECONDS
    began = time.monotonic()
    eventually(lambda: relay(a, b) == [c.uid], what="a relay")
    assert time.monotonic() - began < 15
    publish(EVENTS)
    # It is a relay, or the next hop once all have heard what the slow link costs.
    ways = "events_sent_round", "events_received"
    eventually(lambda: any(map(c.status()["counters"].get, ways)), what="events by way of it")

    for front in fronts:
        front.seconds = 0.0
    eventually(lambda: relay(a, b) is None, timeout=60, what="the direct link")
    publish(2 * EVENTS)
    assert subscriber.ended() == 0
    assert [line.split()[-1] for line in subscriber.out.splitlines()] == [
        str(number) for number in range(count)
    ]
