"""One end of :mod:`benchmarks.links.express`: ``python -m ... ROLE URL [CLASS EVENTS]``."""

from __future__ import annotations

import sys
import time

import trio

from benchmarks.links.ends import Flow, say
from benchmarks.links.shape import STAMP, now
from ges.client import connect
from overlay.ids import LinkClass

RATE = 200
SIZE = 256
WARM_UP = 0.1  #: of the probes, that do not count
FILL_SECONDS = 1.0  #: of load, for queues to fill
SAY_SECONDS = 1.0


async def publish(url: str, link_class: LinkClass, events: int) -> None:
    """Publish probes at a steady pace."""
    rest = bytes(SIZE - STAMP.size)
    async with connect(url) as client:
        async for _ in Flow(events=events, size=SIZE, rate=RATE).paced():
            await client.publish("bench/probe", STAMP.pack(now()) + rest, link_class=link_class)
        await trio.sleep_forever()


async def subscribe(url: str, link_class: LinkClass, events: int) -> None:
    """Say how long the probes were under way."""
    waits: list[int] = []
    rough = 0
    async with (
        connect(url) as client,
        client.subscribe("bench/probe", link_class=link_class) as probes,
    ):
        say(ready=True)
        async for event in probes:
            waits.append(now() - STAMP.unpack_from(event.payload)[0])
            rough += link_class is LinkClass.EXPRESS and not event.express_path
            if len(waits) == events:
                break
        waits = sorted(waits[int(events * WARM_UP) :])
        p50, p99 = waits[len(waits) // 2], waits[len(waits) * 99 // 100]
        say(p50_us=p50 / 1000, p99_us=p99 / 1000, rough=rough)
        await trio.sleep_forever()


async def load_publish(url: str) -> None:
    """Publish normal events as fast as they are taken."""
    payload = bytes(SIZE)
    async with connect(url) as client:
        while True:
            await client.publish("bench/load", payload)


async def load_subscribe(url: str) -> None:
    """Take them; say that they flow, and then how many a second come."""
    async with connect(url) as client, client.subscribe("bench/load") as load:
        say(ready=True)
        began, count = 0.0, 0
        said = 0
        while events := await load.batch():
            at = time.monotonic()
            began = began or at
            count += len(events)
            if at - began >= (FILL_SECONDS if not said else SAY_SECONDS):
                say(per_second=count / (at - began))
                began, count = at, 0
                said += 1


def main() -> None:
    role, url, *more = sys.argv[1:]
    if role == "load-publish":
        trio.run(load_publish, url)
    elif role == "load-subscribe":
        trio.run(load_subscribe, url)
    else:
        end = publish if role == "publish" else subscribe
        trio.run(end, url, LinkClass(more[0]), int(more[1]))


if __name__ == "__main__":
    main()
