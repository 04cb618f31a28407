"""How long events stand still when a link that carries them is cut, or becomes slow.

    python -m benchmarks.bars.gaps [steady] [cut] [slow] [--nodes N] [--seeds N]

Whole brokers in virtual time, profile ``lan``. A publisher at one broker sends 50 events a second,
and each broker has a subscriber. ``steady``: nothing happens. ``cut``: the link to the next broker
on the ring is cut and stays so; it is silent (both ends take it for up) or broken (it closes at
once). ``slow``: the link takes 20 or 200 ms one way from then on. Links are probed every second, as
brokers probe those that carry events. Each is done once a seed, with every seed from 1 on.

The *gap* is the longest time between two events that come one after the other to a subscriber, from
the fault on. The bar is on the median over the seeds where the link breaks. A slow link is *left*
when the last event has come that took more than 10 ms.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import median

from benchmarks.arguments import add_parts, at_least
from benchmarks.report import Bars
from overlay.ids import NANOS_PER_SECOND, Nanos, nanos
from overlay.multigraph.probes import Pace
from sims.experiments.service import Service
from sims.verdicts.judged import Judged
from sims.workloads.traffic import Flowing
from sims.world.cuts import Cut
from sims.world.network import DISTANCES, Latency

PARTS = ("steady", "cut", "slow")
RATE = 50
WARM_S = 20.0  #: links count, and are measured
AFTER_S = 20.0
SLOW_MS = (20, 200)
FAST_NS = nanos(0.01)  #: what took less has not come over the slow link
GAP_S = 0.6
IN_USE = Pace(idle_ns=Pace().busy_ns, longest_ns=Pace().busy_ns)
_S = NANOS_PER_SECOND


class Weather(Latency):
    """The latencies of a LAN, but for one pair of hosts."""

    def __init__(self, seed: int) -> None:
        super().__init__(DISTANCES["lan"], seed)
        self.pair: frozenset[str] = frozenset()
        self.slow_ns: Nanos = 0

    def one_way_ns(self, a: str, b: str) -> Nanos:
        """Draw the time of a message, which is longer between the two."""
        drawn = super().one_way_ns(a, b)
        return max(drawn, self.slow_ns) if self.pair == {a, b} else drawn


@dataclass(frozen=True, slots=True)
class Outcome:
    """One fault: times until events came again, in seconds."""

    gap: float  #: the longest between two events of one subscriber
    left: float  #: until the last event came that took longer than 10 ms
    late: float  #: what an event took in the last seconds, in the median
    wrong: int  #: events that were lost, doubled or out of order


class Run:
    """A ring with a flow of events, and a link that something befalls."""

    def __init__(self, nodes: int, seed: int) -> None:
        self.weather = Weather(seed)
        self.service = service = Service.ring_of(nodes, seed, latency=self.weather, pace=IN_USE)
        self.here = service.uids[seed % nodes]
        self.there = service.brokers[self.here].node.ring.right[0].uid
        service.subscribe_everywhere()
        service.publish(self.here, Flowing(rate=RATE))
        service.run(WARM_S)
        self._since = service.timeline.now
        self._came: dict[str, list[tuple[Nanos, Nanos]]] = defaultdict(list)

    def finish(self) -> Outcome:
        """Let time pass, and judge."""
        service = self.service
        service.run(AFTER_S)
        end = service.timeline.now
        service.deliveries.on_judged = self._on_judged
        verdict = service.finish()
        gap = left = 0
        late: list[Nanos] = []
        for came in self._came.values():
            came.sort()
            after = [at for at, _ in came if self._since - nanos(1.0) <= at <= end]
            gap = max(gap, *(b - a for a, b in pairwise(after)))
            slow = (at for at, took in came if at >= self._since and took > FAST_NS)
            left = max(left, max(slow, default=self._since) - self._since)
            late += [took for at, took in came if end - nanos(5.0) <= at <= end]
        wrong = len(verdict.findings) + sum(verdict.lost.values())
        return Outcome(gap / _S, left / _S, median(late) / _S, wrong)

    def _on_judged(self, judged: Judged) -> None:
        if judged.got is not None:
            at = judged.got.at
            self._came[judged.subscriber].append((at, at - judged.event.at))


def run(bars: Bars, what: str, nodes: int, seeds: int, fault: Callable[[Run], None]) -> float:
    """Do a thing once a seed and print what came of it; return the median gap."""
    found = []
    for seed in range(1, seeds + 1):
        each = Run(nodes, seed)
        fault(each)
        found.append(each.finish())
    gaps, left = [each.gap for each in found], [each.left for each in found]
    late = median(each.late for each in found)
    bars.note(
        f"{what}: gap {median(gaps):.3f} s in the median, {max(gaps):.3f} s at most; left after"
        f" {median(left):.2f} s, {max(left):.2f} s at most; then {1000 * late:.2f} ms an event"
    )
    bars.check("GAP", f"{what}: events lost, doubled or late", sum(e.wrong for e in found), 0)
    return median(gaps)


def main() -> int:
    """Measure the parts named and print them; return 1 if a bar is missed, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bars.gaps", description=(__doc__ or "").splitlines()[0]
    )
    add_parts(parser, PARTS)
    parser.add_argument("--seeds", type=at_least(1), default=10)
    parser.add_argument("--nodes", type=at_least(4), default=8)
    given = parser.parse_args()
    bars = Bars()
    measure = partial(run, bars, nodes=given.nodes, seeds=given.seeds)
    if "steady" in given.what:
        measure("steady", fault=lambda _: None)
    for mode in (Cut.BROKEN, Cut.SILENT) if "cut" in given.what else ():
        gap = measure(f"cut, {mode}", fault=partial(_cut, mode=mode))
        if mode is Cut.BROKEN:
            bars.at_most("GAP", "s without an event behind a broken link, median", gap, GAP_S)
    for ms in SLOW_MS if "slow" in given.what else ():
        measure(f"slow, {ms} ms", fault=partial(_slow, ms=ms))
    return bars.exit_code


def _cut(each: Run, mode: Cut) -> None:
    each.service.cut(each.here, each.there, mode)


def _slow(each: Run, ms: int) -> None:
    each.weather.pair, each.weather.slow_ns = frozenset((each.here, each.there)), nanos(ms / 1000)


if __name__ == "__main__":
    sys.exit(main())
