"""Mean, variance and throughput of what one subscriber has got, as the paper has them."""

from __future__ import annotations

from collections import Counter

import msgspec

from overlay.quantiles import quantile

NANOS_PER_MS = 1e6


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """What came to the measuring subscriber at one broker, of one cell."""

    broker: int  #: its number
    received: int
    expected: int  #: of the events that were published
    hops: dict[int, int]  #: brokers passed, both ends included: of how many events
    mean_ms: float | None = None  #: None: nothing has come
    variance_ms2: float | None = None
    lowest_ms: float | None = None
    median_ms: float | None = None
    p99_ms: float | None = None
    highest_ms: float | None = None
    received_per_s: float | None = None  #: from the first to the last; None: there are not two

    @property
    def usual_hops(self) -> int | None:
        """How many brokers most events have passed."""
        return max(self.hops, key=self.hops.__getitem__, default=None)


class Taken:
    """What one subscriber has got."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._hops: Counter[int] = Counter()
        self._first_ns = self._last_ns = 0

    @property
    def count(self) -> int:
        """How many events have come."""
        return len(self._times)

    def note(self, now_ns: int, sent_ns: int, hops: int) -> None:
        """Note an event: unix time now and when it was published; brokers passed."""
        if not self._times:
            self._first_ns = now_ns
        self._last_ns = now_ns
        self._times.append(now_ns - sent_ns)
        self._hops[hops] += 1

    def sample(self, broker: int, expected: int) -> Sample:
        """Return what is told of it."""
        times, n = sorted(self._times), len(self._times)
        found = Sample(broker=broker, received=n, expected=expected, hops=dict(self._hops))
        if not times:
            return found
        mean = sum(times) / n
        variance = sum((each - mean) ** 2 for each in times) / n
        span_ns = self._last_ns - self._first_ns
        return msgspec.structs.replace(
            found,
            mean_ms=round(mean / NANOS_PER_MS, 3),
            variance_ms2=round(variance / NANOS_PER_MS**2, 4),
            lowest_ms=round(times[0] / NANOS_PER_MS, 3),
            median_ms=round(quantile(times, 0.5) / NANOS_PER_MS, 3),
            p99_ms=round(quantile(times, 0.99) / NANOS_PER_MS, 3),
            highest_ms=round(times[-1] / NANOS_PER_MS, 3),
            received_per_s=round((n - 1) * 1e9 / span_ns, 2) if span_ns > 0 else None,
        )
