"""Events between brokers while one of them is cut off from all others, again and again.

    python -m benchmarks.links.isolations [--runs N] [--first SEED] [--cuts N]

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
from collections import Counter
from contextlib import AsyncExitStack

import pytest
import structlog
import trio
from trio.testing import MockClock

from benchmarks.arguments import at_least
from benchmarks.report import Bars
from ges.client import Client, Subscription, connect
from overlay.address import parse_url
from tests.helpers.brokers import Brokers, running
from tests.helpers.virtual import Weather

UNHEARD_MS = 1e7  #: latency of what is sent while a broker is cut off
RATE = 20  #: events a second of each publisher
PUBLISHERS = 3
SETTLE_SECONDS = 15.0  #: for the last events, and for gaps to be given up


class Run:
    """One ring, the events on it, and what became of them."""

    def __init__(self, seed: int, brokers: Brokers, weather: Weather) -> None:
        self.lost = 0  #: events that never came to a subscriber
        self.moved = 0  #: healthy brokers that have another place now: they have joined anew
        self._rng = random.Random(f"isolations-{seed}")
        self._brokers = brokers
        self._weather = weather
        self._is_over = False

    async def run(self, cuts: int) -> None:
        """Form a ring, cut one broker off ``cuts`` times while events flow, and count the harm.

        ``moved`` and ``lost`` are complete when it ends, :data:`SETTLE_SECONDS` after the last
        event.
        """
        ring = await self._brokers.ring_of(self._rng.randint(10, 16))
        victim, *others = self._rng.sample(ring, len(ring))
        places = [broker.node.ring.member for broker in others]
        pairs = [self._pair(victim.url, other.url) for other in others]
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(connect(b.url, reattach=False)) for b in others
            ]
            streams = [await stack.enter_async_context(c.subscribe("t")) for c in clients]
            async with trio.open_nursery() as nursery:
                for events in streams:
                    nursery.start_soon(self._take, events)
                async with trio.open_nursery() as inner:
                    for client in clients[:PUBLISHERS]:
                        inner.start_soon(self._publish, client)
                    for _ in range(cuts):
                        await trio.sleep(self._rng.uniform(3, 8))
                        self._weather.latency_ms.update(dict.fromkeys(pairs, UNHEARD_MS))
                        await trio.sleep(self._rng.uniform(1, 5))
                        self._weather.latency_ms.clear()
                    await trio.sleep(5)
                    self._is_over = True
                await trio.sleep(SETTLE_SECONDS)
                nursery.cancel_scope.cancel()
        for broker, before in zip(others, places, strict=True):
            now = broker.node.ring.member
            self.moved += now is None or before is None or now.ring_id != before.ring_id

    @staticmethod
    def _pair(*urls: str) -> frozenset[int]:
        return frozenset(parse_url(url).port for url in urls)

    async def _publish(self, client: Client) -> None:
        number = 0
        while not self._is_over:
            await client.publish("t", b"%d" % number)
            number += 1
            await trio.sleep(1 / RATE)
        await client.flush()

    async def _take(self, events: Subscription) -> None:
        due: Counter[str] = Counter()
        async for event in events:
            number = int(event.payload)
            self.lost += number - due[event.publisher]
            due[event.publisher] = number + 1


async def _run(seed: int, cuts: int) -> Run:
    with pytest.MonkeyPatch.context() as patch:
        weather = Weather(patch)
        async with running() as brokers:
            found = Run(seed, brokers, weather)
            await found.run(cuts)
    return found


def main() -> int:
    """Run one ring a seed and print those with findings and the bars; return 1 if one is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.links.isolations", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--runs", type=at_least(1), default=10)
    parser.add_argument("--first", type=int, default=0, help="seed of the first run")
    parser.add_argument("--cuts", type=at_least(1), default=4, help="of the one broker, a run")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    bars, moved, lost = Bars(), 0, 0
    for seed in range(options.first, options.first + options.runs):
        clock = MockClock(autojump_threshold=0)
        run = trio.run(_run, seed, options.cuts, clock=clock)
        if run.moved or run.lost:
            bars.note(f"seed {seed}: {run.moved} joined anew, {run.lost} events lost")
        moved, lost = moved + run.moved, lost + run.lost
    cuts = options.runs * options.cuts
    bars.check("I1", f"healthy brokers that joined anew, in {cuts} cuts of another", moved, 0)
    bars.check("I2", "events that one or another subscriber has missed", lost, 0)
    return bars.exit_code


if __name__ == "__main__":
    sys.exit(main())
