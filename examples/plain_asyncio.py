"""A thermometer and its display, under asyncio; they go on when their broker dies.

    chordal serve --listen 127.0.0.1:9470 &
    chordal serve --listen 127.0.0.1:9480 --join 127.0.0.1:9470 &
    python examples/plain_asyncio.py chordal://127.0.0.1:9470

Kill the first broker: the display says where it has gone, and no reading is missing. With --uvloop
it runs on uvloop.
"""

from __future__ import annotations

import argparse
import asyncio

from ges.client.aio import Client, Gap, Subscription, connect


async def measure(client: Client, count: int, every: float) -> None:
    """Publish so many readings, one each ``every`` seconds."""
    for number in range(count):
        await client.publish("home/kitchen/temperature", f"{20 + number % 5}.5".encode())
        await asyncio.sleep(every)
    await client.flush()


async def show(readings: Subscription, count: int) -> None:
    """Print what comes."""
    number = 0
    async for reading in readings:
        number += 1
        print(f"{number}: {reading.topic} {reading.payload.decode()}", flush=True)
        if number == count:
            break


def moved(gap: Gap) -> None:
    """Say that there is another broker now."""
    print(f"moved from {gap.lost} to {gap.found}, after {gap.seconds:.1f} s", flush=True)


async def main(url: str, count: int, every: float) -> None:
    """Attach, and let both work."""
    async with (
        connect(url, on_gap=moved) as client,
        client.subscribe("home/+/temperature") as readings,
        asyncio.TaskGroup() as tasks,
    ):
        await readings.active.wait()  # from now on nothing is missed, wherever it is published
        print(f"attached to {client.broker_url}", flush=True)
        tasks.create_task(measure(client, count, every))
        tasks.create_task(show(readings, count))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A thermometer and its display.")
    parser.add_argument("url", help="chordal://HOST:PORT of a broker, or several, with commas")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--uvloop", action="store_true")
    options = parser.parse_args()
    program = main(options.url, options.count, options.every)
    if options.uvloop:
        import uvloop

        uvloop.run(program)
    else:
        asyncio.run(program)
