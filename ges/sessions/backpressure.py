"""Readers slow down rather than queues grow.

Whoever has read a batch, from a client or from another broker, waits here while a queue that the
batch went into is crowded. Meanwhile nothing more is read from there, and the other end is slowed
down by TCP in its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ges.routing.router import Router
from overlay.driver import Driver
from overlay.ids import Nanos
from overlay.links.memory_limit import MemoryLimit
from overlay.net.connection import hold_all


class Backpressure:
    """What follows each batch of events."""

    def __init__(
        self,
        router: Router,
        driver: Driver,
        *,
        told: Callable[[str, Nanos], None],
        memory_limits: Sequence[MemoryLimit],
        looks: Sequence[Callable[[], None]],
    ) -> None:
        """Take what is called after a batch.

        Args:
            router: knows which queues are crowded, and to whom events went.
            driver: its timers may be due sooner once ``told`` was called.
            told: called with the uid of each broker that events went to, and the time.
            memory_limits: on all clients together, and on all links.
            looks: called each time, whatever the batch was.
        """
        self._router = router
        self._driver = driver
        self._told = told
        self._memory_limits = memory_limits
        self._looks = looks

    def look_at_memory(self) -> None:
        """Give up connections where all of them together hold too much."""
        for limit in self._memory_limits:
            limit.look()

    async def relieve(self) -> None:
        """Wait a little for crowded queues."""
        for look in self._looks:
            look()
        told = self._router.told
        if told:  # who gets events needs no heartbeats, but must be heard
            now = self._driver.now()
            for uid in told:
                self._told(uid, now)
            told.clear()
            self._driver.look()
        crowded = tuple(self._router.crowded)
        self._router.crowded.clear()
        if crowded:
            self.look_at_memory()
            await hold_all(crowded)
