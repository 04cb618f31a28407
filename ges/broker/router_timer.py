"""Events that others wait for are given up in time, and so are links they wait for."""

from __future__ import annotations

import trio

from ges.stack import Stack
from overlay.ids import Nanos
from overlay.net.alarm import Alarm


class RouterTimer:
    """Calls :meth:`ges.stack.Stack.expire` when it has something to do."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._alarm = Alarm(stack.next_deadline, self._expire, now=stack.now)
        self._settled = trio.Event()

    def look(self) -> None:
        """Something may be given up sooner than was known, or need not wait any more."""
        self._alarm.look()
        if not self._stack.keeps_events:
            self._settled.set()

    async def settled(self) -> None:
        """Wait until no event waits for a link."""
        while self._stack.keeps_events:
            self._settled = trio.Event()
            await self._settled.wait()

    async def run(self) -> None:
        """Serve until cancelled."""
        await self._alarm.run()

    def _expire(self, now: Nanos) -> None:
        self._stack.expire(now)
        self.look()
