"""How fast the simulator is: virtual time per real time, and events per second.

    python -m benchmarks.speed.simulator [--nodes N,N,...] [--rounds R]

Each round is the experiment of ``chordal sim run crash``: a ring of N brokers is formed by real
joins, a twentieth of them crash, and it heals. Most of what happens in it is heartbeats. The best
round counts, as other programs on the machine can only make it slower.
"""

from __future__ import annotations

import argparse
import time

from benchmarks.arguments import at_least, listed
from benchmarks.report import print_line
from overlay.ids import NANOS_PER_SECOND
from sims.experiments.experiment import Experiment, run

NODES = (64, 256, 1024)


def main() -> None:
    """Print a line for each ring size: real and virtual seconds, their ratio, events per second."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.simulator", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--nodes", type=listed(at_least(1)), default=NODES, help="ring sizes, with commas"
    )
    parser.add_argument("--rounds", type=at_least(1), default=1)
    options = parser.parse_args()
    print_line(f"{'brokers':>8}{'real s':>10}{'virtual s':>11}{'virtual/real':>14}{'events/s':>12}")
    for nodes in options.nodes:
        rounds = [_measure(nodes) for _ in range(options.rounds)]
        seconds, virtual, events = min(rounds)
        rates = f"{virtual / seconds:14.1f}{events / seconds:12,.0f}"
        print_line(f"{nodes:8}{seconds:10.2f}{virtual:11.1f}{rates}")


def _measure(nodes: int) -> tuple[float, float, int]:
    """Return real seconds, virtual seconds and events of one experiment."""
    start = time.perf_counter()
    result = run(Experiment(nodes=nodes, seed=1))
    seconds = time.perf_counter() - start
    return seconds, (result.run.duration_ns or 0) / NANOS_PER_SECOND, result.events


if __name__ == "__main__":
    main()
