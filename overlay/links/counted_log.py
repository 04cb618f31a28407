"""What strangers do wrong: counted each time, logged once a minute for each kind.

A flood of bad connections must not become a flood of log lines: the first of its kind is logged,
and the next after a minute says how many came in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import structlog

from overlay.ids import Nanos, nanos

QUIET_NS = nanos(60)


class OncePerWhile:
    """Lets one of each kind pass in a while, and counts the others. Kinds are the code's own."""

    __slots__ = ("_held", "_quiet_ns", "_until")

    def __init__(self, quiet_ns: Nanos = QUIET_NS) -> None:
        self._quiet_ns = quiet_ns
        self._until: dict[str, Nanos] = {}
        self._held: Counter[str] = Counter()

    def passes(self, kind: str, now: Nanos) -> int | None:
        """Return how many were held back since the last that passed; None: this one is, too."""
        if now < self._until.get(kind, now):
            self._held[kind] += 1
            return None
        self._until[kind] = now + self._quiet_ns
        return self._held.pop(kind, 0)


class CountedLog:
    """Counts and logs, for one part of a broker."""

    __slots__ = ("_counters", "_log", "_now", "_once_per_while")

    def __init__(
        self,
        counters: Counter[str],
        log: structlog.stdlib.BoundLogger,
        now: Callable[[], Nanos],
    ) -> None:
        self._counters = counters
        self._log = log
        self._now = now
        self._once_per_while = OncePerWhile()

    def count(self, kind: str, many: int = 1) -> None:
        """Count so many more of ``kind`` and say nothing."""
        self._counters[kind] += many

    def note(self, kind: str, text: str, **details: object) -> None:
        """Count one more of ``kind``, a counter's name, and say so unless that was said lately."""
        self._counters[kind] += 1
        held = self._once_per_while.passes(kind, self._now())
        if held is None:
            self._log.debug(text, **details)
            return
        if held:
            details["more_since_last_line"] = held
        self._log.warning(text, **details)
