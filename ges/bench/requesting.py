"""Those that ask, and those that answer, in one process."""

from __future__ import annotations

import time
from contextlib import suppress

import trio

from ges.bench.figures import Times
from ges.bench.load import STAMP_BYTES, Answered, Asked, Load, Order
from ges.bench.publishing import NANOS, offset, shares, times
from ges.client import Client, Subscription
from ges.errors import NoResponders, RequestTimedOut

#: Attributes of a client's first request, which is not counted.
FIRST = {"chordal-bench": "first"}


class Asking:
    """What all that ask in this process have got so far."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._times = Times()
        self._requests = self._replies = self._nobody = 0

    async def ask_all(self, order: Order, clients: list[Client]) -> Asked:
        """Let all clients ask their share of the requests.

        Raises:
            EventError: a broker refuses a request, or is lost.
        """
        load = self._load
        await self._begin(clients)
        counts = shares(load.count, load.publishers)[order.first : order.first + len(clients)]
        began_ns, began = time.time_ns(), trio.current_time()
        async with trio.open_nursery() as nursery:
            for number, (client, count) in enumerate(zip(clients, counts, strict=True)):
                begin = began + offset(load, order.first + number)
                if load.rate:
                    nursery.start_soon(self._ask_at_a_rate, client, count, begin)
                    continue
                for part in shares(count, load.at_once):
                    nursery.start_soon(self._ask_in_turn, client, part)
        return Asked(
            self._requests,
            self._replies,
            began_ns,
            time.time_ns(),
            self._times.encoded(),
            self._nobody,
        )

    async def _begin(self, clients: list[Client]) -> None:
        """Let each client ask once: it subscribes to its replies then, and that is not measured."""

        async def ask(client: Client) -> None:
            with suppress(NoResponders, RequestTimedOut):
                await client.request(
                    self._load.topic,
                    timeout=self._load.limit_s,
                    attributes=FIRST,
                    link_class=self._load.link_class,
                )

        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(ask, client)

    async def _ask_in_turn(self, client: Client, count: int) -> None:
        for _ in range(count):
            await self._ask(client, time.perf_counter_ns())

    async def _ask_at_a_rate(self, client: Client, count: int, begin: float) -> None:
        """Ask when it is due, whether earlier requests have been answered or not.

        So a reply to one that was sent late counts as late.
        """
        load = self._load
        clock = time.perf_counter_ns() - round(trio.current_time() * NANOS)
        async with trio.open_nursery() as nursery:
            for due in times(begin, load.publishers / load.rate, count):
                if due > trio.current_time():
                    await trio.sleep_until(due)
                nursery.start_soon(self._ask, client, clock + round(due * NANOS))

    async def _ask(self, client: Client, since_ns: int) -> None:
        load = self._load
        self._requests += 1
        payload = self._requests.to_bytes(STAMP_BYTES, "big") + b"x" * load.size
        try:
            await client.request(
                load.topic,
                payload[: load.size],
                timeout=load.limit_s,
                link_class=load.link_class,
            )
        except NoResponders:
            self._nobody += 1
        except RequestTimedOut:
            pass
        else:
            self._replies += 1
            self._times.note(time.perf_counter_ns() - since_ns)


class Answers:
    """What all that answer in this process have done so far."""

    def __init__(self) -> None:
        self._requests = 0

    async def answer(self, client: Client, events: Subscription) -> None:
        """Answer each request with its own payload, until it is cancelled."""
        async for event in events:
            if event.is_request:
                self._requests += FIRST.keys().isdisjoint(event.attributes)
                await client.reply(event, event.payload)

    def report(self) -> Answered:
        """Return all of it."""
        return Answered(self._requests)
