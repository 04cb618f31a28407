"""Who of those that connect is let in at all: a rate for each remote address, by token buckets.

Pure: the time is an argument. The table of addresses is bounded; the one not seen for longest is
forgotten first, and starts with a full bucket when it comes back.
"""

from __future__ import annotations

from collections import OrderedDict

from overlay.address import site_of
from overlay.ids import NANOS_PER_SECOND, Nanos
from overlay.limits import Limits


class Doorkeeper:
    """Counts connections by remote address."""

    __slots__ = ("_buckets", "_limits")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buckets: OrderedDict[str, tuple[float, Nanos]] = OrderedDict()

    def __len__(self) -> int:
        """Return how many addresses are remembered."""
        return len(self._buckets)

    def admit(self, host: str, now: Nanos) -> bool:
        """Say whether one more connection from ``host`` is within its rate, and count it if so."""
        limits = self._limits
        rate = limits.connections_per_second
        if rate <= 0:
            return True
        site = site_of(host)
        most = float(limits.connections_at_once)
        left, since = self._buckets.pop(site, (most, now))
        left = min(most, left + (now - since) * rate / NANOS_PER_SECOND)
        is_admitted = left >= 1
        self._buckets[site] = (left - 1 if is_admitted else left, now)
        if len(self._buckets) > limits.hosts:
            self._buckets.popitem(last=False)
        return is_admitted
