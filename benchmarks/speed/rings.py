"""Events per second through rings, beside those through one broker: one subscriber wants them.

    python -m benchmarks.speed.rings [--nodes 3,8] [--events N] [--size BYTES] [--rounds R]

One publisher at the first broker, one subscriber at the last, all over loopback TCP. One broker and
each ring take turns, each with brokers of its own, and the bars are medians of the ratios. Each
broker on the way is a process more that works, so a machine needs a core for each of them: with two
cores, and four processes that work, the most that can be is about three quarters.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from contextlib import ExitStack

from benchmarks.arguments import at_least, listed
from benchmarks.report import Bars, print_line
from benchmarks.speed.events import line_of, running_process

LEAST_RATIO = 0.7
SETTLED = "60"  #: seconds at most until a ring is whole


def main() -> None:
    """Print the rates, their ratios, and the bars."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.rings", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--nodes", type=listed(at_least(2)), default=[3, 8])
    parser.add_argument("--events", type=at_least(1), default=300_000)
    parser.add_argument("--size", type=at_least(1), default=256, help="payload bytes")
    parser.add_argument("--rounds", type=at_least(1), default=5)
    options = parser.parse_args()
    rates: dict[int, list[float]] = {}
    for _ in range(options.rounds):
        for nodes in (1, *options.nodes):
            rates.setdefault(nodes, []).append(_measure(nodes, options.events, options.size))
    print_line(f"{options.events} events of {options.size} bytes, {os.cpu_count()} cores")
    bars = Bars()
    for nodes, found in rates.items():
        words = ", ".join(f"{rate:,.0f}" for rate in found)
        print_line(f"{nodes} broker{'s' if nodes > 1 else ''}: {words} events/s")
    for nodes in options.nodes:
        ratio = statistics.median(b / a for a, b in zip(rates[1], rates[nodes], strict=True))
        bars.at_least("speed", f"ring of {nodes}, ratio to one broker", ratio, LEAST_RATIO)
    sys.exit(bars.exit_code)


def _measure(nodes: int, events: int, size: int) -> float:
    """Return events per second from the first broker to the last."""
    with ExitStack() as stack:
        urls: list[str] = []
        for _ in range(nodes):
            command = ["serve", "--listen", "127.0.0.1:0", "--log-level", "error"]
            joining = ["--join", urls[0]] if urls else []
            broker = stack.enter_context(running_process(_chordal(*command, *joining)))
            urls.append(json.loads(line_of(broker))["url"])
        expected = ("--check", "--expect", str(nodes), "--wait", SETTLED)
        _run("ring", *expected, "--broker", urls[0])
        where = ("--broker", urls[0], "--sub-broker", urls[-1])
        found = _run(
            "bench", "pubsub", *where, "--count", str(events), "--size", str(size), "--json"
        )
        (row,) = json.loads(found)["runs"]
        return float(row["figures"]["received_per_s"])


def _run(*arguments: str) -> str:
    done = subprocess.run(_chordal(*arguments), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"chordal {' '.join(arguments)}: {done.stderr or done.stdout}")
    return done.stdout


def _chordal(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ges.cli.main", *arguments]


if __name__ == "__main__":
    main()
