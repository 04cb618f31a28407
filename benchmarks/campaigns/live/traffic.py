"""A steady trickle of numbered events, and what became of each on its way to each subscriber."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from contextlib import suppress
from dataclasses import dataclass, field

import trio

from ges.client import Client, connect
from ges.errors import ConnectionLost, PublishRefused

TOPIC = "soak"
REATTACH_SECONDS = 30.0


@dataclass
class Pair:
    """One publisher as one subscriber hears it; times in seconds of trio's clock."""

    publisher: int
    subscriber: int
    times: list[float] = field(default_factory=list)  #: of arrivals, growing
    numbers: list[int] = field(default_factory=list)
    disorder: int = 0  #: events that came again, or after a later one
    _more: trio.Event = field(default_factory=trio.Event, compare=False, repr=False)

    def pause(self, start: float, end: float) -> float:
        """Return the longest time without an arrival that touches ``start`` to ``end``.

        The last arrival before ``start`` and the first after ``end`` count as its ends.
        """
        low = max(bisect_right(self.times, start) - 1, 0)
        high = bisect_left(self.times, end) + 1
        seen = self.times[low:high]
        if not seen:
            return end - start
        ends = [*seen, end] if seen[-1] < end else seen
        return max((b - a for a, b in itertools.pairwise(ends)), default=end - start)

    def take(self, number: int, now: float) -> None:
        """An event arrived."""
        if self.numbers and number <= self.numbers[-1]:
            self.disorder += 1
            return
        self.times.append(now)
        self.numbers.append(number)
        self._more.set()
        self._more = trio.Event()

    async def arrival(self, number: int) -> float:
        """Wait for the event with that number, or a later one; return when it arrived."""
        while not self.numbers or self.numbers[-1] < number:
            await self._more.wait()
        return self.times[bisect_left(self.numbers, number)]

    def lost(self, start: float, end: float) -> int:
        """Return how many numbers are missing among those that arrived in that time."""
        low, high = bisect_left(self.times, start), bisect_right(self.times, end)
        numbers = self.numbers[low:high]
        return numbers[-1] - numbers[0] + 1 - len(numbers) if numbers else 0


class Traffic:
    """Publishers and subscribers at given brokers; each goes to another when its own is lost."""

    def __init__(self, publish_at: list[str], subscribe_at: list[str], every_s: float) -> None:
        self.pairs = {
            (p, s): Pair(p, s) for p in range(len(publish_at)) for s in range(len(subscribe_at))
        }
        self.published = [0] * len(publish_at)  #: by each publisher so far
        self.stall_s = 0.0  #: how late the soak's own clock was at worst: it shares the machine
        self._publish_at = publish_at
        self._subscribe_at = subscribe_at
        self._every_s = every_s
        self._clients: dict[tuple[str, int], Client] = {}

    def broker_of(self, role: str, number: int) -> str:
        """Return the URL of the broker that ``publisher`` or ``subscriber`` ``number`` is at."""
        client = self._clients.get((role, number))
        return client.broker_url if client is not None else ""

    def pairs_apart_from(self, *urls: str) -> list[Pair]:
        """Return the pairs whose two clients are not attached to any of ``urls``."""
        return [
            pair
            for (p, s), pair in self.pairs.items()
            if self.broker_of("publisher", p) not in urls
            and self.broker_of("subscriber", s) not in urls
        ]

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Publish and subscribe until cancelled; started once all are attached."""
        async with trio.open_nursery() as nursery:
            for number, url in enumerate(self._subscribe_at):
                await nursery.start(self._subscriber, number, url)
            for number, url in enumerate(self._publish_at):
                await nursery.start(self._publisher, number, url)
            task_status.started()

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    async def _publisher(
        self, number: int, url: str, *, task_status: trio.TaskStatus[None]
    ) -> None:
        async with connect(url, timeout=REATTACH_SECONDS) as client:
            self._clients["publisher", number] = client
            task_status.started()
            due = trio.current_time()
            while True:
                with suppress(ConnectionLost, PublishRefused):  # then subscribers miss a number
                    await client.publish(f"{TOPIC}/{number}", str(self.published[number]).encode())
                self.published[number] += 1
                due = max(due + self._every_s, trio.current_time())
                await trio.sleep_until(due)
                self.stall_s = max(self.stall_s, trio.current_time() - due)

    async def _subscriber(
        self, number: int, url: str, *, task_status: trio.TaskStatus[None]
    ) -> None:
        async with (
            connect(url, timeout=REATTACH_SECONDS) as client,
            client.subscribe(f"{TOPIC}/#") as events,
        ):
            self._clients["subscriber", number] = client
            task_status.started()
            while batch := await events.batch():
                now = trio.current_time()
                for event in batch:
                    publisher = int(event.topic.rpartition("/")[2])
                    self.pairs[publisher, number].take(int(event.payload), now)
