"""What a broker has seen of failures since it started, counted for the metrics."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

from overlay.ids import NANOS_PER_SECOND
from overlay.machine import Fact
from overlay.trace_schema import Incident, Verdict
from ring.facts import Suspected

#: Upper ends in seconds: a death that closes sockets is found in milliseconds, a silent one in
#: seconds, and in ``wan`` in up to ten.
DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Histogram:
    """Durations by upper ends, as Prometheus has them."""

    def __init__(self) -> None:
        self.total_s = 0.0
        self._counts = [0] * (len(DURATIONS) + 1)

    def add(self, seconds: float) -> None:
        """Count one."""
        self._counts[bisect_left(DURATIONS, seconds)] += 1
        self.total_s += seconds

    def buckets(self) -> list[tuple[str, int]]:
        """Return for each upper end how many were at most that long."""
        found, so_far = [], 0
        for end, count in zip((*DURATIONS, float("inf")), self._counts, strict=True):
            so_far += count
            found.append(("+Inf" if end == float("inf") else f"{end}", so_far))
        return found


class Chronicle:
    """Suspicions, verdicts, and how long it took to find and to repair."""

    def __init__(self) -> None:
        self.suspicions = 0
        self.verdicts: Counter[Verdict] = Counter()
        self.detections = Histogram()  #: of deaths: from the first suspicion to the verdict
        self.repairs = Histogram()  #: of deaths: from the first suspicion to a whole ring

    def on_fact(self, fact: Fact, incident: Incident | None) -> None:
        """Take what the broker is told."""
        if isinstance(fact, Suspected):
            self.suspicions += 1
        if incident is None:
            return
        self.verdicts[incident.verdict] += 1
        began = incident.suspected_ns
        if incident.verdict is not Verdict.BROKER_FAILED or began is None:
            return
        if incident.confirmed_ns is not None:
            self.detections.add((incident.confirmed_ns - began) / NANOS_PER_SECOND)
        if incident.repaired_ns is not None:
            self.repairs.add((incident.repaired_ns - began) / NANOS_PER_SECOND)
