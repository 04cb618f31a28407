"""Whole brokers of many clusters with many subscribers, of which some die and others join.

    python -m benchmarks.campaigns.large [--nodes N] [--subscriptions N] [--seconds S]
        [--unit-limit L] [--seed S]

Units are there from the beginning. Each subscriber has one of 500 topics; 20 publishers publish on
all of them in turn, 5 events a second each. Every four seconds a broker dies, without a word or
with its connections closed, and another one joins. In the end it is judged what has come to whom:
nothing twice, nothing out of order, nothing to the wrong subscriber; and nothing published while a
subscription was active may be missing, but what a broker had that died.

64 brokers take a minute of a core.
"""

from __future__ import annotations

import argparse
import sys
import time

from benchmarks.arguments import at_least
from benchmarks.report import Bars, print_line
from overlay.rng import rng_for
from sims.experiments.service import Service
from sims.workloads.traffic import Flowing
from sims.world.world import CrashMode

TOPICS = 500
PUBLISHERS = 20
RATE = 5.0  #: events a second of each
SETTLE_S = 5.0  #: for subscriptions
EVERY_S = 4  #: a broker dies, and another one joins


def main() -> None:
    """Run, and print the verdict."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.campaigns.large", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--nodes", type=at_least(8), default=256)
    parser.add_argument("--subscriptions", type=at_least(1), default=2500)
    parser.add_argument("--seconds", type=at_least(1), default=60)
    parser.add_argument("--unit-limit", type=at_least(4), default=64)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    begun = time.process_time()
    service = Service.of_clusters_at_once(
        given.nodes, given.unit_limit, given.seed, keeps_alive=True
    )
    _print(f"{given.nodes} brokers have formed", begun)
    rng = rng_for(given.seed, "large")
    for _ in range(given.subscriptions):
        service.subscribe(rng.choice(service.alive), _topic(rng.randrange(TOPICS)))
    service.run(SETTLE_S)
    _print(f"{given.subscriptions} subscribers are served", begun)
    for _ in range(PUBLISHERS):
        topics = [_topic(number) for number in range(TOPICS)]
        rng.shuffle(topics)
        service.publish(rng.choice(service.alive), Flowing(topics=tuple(topics), rate=RATE))
    before = service.counters
    for _ in range(given.seconds // EVERY_S):
        service.crash(rng.choice(service.alive), rng.choice([*CrashMode]))
        service.start(rng.sample(service.alive, 3))
        service.run(EVERY_S)
    after = service.counters
    _print(f"{given.seconds} s of churn are over", begun)
    verdict = service.finish()
    relayed = after["events_relayed"] - before["events_relayed"]
    received = after["events_received"] - before["events_received"]
    print_line(f"{received} events came to brokers, {relayed} of them on their way to others")
    print_line(f"{verdict}")
    for finding in verdict.findings[:20]:
        print_line(finding)
    bars = Bars()
    bars.at_most("H17", "findings", len(verdict.findings), 0)
    sys.exit(bars.exit_code)


def _topic(number: int) -> str:
    return f"many/{number % 20}/{number}"


def _print(text: str, begun: float) -> None:
    print_line(f"{text}, after {time.process_time() - begun:.0f} s of computing")


if __name__ == "__main__":
    main()
