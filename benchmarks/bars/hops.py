"""How many hops greedy routes take (B08, B09), and what the strategies for chords are worth.

    python -m benchmarks.bars.hops [calibration] [real] [strategies] [--nodes N,N] [--pairs P]
        [--full]

``calibration``: exact tables on evenly spaced ids, against formulas from the literature.
``real``: simulated rings of the given sizes at ids as joins give them, routes over the links they
have; ``--full`` adds 10^5 brokers as exact tables by rank at ids as joins give them.
``strategies``: simulated rings of the given sizes, one for each strategy.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from math import log2

from benchmarks.arguments import add_parts, at_least, listed
from benchmarks.bars.joins import grow
from benchmarks.bars.tables import Hops, Tables, WarmRing, ideal, measure, walk
from benchmarks.report import Bars
from overlay.rng import rng_for
from ring.config import ChordStrategy
from ring.geometry import RING_SIZE
from ring.wire.messages import Towards

PARTS = ("calibration", "real", "strategies")


def main() -> int:
    """Measure the parts named and print them; return 1 if B08 or B09 is missed, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bars.hops", description=(__doc__ or "").splitlines()[0]
    )
    add_parts(parser, PARTS)
    parser.add_argument(
        "--nodes",
        type=listed(at_least(10)),
        default=[1000],
        help="sizes of simulated rings, with commas",
    )
    parser.add_argument("--pairs", type=at_least(1), default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--full", action="store_true", help="sizes the bars name; an hour or so")
    options = parser.parse_args()
    bars = Bars()
    if "calibration" in options.what:
        calibrate(bars, (10, 14, 17) if options.full else (10, 14), options.pairs, options.seed)
    if "real" in options.what:
        for n in options.nodes:
            ring = WarmRing(n, options.seed)
            report(bars, n, f"simulated ring of {n}", ring.tables, options.pairs, options.seed)
        if options.full:
            ids = list(grow(10**5, one_contact=False, seed=options.seed).ids)
            report(bars, 10**5, "exact tables of 10^5", ideal(ids), options.pairs, options.seed)
    if "strategies" in options.what:
        for n in options.nodes:
            for strategy in ChordStrategy:
                compare(bars, n, strategy, options.pairs, options.seed)
    return bars.exit_code


def calibrate(bars: Bars, exponents: tuple[int, ...], pairs: int, seed: int) -> None:
    """Compare with the mean route of Chord, one way, and the shortest with links both ways."""
    for m in exponents:
        n = 1 << m
        even = [at * RING_SIZE // n for at in range(n)]
        one_way = ideal(even, two_way=False, ring=False)
        found = measure(one_way, pairs, rng_for(seed, "pairs", m), _rightward)
        expected = m / 2 * n / (n - 1)
        bars.check(
            "B08",
            f"n = 2^{m}, one way: mean {found.mean:.4f}, formula {expected:.4f}, difference in %",
            round(100 * abs(found.mean / expected - 1), 3),
            1.0,
        )
        shortest = _mean_distance(n)
        expected = m / 3 + 1 / 9
        bars.check(
            "B08",
            f"n = 2^{m}, shortest path both ways: mean {shortest:.4f}, formula {expected:.4f}, "
            "difference in %",
            round(100 * abs(shortest / expected - 1), 3),
            0.5,
        )


def _rightward(tables: Tables, start: str, goal: str) -> int | None:
    return walk(tables, start, goal, Towards.LEFT)


def _mean_distance(n: int) -> float:
    """Mean distance from one node of the circulant graph of all powers of two below ``n``."""
    steps = [1 << level for level in range(n.bit_length() - 1)]
    away = [-1] * n
    away[0] = 0
    line = deque([0])
    while line:
        here = line.popleft()
        for step in steps:
            for other in ((here + step) % n, (here - step) % n):
                if away[other] < 0:
                    away[other] = away[here] + 1
                    line.append(other)
    return sum(away) / n


def report(bars: Bars, n: int, what: str, tables: Tables, pairs: int, seed: int) -> Hops:
    """Route ``pairs`` random pairs, print B09, and return what the routes took.

    None may fail; mean, p99 and longest are at most 0.45, 0.8 and 1.5 times log2 n hops.
    """
    found = measure(tables, pairs, rng_for(seed, "pairs", n))
    bars.check("B09", f"{what}: greedy routes that fail", found.failed, 0)
    for name, hops, factor in (
        ("mean", found.mean, 0.45),
        ("p99", found.p99, 0.8),
        ("max", found.longest, 1.5),
    ):
        threshold = round(factor * log2(n), 2)
        bars.check("B09", f"{what}, {pairs} pairs: {name} hops", round(hops, 3), threshold)
    bars.note(f"{what}: mean degree {tables.degree:.1f}")
    return found


def compare(bars: Bars, n: int, strategy: ChordStrategy, pairs: int, seed: int) -> None:
    """Print hops, failures and degree of a simulated ring with chords of one strategy; no bar.

    Without chords routes are long, and 2000 pairs are drawn at most.
    """
    tables = WarmRing(n, seed, strategy).tables
    pairs = pairs if strategy is not ChordStrategy.NONE else min(pairs, 2000)
    found = measure(tables, pairs, rng_for(seed, "pairs", n))
    bars.note(
        f"n = {n}, {strategy.value}: mean {found.mean:.2f} p99 {found.p99} max {found.longest} "
        f"hops, {100 * found.failed:.2f} % fail, mean degree {tables.degree:.1f}"
    )


if __name__ == "__main__":
    sys.exit(main())
