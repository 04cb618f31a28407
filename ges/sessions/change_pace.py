"""How fast a client may change its subscriptions: what is beyond it slows down its reader. Pure.

A client may change thousands at once, as it does when it starts or moves here, and then so many a
second. Nothing is refused: the client is not read for a while.
"""

from __future__ import annotations

from overlay.ids import NANOS_PER_SECOND, Nanos
from overlay.limits import Limits


class ChangePace:
    """Keeps the changes of one client to its rate."""

    __slots__ = ("_burst", "_full_at", "_rest_ns")

    def __init__(self, limits: Limits) -> None:
        self._rest_ns = int(NANOS_PER_SECOND / limits.subscription_changes_per_second)
        self._burst = limits.subscription_changes_at_once
        self._full_at: Nanos = 0  #: when as many as at first may be changed at once again

    def wait_ns(self, changes: int, now: Nanos) -> Nanos:
        """Return for how long the client is not to be read after so many changes."""
        at = now
        for _ in range(changes):
            at = max(at, self._full_at - (self._burst - 1) * self._rest_ns)
            self._full_at = max(at, self._full_at) + self._rest_ns
        return at - now
