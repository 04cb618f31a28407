"""Events that others wait for are given up in time, and so are links they wait for."""

from __future__ import annotations

from collections.abc import Callable

import trio

from ges.routing.router import Router
from overlay.ids import Nanos
from overlay.net.alarm import Alarm


class RouterTimer:
    """Calls :meth:`ges.routing.router.Router.expire` when it has something to do."""

    def __init__(
        self, router: Router, now: Callable[[], Nanos], *, refresh: Callable[[], None]
    ) -> None:
        """``refresh`` tells the router how things stand."""
        self._router = router
        self._refresh = refresh
        self._alarm = Alarm(router.next_deadline, self._expire, now=now)
        self._settled = trio.Event()

    def look(self) -> None:
        """Something may be given up sooner than was known, or need not wait any more."""
        self._alarm.look()
        if not self._router.keeps_events:
            self._settled.set()

    async def settled(self) -> None:
        """Wait until no event waits for a link."""
        while self._router.keeps_events:
            self._settled = trio.Event()
            await self._settled.wait()

    async def run(self) -> None:
        """Serve until cancelled."""
        await self._alarm.run()

    def _expire(self, now: Nanos) -> None:
        self._refresh()
        self._router.expire(now)
        self.look()
