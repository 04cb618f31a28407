"""Links given up in peace: what is under way on them is brought over, or goes another way in time.

An end that gives a link up in peace lets it drain, and drained events are not lost. But the other
end may have been dead already, or cut off, when nobody knew; then nothing drains, and what was
queued or not acknowledged would come to those beyond it when they have long ceased to wait. So a
link that stands still goes on draining, but its events go another way. If it brings them over after
all, they come twice, and are delivered once; if the two are linked anew meanwhile, what comes over
the old connection counts no more, and the other way is the only one. Pure.
"""

from __future__ import annotations

from typing import Generic

from overlay.links.keeping import KeptLink, L

#: A link over which nothing is taken and nothing comes for so long stands still. Brokers wait
#: longer for missing events, but may have begun a while before, when the other end fell silent.
STILL_SECONDS = 0.5
LOOK_SECONDS = STILL_SECONDS / 4  #: between two looks at the links that part

Progress = tuple[int, int, int]


class Stillness(Generic[L]):
    """The links that part, and how far each has come. Times are seconds."""

    def __init__(self) -> None:
        self._links: dict[L, tuple[Progress, float]] = {}  #: how far it is, and since when

    def __bool__(self) -> bool:
        return bool(self._links)

    def add(self, link: L, now: float) -> None:
        """A link is given up in peace, by us or the other end."""
        self._links[link] = (_progress(link), now)

    def forget(self, link: L) -> None:
        """It has ended."""
        self._links.pop(link, None)

    def look(self, now: float) -> list[L]:
        """Return the links that stand still, each once; to be called now and then."""
        found = []
        for link, (before, since) in list(self._links.items()):
            progress = _progress(link)
            if progress != before:
                self._links[link] = (progress, now)
            elif now >= since + STILL_SECONDS:
                del self._links[link]
                found.append(link)
        return found


def _progress(link: KeptLink) -> Progress:
    """Return bytes that the kernel has taken, events that the other end has, and that have come."""
    stream = link.connection.outbox.stream
    taken = stream.acknowledged if stream is not None else 0
    came = link.arrivals.next if link.arrivals is not None else 0
    return link.connection.sent_bytes, taken, came
