"""Events between brokers while one of them is cut off from all others, again and again.

    python -m benchmarks.campaigns.isolations [--runs N] [--first SEED] [--cuts N]

Whole brokers, 10 to 16 of them, on a network in memory and in virtual time. All but one have a
subscriber, three a publisher of 20 events a second. The one is cut off for 1 to 5 s, without a word
to anybody, and is back for 3 to 8 s, ``--cuts`` times. Bar I1: none of the others has to join anew
for it, as one that is held for dead by its own ring does. Bar I2: none of their subscribers misses
an event, as one that came later shows. Exit code 1 if one is not met.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys

import structlog
import trio
from trio.testing import MockClock

from benchmarks.arguments import at_least
from benchmarks.campaigns.flowing import UNHEARD_MS, flowing, ports_between
from benchmarks.report import Bars
from benchmarks.stage.brokers import running
from benchmarks.stage.virtual import Weather

PUBLISHERS = 3


async def _run(seed: int, cuts: int) -> tuple[int, int]:
    """Form a ring and cut one broker off ``cuts`` times while events flow.

    Returns:
        How many of the others have another place now, as they have joined anew, and how many
        events never came to their subscribers.
    """
    rng = random.Random(f"isolations-{seed}")
    weather = Weather()
    async with running(weather.transport) as brokers:
        ring = await brokers.ring_of(rng.randint(10, 16))
        victim, *others = rng.sample(ring, len(ring))
        places = [broker.node.ring.member for broker in others]
        pairs = ports_between([victim], others)
        async with flowing(others, PUBLISHERS) as arrivals:
            for _ in range(cuts):
                await trio.sleep(rng.uniform(3, 8))
                weather.latency_ms.update(dict.fromkeys(pairs, UNHEARD_MS))
                await trio.sleep(rng.uniform(1, 5))
                weather.latency_ms.clear()
        moved = 0
        for broker, before in zip(others, places, strict=True):
            now = broker.node.ring.member
            moved += now is None or before is None or now.ring_id != before.ring_id
    return moved, sum(map(arrivals.missed, list(arrivals.of)))


def main() -> int:
    """Run one ring a seed and print those with findings and the bars; return 1 if one is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.campaigns.isolations",
        description=(__doc__ or "").splitlines()[0],
    )
    parser.add_argument("--runs", type=at_least(1), default=10)
    parser.add_argument("--first", type=int, default=0, help="seed of the first run")
    parser.add_argument("--cuts", type=at_least(1), default=4, help="of the one broker, a run")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    bars, all_moved, all_missed = Bars(), 0, 0
    for seed in range(options.first, options.first + options.runs):
        clock = MockClock(autojump_threshold=0)
        moved, missed = trio.run(_run, seed, options.cuts, clock=clock)
        if moved or missed:
            bars.note(f"seed {seed}: {moved} joined anew, {missed} events lost")
        all_moved, all_missed = all_moved + moved, all_missed + missed
    cuts = options.runs * options.cuts
    bars.check("I1", f"healthy brokers that joined anew, in {cuts} cuts of another", all_moved, 0)
    bars.check("I2", "events that one or another subscriber has missed", all_missed, 0)
    return bars.exit_code


if __name__ == "__main__":
    sys.exit(main())
