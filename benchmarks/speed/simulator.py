"""How fast the simulator is: virtual time per real time, memory, and events per second.

    python -m benchmarks.speed.simulator [--nodes N,N,...] [--rounds R] [--quiet N,N,...]
        [--span SECONDS] [--whole N,N,...]

Each round is ``chordal sim run crash``: a ring of N brokers is formed by real
joins, a twentieth of them crash, and it heals. Most of what happens in it is heartbeats. The best
round counts, as other programs on the machine can only make it slower.

A row of ``--quiet`` is the ring alone, N brokers of which 1 % go and are replaced in each minute,
as ``chordal sim run`` plays it where heartbeats that change nothing are left out. To form the ring
is told apart; then so many seconds of virtual time pass as ``--span`` says. Two bars are judged by
it, in processor time on one core: S4, 10,000 brokers, one virtual hour in 15 minutes and 4 GiB; and
S5, 100,000 brokers, 10 virtual minutes in 30 minutes and 16 GiB. A row of another size is carried
over to both in proportion to N, and said to be so; no bar is judged by it.

A row of ``--whole`` is N whole brokers, as a warm start makes them: bytes on links of all classes,
twenty subscribers, and one publisher of 200 events a second. The row says how much virtual time
passes in a second at rest, and then with events that the publisher publishes ten at once and one by
one. Processor time is measured. Bar S1: 1,000 whole brokers, at no less than one virtual second a
second, ten at once. So many have not been started yet: a warm start makes them one unit at first,
in which each tells each of all links, and that took 4 GiB in the first 0.6 virtual seconds.

Bar S3, the events of the clock itself beside SimPy's, is :mod:`benchmarks.speed.kernel`.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import sys
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.arguments import above, at_least, listed
from benchmarks.report import Bars, print_line
from overlay.ids import NANOS_PER_SECOND, nanos
from overlay.multigraph.probes import Pace
from ring.config import LAN
from sims.experiments.service import Service
from sims.scenarios import arrivals, library
from sims.scenarios.deeds import Deeds
from sims.scenarios.files import parse
from sims.scenarios.inputs import Inputs
from sims.scenarios.laws import Law
from sims.scenarios.play import play
from sims.scenarios.ring_stage import RingStage
from sims.scenarios.schema import SessionChurn
from sims.workloads.traffic import Flowing
from sims.world.collecting import seldom_collected
from sims.world.conditions import Conditions
from sims.world.network import DISTANCES

NODES = (64, 256, 1024)
RATE = 200  #: events a second
SUBSCRIBERS = 20
WARM_SECONDS = 10.0  #: until chords and links beside them are up, and were probed
SPAN_SECONDS = 2.0
BAR_NODES = 1000
LEAST_SPEED = 1.0
SESSION_S = 6000.0  #: mean; so 1 % go in a minute
QUIET_SPAN_S = 30.0
GIB = 2.0**30


class QuietBar(NamedTuple):
    """So large a ring, at so many virtual seconds a second, in so much memory."""

    name: str
    nodes: int
    speed: float
    gib: float


QUIET_BARS = (QuietBar("S4", 10_000, 60 / 15, 4), QuietBar("S5", 100_000, 10 / 30, 16))


def main() -> int:
    """Print a line for each ring size; return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.simulator", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--nodes", type=listed(at_least(1)), default=NODES, help="ring sizes, with commas"
    )
    parser.add_argument("--rounds", type=at_least(1), default=1)
    parser.add_argument(
        "--whole", type=listed(at_least(2)), default=(), help="sizes of rings of whole brokers"
    )
    parser.add_argument(
        "--quiet", type=listed(at_least(100)), default=(), help="sizes of rings that are quiet"
    )
    parser.add_argument(
        "--span", type=above(0), default=QUIET_SPAN_S, help="virtual seconds of each of those"
    )
    options = parser.parse_args()
    print_line(f"{'brokers':>8}{'real s':>10}{'virtual s':>11}{'virtual/real':>14}{'events/s':>12}")
    for nodes in options.nodes:
        rounds = [_measure(nodes) for _ in range(options.rounds)]
        seconds, virtual, events = min(rounds)
        rates = f"{virtual / seconds:14.1f}{events / seconds:12,.0f}"
        print_line(f"{nodes:8}{seconds:10.2f}{virtual:11.1f}{rates}")

    bars = Bars()
    for nodes in options.quiet:
        _print_quiet(bars, nodes, options.span)
    for nodes in options.whole:
        rest, bursts, singles = _measure_whole(nodes)
        print_line(
            f"{nodes:8} whole brokers: {rest:.2f} virtual seconds a second at rest, {bursts:.2f} "
            f"with {RATE} events a second ten at once, {singles:.2f} one by one"
        )
        if nodes == BAR_NODES:
            bars.at_least("S1", "virtual seconds a second", bursts, LEAST_SPEED)
    return bars.exit_code


