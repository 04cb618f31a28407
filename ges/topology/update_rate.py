"""When to tell again of what changes: soon if it has not for a while, seldom if it never stops."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.ids import Nanos


@dataclass(frozen=True, slots=True)
class Rate:
    """At most once in ``least_ns``; beyond ``burst`` times, once in ``rest_ns`` in the mean.

    The limit is that of a bucket of ``burst`` tokens, filled again by one every ``rest_ns``.
    """

    least_ns: Nanos
    rest_ns: Nanos
    burst: int


class RateLimit:
    """Keeps one thing that is done again and again to a rate."""

    __slots__ = ("_done_at", "_full_at", "_rate")

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._done_at: Nanos | None = None
        self._full_at: Nanos = 0  #: when all tokens are there again

    def next(self, now: Nanos) -> Nanos:
        """Return when it may be done next, from now on; it counts as done then."""
        rate = self._rate
        at = max(now, self._full_at - (rate.burst - 1) * rate.rest_ns)
        if self._done_at is not None:
            at = max(at, self._done_at + rate.least_ns)
        self._done_at = at
        self._full_at = max(at, self._full_at) + rate.rest_ns
        return at
