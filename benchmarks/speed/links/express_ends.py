"""One end of :mod:`benchmarks.speed.links.express`: ``python -m ... ROLE URL [CLASS EVENTS]``.

In the world these ends are on machines of their own. Here they share the processors with the
brokers, and waits for a processor are not what is measured. So the probes go before all others,
where the system permits it, and the load takes what the far broker leaves.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time

import trio

from benchmarks.speed.links.ends import Flow, say
from benchmarks.speed.links.pacing import paced
from benchmarks.speed.links.stamps import STAMP, now
from benchmarks.stage.waiting import FIND_SECONDS
from ges.client import connect
from overlay.ids import LinkClass

RATE = 200
SIZE = 256
WARM_UP = 0.1  #: of the probes, that do not count
FILL_SECONDS = 1.0  #: of load, for queues to fill
SAY_SECONDS = 1.0
LOAD_SIZE = 32
LOAD_TOPICS = [f"bench/load/{number}" for number in range(16)]


async def publish(url: str, link_class: LinkClass, events: int) -> None:
    """Publish probes at a steady pace."""
    rest = bytes(SIZE - STAMP.size)
    async with connect(url, timeout=FIND_SECONDS) as client:
        async for _ in paced(Flow(events=events, size=SIZE, rate=RATE)):
            await client.publish("bench/probe", STAMP.pack(now()) + rest, link_class=link_class)
        await trio.sleep_forever()


async def subscribe(url: str, link_class: LinkClass, events: int) -> None:
    """Say how long the probes were under way."""
    waits: list[int] = []
    rough = 0
    async with (
        connect(url, timeout=FIND_SECONDS) as client,
        client.subscribe("bench/probe", link_class=link_class) as probes,
    ):
        say(ready=True)
        async for event in probes:
            waits.append(now() - STAMP.unpack_from(event.payload)[0])
            rough += link_class.is_timed and not event.express_path
            if len(waits) == events:
                break
        waits = sorted(waits[int(events * WARM_UP) :])
        p50, p99 = waits[len(waits) // 2], waits[len(waits) * 99 // 100]
        say(p50_us=p50 / 1000, p99_us=p99 / 1000, rough=rough)
        await trio.sleep_forever()


async def load_publish(url: str) -> None:
    """Publish normal events as fast as they are taken, each to another topic than the one before.

    So brokers look at each by itself: many to one topic they would pass on as one, at a speed that
    keeps the ends busy rather than the brokers.
    """
    payload = bytes(LOAD_SIZE)
    async with connect(url, timeout=FIND_SECONDS) as client:
        while True:
            for topic in LOAD_TOPICS:
                await client.publish(topic, payload)
            os.sched_yield()  # a broker that is due need not wait for the next tick


async def load_subscribe(url: str) -> None:
    """Take those of one topic; say that they flow, and then how many a second there are of all."""
    async with (
        connect(url, timeout=FIND_SECONDS) as client,
        client.subscribe(LOAD_TOPICS[0]) as load,
    ):
        say(ready=True)
        began, count = 0.0, 0
        said = 0
        while events := await load.batch():
            at = time.monotonic()
            began = began or at
            count += len(events) * len(LOAD_TOPICS)
            if at - began >= (FILL_SECONDS if not said else SAY_SECONDS):
                say(per_second=count / (at - began))
                began, count = at, 0
                said += 1


def _go_first() -> None:
    if sys.platform == "linux":
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))


def _go_last() -> None:
    if sys.platform == "linux":
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.nice(19)


def main() -> None:
    """Run the end that the command line names until it is killed.

    Subscribers print lines of JSON: that they are ready, and then what they have measured.
    """
    role, url, *more = sys.argv[1:]
    if role.startswith("load"):
        _go_last()
        trio.run(load_publish if role == "load-publish" else load_subscribe, url)
    else:
        _go_first()
        end = publish if role == "publish" else subscribe
        trio.run(end, url, LinkClass(more[0]), int(more[1]))


if __name__ == "__main__":
    main()
