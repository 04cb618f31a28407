"""Who of those that connect, or link, is let in at all: a rate for each source, by token buckets.

A connection counts to its remote address, a link to its certificate or else to its address. A link
costs a broker some hundred times what a connection costs, so there are to be fewer of them.

Pure: the time is an argument. The table of sources is bounded; the one not seen for longest is
forgotten first, and starts with a full bucket when it comes back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from overlay.address import site_of
from overlay.ids import NANOS_PER_SECOND, Nanos
from overlay.limits import Limits


def of_connections(limits: Limits) -> tuple[float, int]:
    """Return how many connections one address may make in a second, and at once."""
    return limits.connections_per_second, limits.connections_at_once


def of_links(limits: Limits) -> tuple[float, int]:
    """Return how many links one source may make in a second, and at once."""
    return limits.links_per_second, limits.links_of_one or limits.links


class Doorkeeper:
    """Counts connections, or links, by their source."""

    __slots__ = ("_buckets", "_limits", "_rate")

    def __init__(
        self, limits: Limits, rate: Callable[[Limits], tuple[float, int]] = of_connections
    ) -> None:
        """``rate`` returns how many one source may make in a second, and at once; 0: no limit."""
        self._limits = limits
        self._rate = rate
        self._buckets: OrderedDict[str, tuple[float, Nanos]] = OrderedDict()

    def __len__(self) -> int:
        """Return how many sources are remembered."""
        return len(self._buckets)

    def admit(self, host: str, now: Nanos) -> bool:
        """Say whether one more from ``host``, or that source, is within its rate; counts it."""
        rate, at_once = self._rate(self._limits)
        if rate <= 0:
            return True
        site, most = site_of(host), float(at_once)
        left, since = self._buckets.pop(site, (most, now))
        left = min(most, left + (now - since) * rate / NANOS_PER_SECOND)
        is_admitted = left >= 1
        self._buckets[site] = (left - 1 if is_admitted else left, now)
        if len(self._buckets) > self._limits.hosts:
            self._buckets.popitem(last=False)
        return is_admitted
