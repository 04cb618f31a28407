"""Whole brokers in virtual time while everything but brokers fails: each event once, in order.

Links become slow and fast, are cut one by one or all of a broker's at once; brokers join and leave,
so the ring gives links up and makes others; and all brokers publish, now and then in bursts. Nobody
dies, so nothing may be missed, and nothing doubled. Links are cut while the ring is sure of all its
brokers: in the middle of its questions about one it may take that one for dead.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest
import trio
from trio.testing import MockClock

from benchmarks.stage.brokers import Brokers, attach
from benchmarks.stage.memory_streams import MemoryStream
from benchmarks.stage.virtual import Weather
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import Client, Subscription
from overlay.address import parse_url

LATENCIES_MS = (3, 10, 40)
MAX_GUESTS = 4  #: brokers that come and go
RATE = 50  #: pauses of a publisher, a second
BURST = 30  #: events without a pause between them, after one pause in fifty
PATIENCE = 20  #: seconds for the last events


class Storm:
    """What befalls brokers, drawn at random; those it starts it also lets leave."""

    def __init__(self, rng: random.Random, brokers: Brokers, weather: Weather) -> None:
        self.done: Counter[str] = Counter()
        self._rng = rng
        self._brokers = brokers
        self._weather = weather
        self._guests: list[Broker] = []

    async def rage(self, seconds: float) -> None:
        end = trio.current_time() + seconds
        while trio.current_time() < end:
            await trio.sleep(self._rng.expovariate(2))
            what = self._rng.choice([self.slow, self.cut, self.cut_one, self.join, self.leave])
            self.done[what.__name__] += 1
            await what(*self._rng.sample(self._brokers.alive, 2))

    async def slow(self, a: Broker, b: Broker) -> None:
        pair = frozenset(parse_url(broker.url).port for broker in (a, b))
        self._weather.latency_ms[pair] = self._rng.choice(LATENCIES_MS)
        if self._rng.random() < 0.5:
            del self._weather.latency_ms[pair]

    async def cut(self, a: Broker, b: Broker) -> None:
        self._cut(a, lambda uid: True)

    async def cut_one(self, a: Broker, b: Broker) -> None:
        self._cut(a, lambda uid: uid == b.node.peer.uid)

    def _cut(self, broker: Broker, is_meant: Callable[[str], bool]) -> None:
        rings = [other.node.ring for other in self._brokers.alive]
        if any(ring.suspects or ring.detours for ring in rings):
            return
        for link in list(broker.driver.links.values()):
            if is_meant(link.peer.uid):
                assert isinstance(link.connection.stream, MemoryStream)
                link.connection.stream.cut()

    async def join(self, a: Broker, b: Broker) -> None:
        if len(self._guests) < MAX_GUESTS:
            self._guests.append(await self._brokers.start())

    async def leave(self, a: Broker, b: Broker) -> None:
        if self._guests:
            guest = self._guests.pop(self._rng.randrange(len(self._guests)))
            await self._brokers.dismiss(guest)


class Ledger:
    """Who published how many events, and who has got how many of whose, in order."""

    def __init__(self, rng: random.Random) -> None:
        self.sent: Counter[str] = Counter()
        self.got: list[Counter[str]] = []
        self._rng = rng

    async def publish(self, client: Client, seconds: float) -> None:
        end = trio.current_time() + seconds
        while trio.current_time() < end:
            for _ in range(BURST if self._rng.random() < 0.02 else 1):
                await client.publish("t", b"%d" % self.sent[client.uid])
                self.sent[client.uid] += 1
            await trio.sleep(self._rng.expovariate(RATE))
        await client.flush()

    async def take(self, events: Subscription) -> None:
        mine: Counter[str] = Counter()
        self.got.append(mine)
        async for event in events:
            assert int(event.payload) == mine[event.publisher], "none missed, none doubled"
            mine[event.publisher] += 1


async def weathered(brokers: Brokers, weather: Weather, seed: str, seconds: float) -> Storm:
    """Let a storm rage over a ring; all it must keep is checked."""
    rng = random.Random(seed)
    ring = await brokers.ring_of(rng.randint(4, 8))
    lives = [broker.node.peer for broker in ring]
    ledger, storm = Ledger(rng), Storm(rng, brokers, weather)
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(attach(b, reattach=False)) for b in ring]
        streams = [await stack.enter_async_context(c.subscribe("t")) for c in clients]
        async with trio.open_nursery() as nursery:
            for events in streams:
                nursery.start_soon(ledger.take, events)
            async with trio.open_nursery() as inner:
                for client in clients:
                    inner.start_soon(ledger.publish, client, seconds)
                inner.start_soon(storm.rage, seconds - 2)
            await until(lambda: all(mine == ledger.sent for mine in ledger.got), PATIENCE)
            nursery.cancel_scope.cancel()
    assert [broker.node.peer for broker in ring] == lives, "nobody was held for dead"
    assert [broker.stack.ordering.lost for broker in ring] == [0] * len(ring)
    for counter in ("events_without_link", "events_too_many_hops", "internal_errors"):
        assert sum(broker.driver.counters[counter] for broker in ring) == 0, counter
    return storm


async def test_a_short_storm(autojump_clock: MockClock, weather: Weather, brokers: Brokers) -> None:
    await weathered(brokers, weather, "short", 6)


@pytest.mark.soak
@pytest.mark.parametrize("seed", "abcdef")
async def test_a_long_storm(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers, seed: str
) -> None:
    storm = await weathered(brokers, weather, seed, 40)
    assert min(storm.done.values()) > 1
    assert len(storm.done) == 5, "everything befell them"
