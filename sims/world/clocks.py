"""Clocks that run fast or slow: what a process takes for the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from overlay.ids import Nanos


class Clock(Protocol):
    """Tells the time, and lets something happen at a time that it tells."""

    @property
    def now(self) -> Nanos:
        """What time it is."""

    def at(self, time: Nanos, action: Callable[..., None], *args: object) -> None:
        """Do something then."""


class SkewedClock:
    """Counts more or fewer seconds than pass; it never jumps.

    Deadlines from before a :meth:`run_at` come when they would have come without it.
    """

    def __init__(self, true: Clock) -> None:
        self._true = true
        self._rate = 1.0
        self._since = self._shown = true.now  #: true and own time when the rate changed last

    @property
    def now(self) -> Nanos:
        """What it shows."""
        return self._shown + round((self._true.now - self._since) * self._rate)

    def run_at(self, rate: float) -> None:
        """Count ``rate`` seconds in each second from now on."""
        self._shown, self._since, self._rate = self.now, self._true.now, rate

    def true_time(self, shown: Nanos) -> Nanos:
        """Return when it shows that; what it has shown before is now."""
        true = self._since + -int((self._shown - shown) / self._rate // 1)
        return max(true, self._true.now)

    def at(self, time: Nanos, action: Callable[..., None], *args: object) -> None:
        """Do something when it shows that time."""
        self._true.at(self.true_time(time), action, *args)
