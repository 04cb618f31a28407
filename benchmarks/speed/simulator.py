"""How fast the simulator is: virtual time per real time, and events per second.

    python -m benchmarks.speed.simulator [--nodes N,N,...] [--rounds R] [--whole N,N,...]

Each round is the experiment of ``chordal sim run crash``: a ring of N brokers is formed by real
joins, a twentieth of them crash, and it heals. Most of what happens in it is heartbeats. The best
round counts, as other programs on the machine can only make it slower.

A row of ``--whole`` is N whole brokers, as a warm start makes them: bytes on links of all classes,
twenty subscribers, and one publisher of 100 events a second, which all brokers pass on. The row
says how much virtual time passes in a second at rest, and then with events that the publisher
publishes ten at once and one by one. Processor time is measured. To start 1,000 brokers takes
minutes. Bar S1: 1,000 whole brokers, at no less than half a virtual second a second, ten at once.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time

from benchmarks.arguments import at_least, listed
from benchmarks.report import Bars, print_line
from overlay.ids import NANOS_PER_SECOND, nanos
from overlay.multigraph.probes import Pace
from sims.experiments.experiment import Experiment, run
from sims.experiments.service import Service
from sims.workloads.traffic import Flowing

NODES = (64, 256, 1024)
RATE = 100  #: events a second
SUBSCRIBERS = 20
WARM_SECONDS = 10.0  #: until chords and links beside them are up, and were probed
SPAN_SECONDS = 2.0
BAR_NODES = 1000
LEAST_SPEED = 0.5


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
    options = parser.parse_args()
    print_line(f"{'brokers':>8}{'real s':>10}{'virtual s':>11}{'virtual/real':>14}{'events/s':>12}")
    for nodes in options.nodes:
        rounds = [_measure(nodes) for _ in range(options.rounds)]
        seconds, virtual, events = min(rounds)
        rates = f"{virtual / seconds:14.1f}{events / seconds:12,.0f}"
        print_line(f"{nodes:8}{seconds:10.2f}{virtual:11.1f}{rates}")

    bars = Bars()
    for nodes in options.whole:
        rest, bursts, singles = _measure_whole(nodes)
        print_line(
            f"{nodes:8} whole brokers: {rest:.2f} virtual seconds a second at rest, {bursts:.2f} "
            f"with {RATE} events a second ten at once, {singles:.2f} one by one"
        )
        if nodes == BAR_NODES:
            bars.at_least("S1", "virtual seconds a second", bursts, LEAST_SPEED)
    return bars.exit_code


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
    """Return real seconds, virtual seconds and events of one experiment."""
    start = time.perf_counter()
    result = run(Experiment(nodes=nodes, seed=1))
    seconds = time.perf_counter() - start
    return seconds, (result.run.duration_ns or 0) / NANOS_PER_SECOND, result.events


if __name__ == "__main__":
    sys.exit(main())
