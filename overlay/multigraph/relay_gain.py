"""What a relay path must save to be taken, and with how little it is left again.

A relay costs the work of one more broker, and one more queue. So it is to save a share of the cost
of the direct link, and a time as well. Example, with the defaults of a fifth and 1 ms: a relay of
4 ms is taken where the direct link costs 5 ms, and one of 1 ms where it costs 2 ms. A relay of
1.5 ms is not taken where the direct link costs 2 ms: a quarter is saved, but only half a
millisecond. The relay is left when the gain is below half of either: this gap keeps the two from
taking turns.
"""

from __future__ import annotations

from dataclasses import dataclass

from overlay.errors import ConfigError
from overlay.ids import Nanos, nanos

DEFAULT_SHARE = 0.2  #: a fifth of the direct link's cost ...
DEFAULT_TIME_NS = nanos(0.001)  #: ... and at least this
MAX_SHARE = 0.9
MAX_TIME_NS = nanos(10)


@dataclass(frozen=True, slots=True)
class RelayGain:
    """The least gain for which another path is taken: a share of the cost, and nanoseconds."""

    share: float = DEFAULT_SHARE
    time_ns: Nanos = DEFAULT_TIME_NS

    def is_reached(self, cost: Nanos | None, than: Nanos | None) -> bool:
        """Say whether ``cost`` is so much less; False where one of them is not known."""
        return cost is not None and than is not None and self._is_less(cost, than, 1.0)

    def is_lost(self, cost: Nanos | None, than: Nanos | None) -> bool:
        """Say whether less than half of the gain is left; False where a cost is not known."""
        return cost is not None and than is not None and not self._is_less(cost, than, 0.5)

    def _is_less(self, cost: Nanos, than: Nanos, part: float) -> bool:
        gain = than - cost
        return gain > 0 and gain >= part * self.time_ns and gain >= part * self.share * than


def check_gain(share: float, time_ns: Nanos) -> RelayGain:
    """Return the least gain of these two.

    Raises:
        ConfigError: the share is not from 0 to 0.9, or the time is negative or longer than 10 s.
    """
    if not 0 <= share <= MAX_SHARE:
        raise ConfigError(f"a relay gain of {share:g} of the cost: give 0 to {MAX_SHARE:g}")
    if not 0 <= time_ns <= MAX_TIME_NS:
        raise ConfigError(f"a relay gain of {time_ns / 1e6:g} ms: give 0 to 10 s")
    return RelayGain(share, time_ns)
