"""A flow at a steady rate, for ends that run on trio."""

from __future__ import annotations

from collections.abc import AsyncIterator

import trio

from benchmarks.speed.links.ends import Flow


async def paced(flow: Flow) -> AsyncIterator[int]:
    """Yield the number of each event of ``flow`` when its time has come."""
    start = trio.current_time()
    for number in range(flow.events):
        await trio.sleep_until(start + number / flow.rate)
        yield number
