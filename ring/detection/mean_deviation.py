"""Running mean and deviation of times, as TCP keeps them for its round trips.

V. Jacobson, M. Karels, "Congestion avoidance and control", 1988, appendix A: a sample moves the
mean by an eighth of its error, and the deviation by a quarter of its own distance from the error's
size. Integers only, so that every run is repeatable; both are in nanoseconds.
"""

from __future__ import annotations

from overlay.ids import Nanos

DEVIATIONS = 4  #: waited for beyond the mean, as in TCP's retransmission time-out


class MeanDeviation:
    """What has been measured of one kind of wait."""

    __slots__ = ("deviation", "mean", "samples")

    def __init__(self) -> None:
        self.mean: Nanos = 0
        self.deviation: Nanos = 0
        self.samples = 0

    def add(self, sample: Nanos) -> None:
        """Take one measured wait, in nanoseconds."""
        if self.samples == 0:
            self.mean, self.deviation = sample, sample // 4
        else:
            error = sample - self.mean
            self.mean += error // 8
            self.deviation += (abs(error) - self.deviation) // 4
        self.samples += 1

    def within(self, floor: Nanos, ceiling: Nanos) -> Nanos:
        """Return how long to wait before what is awaited counts as missing.

        The mean and four deviations, but never less than ``floor`` nor more than ``ceiling``.
        """
        return min(max(self.mean + DEVIATIONS * self.deviation, floor), ceiling)
