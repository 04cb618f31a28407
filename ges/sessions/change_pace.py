"""How fast a client may change its subscriptions: what is beyond it slows down its reader. Pure.

A client may change thousands at once, as it does when it starts or moves here, and then so many a
second. Nothing is refused: the client is not read for a while.
"""

from __future__ import annotations

from ges.topology.update_rate import Rate, RateLimit
from overlay.ids import NANOS_PER_SECOND, Nanos
from overlay.limits import Limits


class ChangePace:
    """Keeps the changes of one client to its rate."""

    __slots__ = ("_limit",)

    def __init__(self, limits: Limits) -> None:
        rest_ns = int(NANOS_PER_SECOND / limits.subscription_changes_per_second)
        self._limit = RateLimit(Rate(0, rest_ns, limits.subscription_changes_at_once))

    def wait_ns(self, changes: int, now: Nanos) -> Nanos:
        """Return for how long the client is not to be read after so many changes."""
        at = now
        for _ in range(changes):
            at = self._limit.next(now)
        return at - now
