"""Brokers that take a client and hang up before they have answered anything. Pure.

For example, a load balancer greets for a broker that is gone. The client attaches, is cut off,
attaches again, and so on: each search finds somebody, so none ever ends in vain. So a broker that
answered nothing counts as none found. The client pauses longer and longer, says for whom it waits,
and gives up after a part of the time in which it would have had to find one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from ges.client.tries import RETRY_MAX_SECONDS, RETRY_SECONDS, TELL_SECONDS
from ges.errors import ConnectionLost
from overlay.address import shown

PART = 1 / 3  #: of the time for finding a broker: then it is given up
FEWEST = 2  #: in a row; one broker may have died just then

_WHAT = "takes clients, and hangs up before it answers anything"


class HangUps:
    """How often in a row a broker has hung up, and for how long that has gone on."""

    def __init__(self, timeout: float, rng: Random, on_waiting: Callable[[str], None]) -> None:
        """Begin to count.

        Args:
            timeout: seconds to find a broker; infinite: for ever.
            rng: draws the pauses.
            on_waiting: told once in a row of them for whom the client waits.
        """
        self._timeout = timeout
        self._rng = rng
        self._on_waiting = on_waiting
        self._count = 0
        self._since = 0.0  #: when the first of this row had taken us
        self._is_told = False

    def lost(self, url: str, *, has_answered: bool, since: float, now: float) -> float:
        """A broker is lost that had taken us at ``since``; return for how many seconds to pause.

        Raises:
            ConnectionLost: this has gone on for too long.
        """
        if has_answered:
            self._count, self._is_told = 0, False
            return 0.0
        if not self._count:
            self._since = since
        self._count += 1
        lasting = now - self._since
        if self._count >= FEWEST and lasting >= PART * self._timeout:
            tries = f"{self._count} times in {lasting:.1f} s"
            raise ConnectionLost(
                f"{shown(url)}: what listens there {_WHAT}, {tries}; see its log, or name another"
            )
        if lasting >= TELL_SECONDS and not self._is_told:
            self._is_told = True
            how_long = "until one answers" if self._timeout == math.inf else "a little longer"
            self._on_waiting(f"waiting for a broker: {shown(url)} {_WHAT}; trying {how_long}")
        longest = min(RETRY_MAX_SECONDS, RETRY_SECONDS * float(2 ** min(self._count - 1, 10)))
        return longest * (0.5 + self._rng.random())
