"""Who comes for the first time: logged once each, and no more than so often.

A broker that links again and again is one line, and a thousand strangers in a minute are some
lines, the next of which says how many came in between. Pure.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

import structlog

from overlay.ids import Nanos, nanos

REMEMBERED = 4096  #: of those who came; who was not seen for longest is logged again
LINES = 30  #: at most, in ...
WHILE_NS = nanos(60)


class FirstSeen:
    """Logs who links and attaches to one broker."""

    __slots__ = ("_began", "_held", "_lines", "_log", "_now", "_seen")

    def __init__(self, log: structlog.stdlib.BoundLogger, now: Callable[[], Nanos]) -> None:
        self._log = log
        self._now = now
        self._seen: OrderedDict[Hashable, None] = OrderedDict()
        self._began = now()
        self._lines = 0  #: since then
        self._held = 0  #: that came and were not logged, since the last line

    def note(self, text: str, who: Hashable, **details: object) -> None:
        """Say that ``who`` has come, unless that was said, or too much was."""
        known = (text, who)
        if known in self._seen:
            self._seen.move_to_end(known)
            return
        self._seen[known] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        now = self._now()
        if now >= self._began + WHILE_NS:
            self._began, self._lines = now, 0
        if self._lines >= LINES:
            self._held += 1
            return
        self._lines += 1
        if self._held:
            details["more_since_last_line"] = self._held
            self._held = 0
        self._log.info(text, **details)
