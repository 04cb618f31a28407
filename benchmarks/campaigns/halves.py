"""Events in both halves of a ring that is cut in two, and between them once they have merged.

    python -m benchmarks.campaigns.halves [--runs N] [--first SEED] [--brokers N] [--seconds S]

Whole brokers on a network in memory and in virtual time, each with a subscriber, five with a
publisher of 20 events a second. Coins cut the ring in two for S seconds; nobody is told. Printed
is what the subscribers in a publisher's own half miss, and for how long they wait. Bar H1: no event
comes twice or too late, in either half. Bar H2: the events of the other half come within 15 s of
the moment when it can be reached again. That is 5 s for the ring to be one (bar B31), and 10 s for
what is missing. Exit code 1 if one is not met.
"""

from __future__ import annotations

import argparse
import logging
import random
import statistics
import sys
from dataclasses import dataclass, field
from itertools import pairwise

import structlog
import trio
from trio.testing import MockClock

from benchmarks.arguments import above, at_least
from benchmarks.campaigns.flowing import UNHEARD_MS, Arrivals, flowing, ports_between
from benchmarks.report import Bars
from benchmarks.stage.brokers import running
from benchmarks.stage.virtual import Weather

PUBLISHERS = 5
BEFORE_SECONDS = 5.0
AFTER_SECONDS = 15.0
UNDER_WAY_SECONDS = 0.5  #: what comes so soon afterwards had left before


@dataclass
class Found:
    """What became of the events, by pairs of a publisher and a subscriber."""

    disordered: int = 0
    missed: list[int] = field(default_factory=list)  #: events, in a publisher's own half
    paused: list[float] = field(default_factory=list)  #: seconds, longest of a pair, there
    crossed: list[float] = field(default_factory=list)  #: seconds until the other half's came

    def add(self, arrivals: Arrivals, sides: list[bool], healed: float) -> None:
        """Take what came in one run; ``sides`` by broker, ``healed`` when all can be reached."""
        for publisher in range(PUBLISHERS):
            for subscriber, side in enumerate(sides):
                pair = publisher, subscriber
                self.disordered += arrivals.disordered(pair)
                if side != sides[publisher]:
                    again = arrivals.next_after(pair, healed + UNDER_WAY_SECONDS)
                    self.crossed.append(again + UNDER_WAY_SECONDS)
                else:
                    times = [at for at, _ in arrivals.of[pair]]
                    self.missed.append(arrivals.missed(pair))
                    self.paused.append(max(b - a for a, b in pairwise(times)))


async def _run(seed: int, size: int, seconds: float, found: Found) -> None:
    rng = random.Random(f"halves-{seed}")
    weather = Weather()
    async with running(weather.transport) as brokers:
        formed = await brokers.ring_of(size)
        ring = rng.sample(formed, size)  # publishers are the first, and may stand anywhere
        sides = [True, False, *(rng.random() < 0.5 for _ in range(size - 2))]
        here = [broker for broker, side in zip(ring, sides, strict=True) if side]
        there = [broker for broker, side in zip(ring, sides, strict=True) if not side]
        async with flowing(ring, PUBLISHERS) as arrivals:
            await trio.sleep(BEFORE_SECONDS)
            pairs = ports_between(here, there)
            weather.latency_ms.update(dict.fromkeys(pairs, UNHEARD_MS))
            await trio.sleep(seconds)
            weather.latency_ms.clear()
            healed = trio.current_time()
            await trio.sleep(AFTER_SECONDS)
    found.add(arrivals, sides, healed)


def main() -> int:
    """Run one ring a seed and print the figures of all; return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.campaigns.halves", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--runs", type=at_least(1), default=10)
    parser.add_argument("--first", type=int, default=0, help="seed of the first run")
    parser.add_argument("--brokers", type=at_least(PUBLISHERS), default=24)
    parser.add_argument("--seconds", type=above(0), default=12.0, help="for which it is cut")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    bars, found = Bars(), Found()
    for seed in range(options.first, options.first + options.runs):
        clock = MockClock(autojump_threshold=0)
        trio.run(_run, seed, options.brokers, options.seconds, found, clock=clock)
    missed = [events for events in found.missed if events]
    bars.note(
        f"own half: {len(missed)} of {len(found.missed)} pairs missed events, "
        f"{max(missed, default=0)} at most; paused for {max(found.paused):.2f} s at most"
    )
    bars.note(f"other half: events after {statistics.median(found.crossed):.2f} s in the median")
    bars.check("H1", "events twice, or after later ones", found.disordered, 0)
    bars.at_most("H2", "seconds until the other half's events come", max(found.crossed), 15)
    return bars.exit_code


if __name__ == "__main__":
    sys.exit(main())
