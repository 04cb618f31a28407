"""The publishers of one process."""

from __future__ import annotations

import time
from collections.abc import Iterator

import trio

from ges.bench.figures import Times
from ges.bench.load import STAMP_BYTES, Load, Order, Published
from ges.client import Client

NANOS = 1_000_000_000


def shares(total: int, parts: int) -> list[int]:
    """Part a number into whole ones that differ by one at most, the larger ones first."""
    return [total // parts + (number < total % parts) for number in range(parts)]


async def publish_all(order: Order, clients: list[Client]) -> Published:
    """Let all clients publish their share; returns once all is confirmed.

    Raises:
        EventError: a broker refuses an event, or is lost.
    """
    load = order.load
    counts = shares(load.count, load.publishers)[order.first : order.first + len(clients)]
    confirms = Times()
    began_ns, began = time.time_ns(), trio.current_time()
    async with trio.open_nursery() as nursery:
        for number, (client, count) in enumerate(zip(clients, counts, strict=True)):
            begin = offset(load, order.first + number)
            nursery.start_soon(_publish, client, load, count, began + begin, confirms)
    encoded = confirms.encoded() if load.confirm else b""
    return Published(sum(counts), began_ns, time.time_ns(), encoded)


def offset(load: Load, number: int) -> float:
    """Return the seconds that one publisher begins later, so that not all publish at once."""
    return number / load.rate if load.rate else 0.0


async def _publish(client: Client, load: Load, count: int, begin: float, confirms: Times) -> None:
    topic, link_class, confirm = load.topic, load.link_class, load.confirm
    payload = b"x" * load.size
    rest = payload[STAMP_BYTES:]
    if not load.rate:
        for _ in range(count):
            asked = time.perf_counter_ns()
            await client.publish(topic, payload, link_class=link_class, confirm=confirm)
            if confirm:
                confirms.note(time.perf_counter_ns() - asked)
    else:
        pause = load.publishers / load.rate
        unix = time.time_ns() - round(trio.current_time() * NANOS)  #: of the clock that paces
        for due in times(begin, pause, count):
            if due > trio.current_time():
                await trio.sleep_until(due)
            asked = time.perf_counter_ns()
            if load.is_stamped:
                payload = (unix + round(due * NANOS)).to_bytes(STAMP_BYTES, "big") + rest
            await client.publish(topic, payload, link_class=link_class, confirm=confirm)
            if confirm:
                confirms.note(time.perf_counter_ns() - asked)
    await client.flush()


def times(begin: float, pause: float, count: int) -> Iterator[float]:
    """Yield when so many events are due, with a pause of so many seconds between them."""
    return (begin + number * pause for number in range(count))