def _print_quiet(bars: Bars, nodes: int, span: float) -> None:
    """Measure a quiet ring; judge the bar of that size, or say what it comes to at others."""
    load = os.getloadavg()[0]
    with seldom_collected():
        forming, seconds, events, gib = _measure_quiet(nodes, span)
    speed = span / seconds
    print_line(
        f"{nodes:8} brokers, quiet, 1 % churn a minute: formed in {forming:.0f} s; then "
        f"{speed:.2f} virtual seconds a second, {events / span:,.0f} events a virtual second, "
        f"{gib:.2f} GiB (load {load:.1f})"
    )
    for bar in QUIET_BARS:
        if bar.nodes == nodes:
            bars.at_least(bar.name, "virtual seconds a second", speed, bar.speed)
            bars.at_most(bar.name, "GiB", gib, bar.gib)
    if nodes not in {bar.nodes for bar in QUIET_BARS}:
        for bar in QUIET_BARS:
            share = nodes / bar.nodes
            there = speed * share
            bars.note(
                f"{bar.name}, carried over in proportion to {bar.nodes:,} brokers: {there:.2f} "
                f"virtual seconds a second ({there / bar.speed:.2f} of the bar, {bar.speed:.2f}), "
                f"{gib / share:.1f} GiB (at most {bar.gib:g})"
            )


def _measure_quiet(nodes: int, span: float) -> tuple[float, float, int, float]:
    """Return processor seconds to form a ring, and of the span; events, GiB at most."""
    start = time.process_time()
    stage = RingStage(1, LAN, Conditions(DISTANCES["lan"], 1), quiet=True)
    timeline = stage.timeline
    stage.begin(nodes)
    timeline.run(2 * LAN.chord_refresh_ns)
    forming = time.process_time() - start
    deeds = Deeds(stage, 1)
    churn = SessionChurn(law=Law.EXPONENTIAL, mean_s=SESSION_S)
    arrivals.schedule(churn, 0, deeds, Inputs(Path(), {}))
    gc.collect()
    gc.freeze()
    before, start = timeline.events, time.process_time()
    timeline.run(timeline.now + nanos(span))
    seconds = time.process_time() - start
    gc.unfreeze()
    assert not stage.ledger.findings, stage.ledger.findings
    # Kibibytes, on Linux; the most that this process has had so far.
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB
    return forming, seconds, timeline.events - before, gib


def _measure_whole(nodes: int) -> tuple[float, float, float]:
    """Return virtual seconds a second of processor time at rest, and with events in two ways."""
    # Links are probed as rarely as where nothing has changed for long.
    pace = Pace(first_ns=nanos(2), idle_ns=nanos(16))
    service = Service(1, pace=pace)
    service.start_warm(nodes)
    service.run(WARM_SECONDS)
    gc.collect()
    gc.freeze()
    found = [_speed(service)]
    for at in range(0, nodes, max(1, nodes // SUBSCRIBERS)):
        service.subscribe(service.uids[at])
    for burst in (10, 1):
        publisher = service.publish(service.uids[0], Flowing(rate=RATE, burst=burst))
        service.run(1)
        found.append(_speed(service))
        publisher.stop()
        service.run(1)
    rest, bursts, singles = found
    gc.unfreeze()
    return rest, bursts, singles


def _speed(service: Service) -> float:
    start = time.process_time()
    service.run(SPAN_SECONDS)
    return SPAN_SECONDS / (time.process_time() - start)


def _measure(nodes: int) -> tuple[float, float, int]:
    """Return real seconds, virtual seconds and events of one run."""
    scenario = parse(library.find("crash"), [f"nodes={nodes}"])
    start = time.perf_counter()
    result = play("crash", scenario, 1).result
    seconds = time.perf_counter() - start
    return seconds, (result.run.duration_ns or 0) / NANOS_PER_SECOND, result.events


if __name__ == "__main__":
    sys.exit(main())
