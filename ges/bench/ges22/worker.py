"""One process of clients, ``python -m ges.bench.ges22.worker``: its order is the first line."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import trio

from ges.bench.ges22.orders import (
    STAMP,
    Begin,
    Counted,
    End,
    Order,
    Place,
    Publish,
    Published,
    Role,
    Said,
    Samples,
    Told,
)
from ges.bench.ges22.plan import FLAT_OUT, MATCHES, Cell, topic, topic_filter
from ges.bench.ges22.samples import Taken
from ges.bench.workers import LineReader, Ready, say, work
from ges.client import Client, Subscription, connect
from ges.errors import BenchFailed

ATTACH_SECONDS = 20.0
ACTIVE_SECONDS = 60.0
AT_ONCE = 200  #: events published before the next look at the clock, where none is waited for


class Subscribed:
    """One client of a place, and what it has got of the cell that is measured."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.taken = Taken()

    def expected(self, cell: Cell, by_value: tuple[int, ...]) -> int:
        """Return how many of the events published are for it."""
        return by_value[self.place.wants[cell.match]]


class Subscribers:
    """The subscribers of one process."""

    def __init__(self) -> None:
        self.clients: list[Subscribed] = []
        self._cell: Cell | None = None
        self._number = -1  #: of the cell
        self._came = trio.Event()

    async def take(self, client: Subscribed, subscription: Subscription) -> None:
        """Note events as they come, of one match rate."""
        while batch := await subscription.batch():
            now = time.time_ns()
            for event in batch:
                sent, number = STAMP.unpack_from(event.payload)
                if number == self._number:
                    client.taken.note(now, sent, event.hops + 1)
            self._came.set()

    def begin(self, cell: Cell) -> None:
        """Forget what has come."""
        self._cell, self._number = cell, cell.number
        for client in self.clients:
            client.taken = Taken()

    async def end(self, end: End, role: Role) -> Said:
        """Wait for what is still to come, and say what has."""
        cell = self._cell
        assert cell is not None, "a cell was begun"
        expected = [client.expected(cell, end.by_value) for client in self.clients]
        with trio.move_on_after(end.limit_s):
            while sum(client.taken.count for client in self.clients) < sum(expected):
                self._came = trio.Event()
                with trio.move_on_after(end.quiet_s) as quiet:
                    await self._came.wait()
                if quiet.cancelled_caught:
                    break
        self._number = -1
        if role is Role.CROWD:
            return Counted(sum(each.taken.count for each in self.clients), sum(expected))
        pairs = zip(self.clients, expected, strict=True)
        return Samples(tuple(each.taken.sample(each.place.broker, n) for each, n in pairs))


def main() -> None:
    """Do what the first line of standard input asks for."""
    work(_work)


async def _work(lines: LineReader) -> None:
    order = msgspec.json.decode(await lines.line() or b"", type=Order)
    if order.role is Role.PUBLISH:
        async with _attached(order.places[0]) as client:
            say(Ready())
            while (line := await lines.line()) is not None:
                told: Told = msgspec.json.decode(line, type=Told)
                if isinstance(told, Publish):
                    say(await _publish(client, told.cell, told.seconds))
        return
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        subscribers = await _subscribe(order, stack, nursery)
        say(Ready())
        while (line := await lines.line()) is not None:
            told = msgspec.json.decode(line, type=Told)
            if isinstance(told, Begin):
                subscribers.begin(told.cell)
                say(Ready())
            elif isinstance(told, End):
                say(await subscribers.end(told, order.role))
        nursery.cancel_scope.cancel()


async def _subscribe(order: Order, stack: AsyncExitStack, nursery: trio.Nursery) -> Subscribers:
    """Attach all clients, and subscribe each for all match rates.

    Raises:
        BenchFailed: the subscriptions are not active in time.
    """
    found = Subscribers()
    subscriptions: list[Subscription] = []
    for place in order.places:
        for _ in range(place.clients):
            client = await stack.enter_async_context(_attached(place))
            subscribed = Subscribed(place)
            found.clients.append(subscribed)
            for match in MATCHES:
                wanted = topic_filter(match, place.wants[match])
                subscription = await stack.enter_async_context(client.subscribe(wanted))
                subscriptions.append(subscription)
                nursery.start_soon(found.take, subscribed, subscription)
    with trio.move_on_after(ACTIVE_SECONDS) as limit:
        for subscription in subscriptions:
            await subscription.active.wait()
    if limit.cancelled_caught:
        raise BenchFailed(f"subscriptions are not active after {ACTIVE_SECONDS:g} s")
    return found


async def _publish(client: Client, cell: Cell, seconds: float) -> Published:
    """Publish events at the rate of a cell, or as fast as they are taken, for so long."""
    rest = b"x" * (cell.size - STAMP.size)
    topics = [topic(cell.match, value) for value in range(cell.values)]
    counts = [0] * cell.values
    number, began = 0, trio.current_time()
    is_paced = cell.rate != FLAT_OUT
    while (elapsed := trio.current_time() - began) < seconds:
        due = int(elapsed * cell.rate) + 1 if is_paced else number + AT_ONCE
        for value in (each % cell.values for each in range(number, due)):
            stamp = STAMP.pack(time.time_ns(), cell.number)
            await client.publish(topics[value], stamp + rest, confirm=False)
            counts[value] += 1
            if trio.current_time() >= began + seconds:
                break
        number = sum(counts)
        if is_paced:
            await trio.sleep_until(min(began + number / cell.rate, began + seconds))
    took = trio.current_time() - began
    await client.flush()
    return Published(tuple(counts), round(number / took, 2))


@asynccontextmanager
async def _attached(place: Place) -> AsyncIterator[Client]:
    async with connect(
        place.url, timeout=ATTACH_SECONDS, reattach=False, on_waiting=lambda _: None
    ) as client:
        yield client


if __name__ == "__main__":
    main()
