"""Watches links that are given up in peace, in a task: :mod:`overlay.links.stillness`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from overlay.links.link import Link
from overlay.links.stillness import LOOK_SECONDS, Stillness


class Parting(Stillness[Link]):
    """The links that part, and how far each has come."""

    def __init__(self, on_still: Callable[[Link], Awaitable[object]]) -> None:
        """``on_still``: a link stands still; called once for each."""
        super().__init__()
        self._on_still = on_still
        self._more = trio.Event()

    def note(self, link: Link) -> None:
        """A link is given up in peace, by us or the other end."""
        self.add(link, trio.current_time())
        self._more.set()

    async def run(self) -> None:
        """Look at the links now and then."""
        while True:
            if not self:
                self._more = trio.Event()
                await self._more.wait()
            await trio.sleep(LOOK_SECONDS)
            for link in self.look(trio.current_time()):
                await self._on_still(link)
