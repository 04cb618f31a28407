"""What publishers and subscribers of all systems have in common."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

import trio

from benchmarks.speed.links.shape import now

WARM_UP = 0.1  #: of the events, before anything is timed


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """How many events, of how many bytes, at how many a second; 0: as fast as they go."""

    events: int
    size: int
    rate: int = 0

    async def paced(self) -> AsyncIterator[int]:
        """Yield the number of each event when its time has come."""
        start = trio.current_time()
        for number in range(self.events):
            await trio.sleep_until(start + number / self.rate)
            yield number


class Sink:
    """Counts what comes, or notes how long each was under way; says so at the end."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._warm = int(flow.events * WARM_UP)
        self._count = 0
        self._began = 0
        self._counted_from = 0
        self._waits: list[int] = []

    def take(self, stamps: list[int]) -> None:
        """Note events that came together, by their stamps."""
        if self._flow.rate:
            arrived = now()
            self._waits += [arrived - stamp for stamp in stamps]
        self._count += len(stamps)
        if not self._began and self._count >= self._warm:
            self._began, self._counted_from = now(), self._count
        if self._count >= self._flow.events:
            seconds = (now() - self._began) / 1e9
            waits = sorted(self._waits[self._warm :]) or [0]
            say(
                per_second=(self._count - self._counted_from) / seconds,
                p50_us=waits[len(waits) // 2] / 1000,
                p99_us=waits[len(waits) * 99 // 100] / 1000,
            )
            self._count = -(2**62)  # whoever listens has heard what it wants, and ends this process


def say(**fields: object) -> None:
    """Tell the process that started this one."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()
