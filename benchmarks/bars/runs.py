"""Runs of neighbours that die at once, in a ring of which others die as well (B15).

    python -m benchmarks.bars.runs [--nodes N] [--seeds S] [--shares F,F] [--modes M,M]

In a simulated ring runs of 1 to 20 die together with a share of all others. Every run of dead
neighbours counts, planted or not, with the routed messages (routes, their confirmations and their
answers, counted where they are sent) of the searches from each of its two ends.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from math import log2
from statistics import median

from benchmarks.arguments import at_least, fraction, listed, one_of
from benchmarks.bars.tables import WarmRing
from benchmarks.report import Bars
from overlay.machine import OpenLink, Send
from overlay.rng import rng_for
from ring.wire.messages import Route, Routed, RouteHeard, Towards
from sims.world.world import CrashMode

PLANTED = (1, 2, 3, 4, 5, 7, 10, 14, 20)
NODES_AT_LEAST = len(PLANTED) * (max(PLANTED) + 2)  #: so that they do not touch
LEFT_AT_LEAST = 5  #: a ring in which all pointers lead to different brokers
SHORT = 3  #: the longest run that is closed without a search
LIMIT_S = 120.0

End = tuple[str, Towards]  #: who searches, and to which side


class Searches:
    """Counts routed messages by the broker that searches and the side it searches to."""

    def __init__(self, ring: WarmRing) -> None:
        self.messages: Counter[End] = Counter()
        self._sides: dict[tuple[str, int], Towards] = {}
        ring.world.on_sent = self._count

    def _count(self, uid: str, effect: Send | OpenLink) -> None:
        match effect:
            case Send(message=Route(origin=origin, token=token, towards=towards)):
                self._sides[origin.uid, token] = towards
                self.messages[origin.uid, towards] += 1
            case Send(
                message=RouteHeard(origin=name, token=token) | Routed(trail=(name, *_), token=token)
            ):
                if (name, token) in self._sides:
                    self.messages[name, self._sides[name, token]] += 1


def main() -> int:
    """Measure each mode with each share and print B15; return 1 if it is missed or not judged."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bars.runs", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--nodes", type=at_least(NODES_AT_LEAST), default=500)
    parser.add_argument("--seeds", type=at_least(1), default=1)
    parser.add_argument(
        "--shares",
        type=listed(fraction),
        default="0,0.1,0.3,0.5",
        help="share of the others that die",
    )
    parser.add_argument("--modes", type=listed(one_of(CrashMode)), default="kill,power")
    options = parser.parse_args()
    others = options.nodes - sum(PLANTED)
    if others - round(max(options.shares) * others) < LEFT_AT_LEAST:
        parser.error(f"--shares: of {options.nodes} brokers fewer than {LEFT_AT_LEAST} are left")
    bars = Bars()
    for mode in map(CrashMode, options.modes):
        for share in options.shares:
            measure(bars, options.nodes, share, mode, options.seeds)
    return bars.exit_code


def measure(bars: Bars, n: int, share: float, mode: CrashMode, seeds: int) -> None:
    """Kill the planted runs and a share of the others at once, once a seed; B15.

    From the ends of runs of up to three no message may be routed. For longer ones the rings must be
    whole in 120 s, and the median of the messages from an end be 2 log2 n at most.
    """
    short: list[int] = []
    long: list[int] = []
    open_rings, seconds = 0, []
    for seed in range(1, seeds + 1):
        ring = WarmRing(n, seed)
        row = sorted(ring.places, key=ring.places.__getitem__)
        dead = choose(row, share, seed)
        searches = Searches(ring)
        for uid in sorted(dead):
            ring.ledger.on_crash(uid, 0, ring.world.now)
            ring.world.crash(uid, mode)
        healed = ring.heal_within(LIMIT_S)
        open_rings += healed is None
        seconds.append(healed or LIMIT_S)
        for length, ends in runs_of(row, dead):
            (short if length <= SHORT else long).extend(searches.messages[end] for end in ends)
    what = f"n = {n}, {mode.value}, {share:.0%} of the others dead"
    words = f"{what}: {len(short) // 2} runs of up to {SHORT}"
    if short:
        bars.check("B15", f"{words}: routed messages", sum(short), 0)
    else:
        bars.not_judged("B15", words)
    words = f"{what}: {len(long) // 2} longer runs"
    bars.check("B15", f"{words}: rings not whole again in {LIMIT_S:.0f} s", open_rings, 0)
    bars.check(
        "B15", f"{words}: median routed messages of an end", median(long), round(2 * log2(n), 1)
    )
    bars.note(
        f"{what}: whole again after {max(seconds):.2f} s, at most {max(long)} messages an end"
    )


def choose(row: list[str], share: float, seed: int) -> frozenset[str]:
    """Return who dies: a run of each planted length, and a share of the rest."""
    rng = rng_for(seed, "dead", str(share))
    dead: set[str] = set()
    stride = len(row) // len(PLANTED)
    for place, length in enumerate(PLANTED):
        dead.update(row[place * stride : place * stride + length])
    others = [uid for uid in row if uid not in dead]
    return frozenset(dead) | frozenset(rng.sample(others, round(share * len(others))))


def runs_of(row: list[str], dead: frozenset[str]) -> list[tuple[int, tuple[End, End]]]:
    """Return every run of dead neighbours: its length and its two living ends."""
    n = len(row)
    first = next(at for at, uid in enumerate(row) if uid not in dead)
    found, length, left = [], 0, row[first]
    for step in range(1, n + 1):
        uid = row[(first + step) % n]
        if uid in dead:
            length += 1
            continue
        if length:
            found.append((length, ((left, Towards.RIGHT), (uid, Towards.LEFT))))
        length, left = 0, uid
    return found


if __name__ == "__main__":
    sys.exit(main())
