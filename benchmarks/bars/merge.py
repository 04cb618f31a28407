"""B31: a network cut in two at random heals into one ring.

    python -m benchmarks.bars.merge [--brokers N] [--seeds S] [--sizes N,...] [--partition SECONDS]

Each broker falls on a side by a fair coin, the two sides become rings, and after the partition
they merge. Two series are run: many seeds of a small ring (is it one ideal ring every time?), and
each of the larger ``--sizes`` (how long does it take, and how many messages?). Rings start warm.

Time is from the heal to the last change of a pointer, after which the ring is ideal. Messages are
all that is sent in that time, attempts at links included and heartbeats not. The full bar is
``--brokers 100 --seeds 300 --sizes 1000,100000 --partition 600``; what is run is printed.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from dataclasses import dataclass

from benchmarks.arguments import above, at_least, listed
from benchmarks.bars.rings import OneStream
from benchmarks.report import Bars, print_line
from overlay.ids import NANOS_PER_SECOND, Nanos, nanos
from overlay.machine import Fact, OpenLink, Send
from overlay.rng import rng_for
from ring.config import LAN
from ring.facts import NeighboursChanged, Rejoining
from ring.wire.messages import Heartbeat
from sims.explore.search import no_cycles_looked_for
from sims.world.warm import spread_evenly, start_warm

WARM_S = 25.0  #: chords and backups come to rest
STEP_NS = nanos(0.005)
LIMIT_S = 400.0  #: a merge that takes longer has failed
MESSAGES = 10.0  #: per n log2 n
TIME_RATIO = 2.5  #: of the largest size to the smallest, which are to be 10^5 and 10^3


@dataclass(frozen=True, slots=True)
class Merged:
    """What one partition and its end have cost."""

    brokers: int
    findings: list[str]  #: how the ring differs from the ideal one; empty is good
    sides_whole: bool  #: before the heal, each side was an ideal ring
    seconds: float
    messages: int
    changed: int  #: pairs of ring neighbours that were none on either side
    rejoined: int

    @property
    def cost(self) -> float:
        """Messages per n log2 n."""
        return self.messages / (self.brokers * math.log2(self.brokers))


class Trial(OneStream):
    """A ring that is cut in two and healed."""

    def __init__(self, brokers: int, seed: int) -> None:
        self._changed_at: Nanos = 0
        self._sent = self._rejoined = 0
        super().__init__(brokers, LAN, seed)
        self.world.on_sent = self._on_sent
        order = list(self.nodes)
        rng_for(seed, "places").shuffle(order)
        start_warm(self.world, dict(zip(order, spread_evenly(brokers), strict=True)))
        self.run(WARM_S)

    def heal_after(self, partition_s: float) -> Merged:
        """Part the ring for so many virtual seconds, heal it, and run until it is one ideal ring.

        After :data:`LIMIT_S` that is given up; then the result has findings.
        """
        coin = rng_for(self._seed, "sides")
        sides: tuple[dict[str, None], dict[str, None]] = ({}, {})
        while not all(sides):  # with everybody on one side nothing is cut
            sides = ({}, {})
            for uid in self.nodes:
                sides[coin.randrange(2)][uid] = None
        self.part(sides)
        self.run(partition_s)
        whole = not any(self.ledger.ring_findings(side) for side in sides)
        before = self._pairs()
        self._sent = self._rejoined = 0
        healed = self.world.now
        self.heal()
        sent, ideal = self._run_to_rest(healed + nanos(LIMIT_S))
        return Merged(
            brokers=len(self.nodes),
            findings=self._findings(),
            sides_whole=whole,
            seconds=max(0, ideal - healed) / NANOS_PER_SECOND,
            messages=sent,
            changed=len(self._pairs() - before),
            rejoined=self._rejoined,
        )

    def _run_to_rest(self, limit: Nanos) -> tuple[int, Nanos]:
        """Run until the ring is ideal; return what was sent by then, and when that was."""
        while self.world.now < limit:
            self.world.run(self.world.now + STEP_NS)
            quiet = self.world.now - self._changed_at > STEP_NS
            if quiet and not self._findings():
                break
        sent, ideal = self._sent, self._changed_at
        self.run(2 * LAN.silence_ns / NANOS_PER_SECOND)  # and it stays so
        return sent, ideal

    def _findings(self) -> list[str]:
        missing = len(self.nodes) - self.ledger.members
        found = self.ledger.ring_findings()
        return [*found, f"{missing} brokers are not on the ring"] if missing else found

    def _pairs(self) -> set[tuple[str, str]]:
        return {(uid, m.uid) for uid, node in self.nodes.items() for m in node.right}

    def _on_fact(self, uid: str, fact: Fact) -> None:
        super()._on_fact(uid, fact)
        if isinstance(fact, NeighboursChanged):
            self._changed_at = self.world.now
        elif isinstance(fact, Rejoining):
            self._rejoined += 1

    def _on_sent(self, uid: str, effect: Send | OpenLink) -> None:
        """Count all but heartbeats."""
        is_beat = isinstance(effect, Send) and isinstance(effect.message, Heartbeat)
        self._sent += not is_beat


def main() -> int:
    """Run both series and print B31; return 1 if it is missed or not judged, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bars.merge", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--brokers", type=at_least(5), default=50, help="of the small ring")
    parser.add_argument("--seeds", type=at_least(1), default=30, help="runs of the small ring")
    parser.add_argument(
        "--sizes", type=listed(at_least(5)), default=[300, 1000], help="with commas"
    )
    parser.add_argument("--size-seeds", type=at_least(1), default=1, help="runs of each size")
    parser.add_argument("--partition", type=above(0), default=30.0, help="seconds; 600 in the bar")
    options = parser.parse_args()
    print_line(f"two sides by a fair coin, {options.partition:g} s apart, profile lan, warm starts")
    small = [
        Trial(options.brokers, seed).heal_after(options.partition) for seed in range(options.seeds)
    ]
    bars = Bars()
    _report_wholeness(bars, small, f"{options.brokers} brokers")
    times = []
    for size in options.sizes:
        runs = [_merge_large(size, seed, options.partition) for seed in range(options.size_seeds)]
        _report_wholeness(bars, runs, f"{size} brokers")
        _report_cost(bars, runs, size)
        times.append(statistics.median(run.seconds for run in runs))
    if len(times) > 1:
        what = f"time at {options.sizes[-1]} to time at {options.sizes[0]} (bar: 10^5 to 10^3)"
        if min(times) > 0:
            ratio = times[-1] / times[0]
            _judge(bars, what, f"{ratio:.2f}", f"<= {TIME_RATIO}", met=ratio <= TIME_RATIO)
        else:  # healed before anybody had noticed: no pointer changed
            bars.not_judged("B31", what)
    return bars.exit_code


