"""What publishers and subscribers of all systems have in common.

This file and ``stamps`` need nothing but the standard library: the ends of NATS run with an
interpreter of their own, where this project is not installed.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass

from benchmarks.speed.links.stamps import now

WARM_UP = 0.1  #: of the events, before anything is timed


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """How many events, of how many bytes, at how many a second; 0: as fast as they go."""

    events: int
    size: int
    rate: int = 0
    subscribers: int = 1  #: each of them takes all events


class Meter:
    """The CPU time that a publisher spends, from when it is connected."""

    def __init__(self, flow: Flow) -> None:
        self._events = flow.events
        self._from = time.process_time()

    def stop(self) -> None:
        """Say how much it was for each event; once all events are on their way."""
        say(cpu_us=(time.process_time() - self._from) / self._events * 1e6)


class Sink:
    """Counts what comes, or notes how long each was under way; says so at the end."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._warm = int(flow.events * WARM_UP)
        self._count = 0
        self._began = 0
        self._cpu_from = 0.0
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
            self._cpu_from = time.process_time()
        if self._count >= self._flow.events:
            self._report()
            self._count = -(2**62)  # whoever listens has heard what it wants, and ends this process

    def _report(self) -> None:
        seconds = (now() - self._began) / 1e9
        cpu_seconds = time.process_time() - self._cpu_from
        counted = self._count - self._counted_from
        waits = sorted(self._waits[self._warm :]) or [0]
        say(
            per_second=counted / seconds,
            p50_us=waits[len(waits) // 2] / 1000,
            p99_us=waits[len(waits) * 99 // 100] / 1000,
            cpu_us=cpu_seconds / max(1, counted) * 1e6,
        )


def say(**fields: object) -> None:
    """Tell the process that started this one."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()
