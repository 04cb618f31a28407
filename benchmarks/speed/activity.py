"""How long a subscription takes to be active, in one cluster and in overlays of several.

    python -m benchmarks.speed.activity [--nodes N] [--unit-limit L] [--subscriptions S] [--seed S]

Whole brokers in virtual time, on links of a LAN. Clients at random brokers subscribe, each to a
topic of its own that nothing covers, one after the other; the time is from the request until the
client is told that the subscription is active: all brokers that may publish for it know of it.
Another round asks for what is covered already.

The bar is 100 ms in 99 % of all, in a cluster as large as there can be.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.arguments import at_least
from benchmarks.report import Bars, print_line
from ges.units.planner import UnitsConfig
from ges.wire.delivered import Event
from overlay.ids import NANOS_PER_SECOND, LinkClass, Nanos
from overlay.quantiles import quantile
from overlay.rng import rng_for
from sims.experiments.service import Service
from sims.world.clients import SimulatedClient
from sims.world.timeline import Timeline

BAR_MS = 100.0
LARGEST_CLUSTER = 55
PAUSE_S = 0.2  #: between two subscriptions
SETTLE_S = 60.0  #: for units to form, and to know of each other


class Timer:
    """A user that notes when its subscriptions are served."""

    def __init__(self, clock: Timeline) -> None:
        self._clock = clock
        self.is_attached = False
        self.asked_at: Nanos = 0
        self.took: list[float] = []  #: milliseconds

    def on_attached(self, broker: str) -> None:
        """A broker has taken the client."""
        self.is_attached = True

    def on_lost(self) -> None:
        """The broker is lost."""

    def on_subscribed(self) -> None:
        """A subscription is active."""
        self.took.append(1000 * (self._clock.now - self.asked_at) / NANOS_PER_SECOND)

    def on_accepted(self, link_class: LinkClass, sequence: int) -> None:
        """Nothing is published."""

    def on_refused(self, link_class: LinkClass, sequence: int, reason: str) -> None:
        """Nothing is published."""

    def on_events(self, events: list[Event]) -> None:
        """Nothing is published."""


def overlay(nodes: int, limit: int, seed: int) -> Service:
    """Return a ring of brokers whose units know of each other."""
    service = Service(seed, units=UnitsConfig(limit))
    service.start(())
    while len(service.brokers) < nodes:
        service.start(service.uids[-8:])
        service.run(0.05)
    service.run(SETTLE_S)
    return service


def measure(service: Service, count: int, seed: int) -> tuple[list[float], list[float]]:
    """Return how long subscriptions took that nothing covered, and those that were covered."""
    rng = rng_for(seed, "activity")
    timers: list[tuple[Timer, SimulatedClient]] = []
    for number in range(min(count, len(service.brokers))):
        timer = Timer(service.timeline)
        uid = rng.choice(service.alive)
        client = service.attach(uid, f"timer-{number}", timer)
        timers.append((timer, client))
    service.run(2)
    found: list[list[float]] = [[], []]
    for covered in (False, True):
        for number in range(count):
            timer, client = timers[number % len(timers)]
            before = len(timer.took)
            timer.asked_at = service.timeline.now
            client.subscribe(f"a/{number}/{'b' if covered else '#'}")
            service.run(PAUSE_S)
            while len(timer.took) == before:
                service.run(0.05)
            found[covered].append(timer.took[-1])
    return found[0], found[1]


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.activity", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--nodes", type=at_least(1), default=LARGEST_CLUSTER)
    parser.add_argument("--unit-limit", type=at_least(3), default=64)
    parser.add_argument("--subscriptions", type=at_least(1), default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    service = overlay(given.nodes, given.unit_limit, given.seed)
    clusters = {service.brokers[uid].node.units.cluster for uid in service.alive}
    print_line(f"{given.nodes} brokers in {len(clusters)} clusters, {given.subscriptions} each")
    bars = Bars()
    for name, took in zip(
        ("uncovered", "covered"),
        measure(service, given.subscriptions, given.seed),
        strict=True,
    ):
        p50, p99 = quantile(took, 0.5), quantile(took, 0.99)
        print_line(f"  {name}: p50 {p50:.1f} ms, p99 {p99:.1f} ms, most {max(took):.1f} ms")
        bars.at_most("activity", f"{name}, p99 in ms", p99, BAR_MS)
    sys.exit(bars.exit_code)


if __name__ == "__main__":
    main()