def _merge_large(size: int, seed: int, partition_s: float) -> Merged:
    with no_cycles_looked_for():
        return Trial(size, seed).heal_after(partition_s)


def _report_wholeness(bars: Bars, runs: list[Merged], what: str) -> None:
    early = sum(not run.sides_whole for run in runs)
    whole = sum(not run.findings and run.sides_whole for run in runs)
    for run in runs:
        for finding in run.findings[:3]:
            print_line(f"      {finding}")
    seconds = sorted(run.seconds for run in runs)
    measured = (
        f"{whole} of {len(runs)} (median {statistics.median(seconds):.3f} s, "
        f"max {seconds[-1]:.3f} s, {sum(run.rejoined for run in runs)} rejoined"
        f"{f', {early} healed before both sides were whole' if early else ''})"
    )
    _judge(bars, f"single ideal ring, {what}", measured, "all", met=whole == len(runs))


def _report_cost(bars: Bars, runs: list[Merged], size: int) -> None:
    cost = max(run.cost for run in runs)
    what = f"messages per n log2 n, {size} brokers"
    _judge(bars, what, f"{cost:.2f}", f"<= {MESSAGES:g}", met=cost <= MESSAGES)
    changed = min(run.changed for run in runs)
    what = f"new pairs of neighbours, {size} brokers"
    _judge(bars, what, f"{changed}", f">= {size // 2}", met=changed >= size // 2)


def _judge(bars: Bars, what: str, measured: str, threshold: str, *, met: bool) -> None:
    bars.judge("B31", f"{what}  measured {measured}  threshold {threshold}", met=met)


if __name__ == "__main__":
    sys.exit(main())
