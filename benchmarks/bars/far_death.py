"""What one death costs a quiet ring, and how far it is heard of.

    python -m benchmarks.bars.far_death [--sizes N,N,N] [--seconds S] [--settle S] [--profile lan]
                                        [--seed S]

A warm ring of each of ``--sizes`` runs for ``--seconds`` three times: without a death, with one by
closed sockets, and with one without a word. Messages take as long and timers are drawn alike in all
three (:mod:`benchmarks.bars.one_death`). The cost is the difference, of the kinds of messages that
are more with the death; a call to an address counts as one. B23's count of the same death, what
its senders send because of that failure, stands beside it.

The bars: the cost fits a + b log2 n better than a + b n; it is at most 600 at the largest size; and
a broker that is neither within ring distance 5 of the dead one nor linked to it gets no message
more than without the death. They are for the default ``--sizes``.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence

from benchmarks.arguments import above, at_least, listed
from benchmarks.bars.one_death import Cost, cost_of_death
from benchmarks.report import Bars
from ring.config import PROFILES, profile
from sims.world.world import CrashMode

AT_MOST = 600
BAR = "far"


def main() -> int:
    """Measure and print; return 1 if a bar is missed, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bars.far_death", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--sizes", type=listed(at_least(20)), default="100,200,400,1000", help="with commas"
    )
    parser.add_argument("--seconds", type=above(0), default=120.0, help="virtual time counted")
    parser.add_argument("--settle", type=above(0), default=30.0, help="virtual time before")
    parser.add_argument("--profile", choices=sorted(PROFILES), default="lan")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if len(set(options.sizes)) < 3:
        parser.error("--sizes: to tell two curves apart takes three of them at least")
    bars = Bars()
    means: dict[int, float] = {}
    for n in sorted(set(options.sizes)):
        costs = cost_of_death(
            n,
            options.seed,
            profile(options.profile),
            settle_s=options.settle,
            watch_s=options.seconds,
            modes=tuple(CrashMode),
        )
        for mode, cost in zip(CrashMode, costs, strict=True):
            _note(bars, mode, cost)
        means[n] = statistics.mean(cost.more for cost in costs)
        far = sum(len(cost.far) for cost in costs)
        bars.check(BAR, f"n={n}: far brokers that hear of a death", far, 0)
    sizes, found = list(means), list(means.values())
    by_log = _misfit([math.log2(n) for n in sizes], found)
    by_n = _misfit([float(n) for n in sizes], found)
    what = "cost = a + b log2 n: squared misfit over that of a + b n"
    bars.check(BAR, what, round(by_log / by_n, 3) if by_n else 0.0, 1.0)
    bars.check(BAR, f"messages more with a death, n={sizes[-1]}", found[-1], AT_MOST)
    return bars.exit_code


def _note(bars: Bars, mode: CrashMode, cost: Cost) -> None:
    kinds = ", ".join(f"{count} {kind}" for kind, count in cost.kinds.most_common())
    bars.note(
        f"n={cost.n}, {mode.value}: {cost.more} messages more, difference {cost.messages}, in the"
        f" sense of B23 {cost.repair}; degree {cost.degree}; {cost.heard} brokers hear of it"
    )
    bars.note(f"n={cost.n}, {mode.value}: {kinds}")


def _misfit(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the squared residuals of the best line."""
    slope, offset = statistics.linear_regression(x, y)
    return sum((offset + slope * at - value) ** 2 for at, value in zip(x, y, strict=True))


if __name__ == "__main__":
    sys.exit(main())
