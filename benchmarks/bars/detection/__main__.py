"""How soon and how surely failures are detected: B13, B17, B18, B19, B21, B22.

    python -m benchmarks.bars.detection [--only B17,B18] [--seed S] [--scale X]
                                        [--nodes N,N] [--seeds N] [--profiles lan,wan]

B18 has options of its own: ``--nodes`` gives the ring sizes (default 1000; the full bar:
1000,10000,100000), ``--seeds`` how many rings of each, from ``--seed`` on, whose deaths are taken
together. ``--profiles`` says which times B17 and B18 take, of classic (T = 1 s, k = 3), lan and wan
(default: all). ``--scale`` multiplies how much is drawn or how long is run for all but B18; a bar
for which too little is drawn is not judged, and so not met.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.arguments import above, at_least, listed, one_of
from benchmarks.bars.detection.how_soon import PROFILES, crash_to_confirmation, law_of_silence
from benchmarks.bars.detection.how_surely import loss, separated_pairs
from benchmarks.bars.detection.injector import runs_of_dead
from benchmarks.bars.detection.pauses import pauses
from benchmarks.report import Bars

BARS = ("B13", "B17", "B18", "B19", "B21", "B22")


def main() -> None:
    """Measure and print the bars named; exit code 1 if one is missed or not judged, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bars.detection", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--only", type=listed(one_of(BARS)), default=BARS, help="bars, with commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--nodes", type=listed(at_least(30)), default=[1000], help="ring sizes of B18, with commas"
    )
    parser.add_argument("--seeds", type=at_least(1), default=1, help="rings of each size in B18")
    parser.add_argument(
        "--profiles",
        type=listed(one_of(PROFILES)),
        default=list(PROFILES),
        help="of B17 and B18, with commas",
    )
    parser.add_argument("--scale", type=above(0), default=1.0)
    options = parser.parse_args()
    bars = Bars()
    only, seed, scale = options.only, options.seed, options.scale
    if "B13" in only:
        runs_of_dead(bars, seed, max(1, round(40 * scale)))
    if "B17" in only:
        law_of_silence(bars, seed, max(1, round(2 * scale)), options.profiles)
    if "B18" in only:
        crash_to_confirmation(bars, seed, options.seeds, options.nodes, options.profiles)
    if "B19" in only:
        loss(bars, seed, 150 * scale)
    if "B21" in only:
        separated_pairs(bars, seed, scale)
    if "B22" in only:
        pauses(bars, seed, 240 * scale)
    sys.exit(bars.exit_code)


if __name__ == "__main__":
    main()
