"""Links given up in peace: what is under way on them is brought over, or goes another way in time.

Whoever gives a link up in peace lets it drain, and what drains is not lost. But the other end may
have been dead already, or cut off, when nobody knew; then nothing drains, and what was queued or
not acknowledged would come to those beyond it when they have long ceased to wait. So a link that
stands still goes on draining, but its events go another way. If it brings them over after all, they
come twice, and are delivered once; if the two are linked anew meanwhile, what comes over the old
connection counts no more, and the other way is the only one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from overlay.links.link import Link

#: A link over which nothing is taken and nothing comes for so long stands still. Whoever waits for
#: events waits longer, but may do so since the other end fell silent, a while before.
STILL_SECONDS = 0.5

Progress = tuple[int, int, int]


class Parting:
    """The links that part, and how far each has come."""

    def __init__(self, on_still: Callable[[Link], Awaitable[object]]) -> None:
        """``on_still``: a link stands still; called once for each."""
        self._on_still = on_still
        self._links: dict[Link, tuple[Progress, float]] = {}  #: how far it is, and since when
        self._more = trio.Event()

    def note(self, link: Link) -> None:
        """A link is given up in peace, by us or the other end."""
        self._links[link] = (_progress(link), trio.current_time())
        self._more.set()

    def forget(self, link: Link) -> None:
        """It has ended."""
        self._links.pop(link, None)

    async def run(self) -> None:
        """Look at the links now and then."""
        while True:
            if not self._links:
                self._more = trio.Event()
                await self._more.wait()
            await trio.sleep(STILL_SECONDS / 4)
            now = trio.current_time()
            for link, (before, since) in list(self._links.items()):
                progress = _progress(link)
                if progress != before:
                    self._links[link] = (progress, now)
                elif now >= since + STILL_SECONDS:
                    del self._links[link]
                    await self._on_still(link)


def _progress(link: Link) -> Progress:
    """Return bytes that the kernel has taken, events that the other end has, and that have come."""
    stream = link.connection.outbox.stream
    taken = stream.acknowledged if stream is not None else 0
    came = link.arrivals.next if link.arrivals is not None else 0
    return link.connection.sent_bytes, taken, came
