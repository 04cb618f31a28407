"""Events that others wait for are given up in time, and so are links they wait for."""

from __future__ import annotations

from collections.abc import Callable

import trio

from ges.routing.router import Router
from overlay.ids import NANOS_PER_SECOND, Nanos


class RouterTimer:
    """Calls :meth:`ges.routing.router.Router.expire` when it has something to do."""

    def __init__(
        self, router: Router, now: Callable[[], Nanos], *, refresh: Callable[[], None]
    ) -> None:
        """``refresh`` tells the router how things stand."""
        self._router = router
        self._now = now
        self._refresh = refresh
        self._sooner = trio.Event()
        self._settled = trio.Event()
        self._due: Nanos | None = None  #: None: nothing waits

    def look(self) -> None:
        """Something may be given up sooner than was known, or need not wait any more."""
        deadline = self._router.next_deadline()
        if deadline is not None and (self._due is None or deadline < self._due):
            self._sooner.set()
        if not self._router.keeps_events:
            self._settled.set()

    async def settled(self) -> None:
        """Wait until no event waits for a link."""
        while self._router.keeps_events:
            self._settled = trio.Event()
            await self._settled.wait()

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            self._due = self._router.next_deadline()
            self._sooner = trio.Event()
            if self._due is None:
                await self._sooner.wait()
                continue
            pause = max(0, self._due - self._now()) / NANOS_PER_SECOND
            with trio.move_on_after(pause):
                await self._sooner.wait()
                continue
            self._refresh()
            self._router.expire()
            self.look()
