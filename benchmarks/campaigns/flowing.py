"""Events that flow between whole brokers in memory, in virtual time, and when each came."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise

import trio

from benchmarks.stage.waiting import FIND_SECONDS
from ges.broker import Broker
from ges.client import Client, Subscription, connect
from overlay.address import parse_url

RATE = 20  #: events a second of each publisher
LAST_SECONDS = 5.0  #: for which events go on to be published in the end
SETTLE_SECONDS = 15.0  #: for the last of them, and for gaps to be given up
TOPIC = "t"
UNHEARD_MS = 1e7  #: latency of what is sent between brokers that are cut off from each other


class Arrivals:
    """What came to the subscribers, each at a broker of its own."""

    def __init__(self) -> None:
        #: by the places of publisher and subscriber among the brokers: (seconds, number) of each
        #: event in the order in which they came; numbers count from 0
        self.of: dict[tuple[int, int], list[tuple[float, int]]] = defaultdict(list)

    def missed(self, pair: tuple[int, int]) -> int:
        """Return how many events never came, as later ones show."""
        numbers = [number for _, number in self.of[pair]]
        return max(numbers, default=-1) + 1 - len(set(numbers))

    def disordered(self, pair: tuple[int, int]) -> int:
        """Return how many came twice, or after a later one."""
        return sum(later <= number for (_, number), (_, later) in pairwise(self.of[pair]))

    def next_after(self, pair: tuple[int, int], moment: float) -> float:
        """Return how many seconds after ``moment`` the next event came; infinity if none did."""
        return min((at - moment for at, _ in self.of[pair] if at > moment), default=float("inf"))


@asynccontextmanager
async def flowing(brokers: Sequence[Broker], publishers: int) -> AsyncIterator[Arrivals]:
    """Let each broker have a subscriber, and the first ``publishers`` of them a publisher.

    Events flow inside the block and for :data:`LAST_SECONDS` more; behind it all have come that
    will ever come.
    """
    arrivals = Arrivals()
    is_over = trio.Event()
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                connect(
                    broker.url, reattach=False, transport=broker.transport, timeout=FIND_SECONDS
                )
            )
            for broker in brokers
        ]
        streams = [await stack.enter_async_context(client.subscribe(TOPIC)) for client in clients]
        async with trio.open_nursery() as nursery:
            for place, events in enumerate(streams):
                nursery.start_soon(_take, arrivals, place, events)
            async with trio.open_nursery() as inner:
                for place, client in enumerate(clients[:publishers]):
                    inner.start_soon(_publish, place, client, is_over)
                yield arrivals
                await trio.sleep(LAST_SECONDS)
                is_over.set()
            await trio.sleep(SETTLE_SECONDS)
            nursery.cancel_scope.cancel()


def ports_between(some: Iterable[Broker], others: Iterable[Broker]) -> list[frozenset[int]]:
    """Return the pairs of ports between two groups, as the weather in memory knows them."""
    theirs = [parse_url(broker.url).port for broker in others]
    return [frozenset((parse_url(broker.url).port, port)) for broker in some for port in theirs]


async def _publish(place: int, client: Client, is_over: trio.Event) -> None:
    number = 0
    while not is_over.is_set():
        await client.publish(TOPIC, b"%d %d" % (place, number))
        number += 1
        await trio.sleep(1 / RATE)
    await client.flush()


async def _take(arrivals: Arrivals, place: int, events: Subscription) -> None:
    async for event in events:
        publisher, number = map(int, event.payload.split())
        arrivals.of[publisher, place].append((trio.current_time(), number))
