"""B13: do as many brokers die, and side by side, as the theory of the other bars supposes?"""

from __future__ import annotations

import math
from collections import Counter

from benchmarks.report import Bars
from overlay.rng import rng_for
from sims.world.faults import dead_runs, draw_dead

CHI_SQUARE_001 = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 5: 20.52}  #: p = .001 by freedom


def runs_of_dead(bars: Bars, seed: int, rounds: int) -> None:
    """Runs of at least k dead among n, each dead with probability f: n (1 - f) f^k."""
    n = 100_000
    ring = [str(at) for at in range(n)]
    for share in (0.05, 0.1, 0.3):
        lengths: Counter[int] = Counter()
        for at in range(rounds):
            lengths.update(dead_runs(ring, draw_dead(ring, share, rng_for(seed, "B13", share, at))))
        worst = 0.0
        for k in (2, 3, 4, 5):
            expected = rounds * n * (1 - share) * share**k
            found = sum(count for length, count in lengths.items() if length >= k)
            worst = max(worst, abs(found - expected) / math.sqrt(expected))
        what = f"runs of >= 2..5 dead, f={share:g}, n={n}, {rounds} rounds: worst deviation, sigma"
        bars.check("B13", what, round(worst, 2), 3.0)
        total = sum(lengths.values())
        classes = [total * (1 - share) * share ** (k - 1) for k in (1, 2, 3, 4)]
        classes.append(total - sum(classes))
        counts = [lengths[k] for k in (1, 2, 3, 4)]
        counts.append(total - sum(counts))
        square = sum((c - e) ** 2 / e for c, e in zip(counts, classes, strict=True))
        what = f"lengths of runs, f={share:g}: chi-square, 4 degrees of freedom, p = .001"
        bars.check("B13", what, round(square, 2), CHI_SQUARE_001[4])
