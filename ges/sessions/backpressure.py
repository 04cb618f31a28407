"""Readers slow down rather than queues grow.

A reader that has read a batch, from a client or from another broker, waits here while a queue that
the batch went into is crowded. Meanwhile nothing more is read from there, and the other end is
slowed down by TCP in its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ges.stack import Stack
from overlay.driver import Driver
from overlay.net.holding_back import hold_back
from overlay.queues.pace import Allowance


class Looking(Protocol):
    """A limit on memory."""

    def look(self) -> None:
        """See that it is kept to; quick where that was looked at just now."""


class Backpressure:
    """What follows each batch of events."""

    def __init__(
        self,
        stack: Stack,
        driver: Driver,
        *,
        memory_limits: Sequence[Looking],
        looks: Sequence[Callable[[], None]],
    ) -> None:
        """Take what is called after a batch.

        Args:
            stack: tells the ring to whom events went.
            driver: knows which queues are crowded; its timers may be due sooner then.
            memory_limits: on all clients together, on all links, and on all that is held.
            looks: called each time, whatever the batch was.
        """
        self._stack = stack
        self._driver = driver
        self._memory_limits = memory_limits
        self._looks = looks

    def look_at_memory(self) -> None:
        """Give up connections where all of them together hold too much."""
        for limit in self._memory_limits:
            limit.look()

    async def relieve(self, allowance: Allowance) -> None:
        """Wait for crowded queues, as long as :mod:`overlay.net.holding_back` says.

        ``allowance``: of the publisher or the link that is not read meanwhile.
        """
        for look in self._looks:
            look()
        if self._stack.tell_ring():
            self._driver.look()
        turn = self._driver.turn
        if turn.crowded:
            self.look_at_memory()
            await hold_back(turn, allowance)
        else:
            turn.fed.clear()
