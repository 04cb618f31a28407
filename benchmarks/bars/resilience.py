"""Greedy routes in a ring of which many died at once: before repair (B11) and after (B12).

    python -m benchmarks.bars.resilience [before] [after] [--static N] [--nodes N] [--pairs P]

``before``: exact tables by rank at ids as joins give them, the dead taken out, nothing repaired.
``after``: a simulated ring loses 30 % at one moment, heals and refreshes its chords; compared with
a new ring of as many brokers as are left.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.arguments import add_parts, at_least
from benchmarks.bars.joins import grow
from benchmarks.bars.tables import WarmRing, ideal, measure, search
from benchmarks.report import Bars
from overlay.rng import rng_for
from sims.explore.search import no_cycles_looked_for
from sims.world.world import CrashMode

PARTS = ("before", "after")
BEFORE = ((0.1, 0.005), (0.3, 0.07), (0.5, 0.25))  #: share dead, share of routes that may fail
DEAD = 0.3
HEALING_S = 300.0
REFRESHING_S = 180.0  #: after the ring is whole: a level follows a refresh after the one below
MAX_LONGER = 1.05


def main() -> int:
    """Measure the parts named and print them; return 1 if B11 or B12 is missed, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bars.resilience", description=(__doc__ or "").splitlines()[0]
    )
    add_parts(parser, PARTS)
    parser.add_argument("--static", type=at_least(10), default=65_536, help="brokers in the tables")
    parser.add_argument(
        "--nodes", type=at_least(10), default=1000, help="brokers in the simulated ring"
    )
    parser.add_argument("--pairs", type=at_least(1), default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    bars = Bars()
    if "before" in options.what:
        before(bars, options.static, options.pairs, options.seed)
    if "after" in options.what:
        with no_cycles_looked_for():
            after(bars, options.nodes, options.pairs, options.seed)
    return bars.exit_code


def before(bars: Bars, n: int, pairs: int, seed: int) -> None:
    """Take a share of ``n`` brokers out of exact tables; B11: the share of greedy routes that fail.

    At most 0.5, 7 and 25 % of ``pairs`` at 10, 30 and 50 % dead; with backtracking there is no bar.
    """
    tables = ideal(list(grow(n, one_contact=False, seed=seed).ids))
    for share, threshold in BEFORE:
        dead = rng_for(seed, "dead", n, str(share)).sample(sorted(tables.places), round(share * n))
        left = tables.without(frozenset(dead))
        found = measure(left, pairs, rng_for(seed, "pairs", n))
        what = f"n = {n}, {share:.0%} dead, nothing repaired: greedy routes that fail"
        bars.rate("B11", what, round(found.failed * pairs), pairs, threshold)
        again = measure(left, pairs, rng_for(seed, "pairs", n), search)
        bars.note(
            f"n = {n}, {share:.0%} dead: with backtracking {again.failed:.5f} fail, "
            f"mean {again.mean:.2f} p99 {again.p99} max {again.longest} moves"
        )


def after(bars: Bars, n: int, pairs: int, seed: int) -> None:
    """Let 30 % of a simulated ring of ``n`` lose power at once; B12, once it is repaired.

    It must heal in 300 s, no greedy route of ``pairs`` may fail, and the mean of their hops be at
    most 1.05 times that of a new ring.
    """
    ring = WarmRing(n, seed)
    dead = rng_for(seed, "dead", n).sample(sorted(ring.nodes), round(DEAD * n))
    for uid in dead:
        ring.ledger.on_crash(uid, 0, ring.world.now)
        ring.world.crash(uid, CrashMode.POWER)
    healed = ring.heal_within(HEALING_S)
    bars.note(f"n = {n}, {DEAD:.0%} dead: ring whole after {healed} s of virtual time")
    ring.run(REFRESHING_S)
    found = measure(ring.tables, pairs, rng_for(seed, "pairs", n))
    fresh = WarmRing(n - len(dead), seed + 1)
    new = measure(fresh.tables, pairs, rng_for(seed, "pairs", n))
    what = f"n = {n}, {DEAD:.0%} dead, repaired"
    bars.check("B12", f"{what}: rings that did not heal", healed is None, 0)
    bars.check("B12", f"{what}, {pairs} pairs: greedy routes that fail", found.failed, 0)
    bars.check(
        "B12",
        f"{what}: mean hops {found.mean:.3f} over those of a new ring {new.mean:.3f}",
        round(found.mean / new.mean, 4),
        MAX_LONGER,
    )


if __name__ == "__main__":
    sys.exit(main())
