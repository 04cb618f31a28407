"""How often one address may show a wrong token: a few times, and then once in a while. Pure.

The time is an argument. The table of addresses is bounded; the one that has not shown any for
longest is forgotten first.
"""

from __future__ import annotations

import math
from collections import OrderedDict

from overlay.address import site_of
from overlay.ids import NANOS_PER_SECOND, Nanos

AT_ONCE = 10  #: wrong tokens of one address
EACH_SECONDS = 6.0  #: then one more each so many seconds
MAX_SITES = 1024


class Guesses:
    """Wrong tokens, by the address that has shown them."""

    def __init__(self) -> None:
        self._left: OrderedDict[str, tuple[float, Nanos]] = OrderedDict()

    def __len__(self) -> int:
        """Return how many addresses are remembered."""
        return len(self._left)

    def wait_seconds(self, host: str, now: Nanos) -> int:
        """Return for how many seconds an address may show no token; 0: it may now."""
        left = self._now_left(site_of(host), now)
        return 0 if left >= 1 else math.ceil((1 - left) * EACH_SECONDS)

    def missed(self, host: str, now: Nanos) -> None:
        """An address has shown a wrong token."""
        site = site_of(host)
        self._left[site] = (self._now_left(site, now) - 1, now)
        self._left.move_to_end(site)
        if len(self._left) > MAX_SITES:
            self._left.popitem(last=False)

    def _now_left(self, site: str, now: Nanos) -> float:
        left, since = self._left.get(site, (float(AT_ONCE), now))
        return min(float(AT_ONCE), left + (now - since) / NANOS_PER_SECOND / EACH_SECONDS)
