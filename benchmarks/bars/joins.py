"""Joins: do ids run out, how even do they stay, what does a flash crowd do to a ring (B06, B07)?

    python -m benchmarks.bars.joins [ids] [published] [crowd] [race] [--joins N] [--crowd N]
        [--contacts any one] [--seeds N] [--seed S] [--full]

``ids``: joins on a model of the ring that stores nothing but ids; every choice is made by
:func:`ring.joining.gap_choice.choose`, the code that brokers run. Once each newcomer's contact is
any broker, once it is the same one for all (``--contacts``). ``published``: the same with the
paper's rule, until a join fails; to see that with any contact takes ``--joins 1000000``. ``crowd``:
brokers in the simulator, all joining through one in 60 virtual seconds. ``race``: 2 to 16 of them
asking one broker for a place in one gap at one moment. ``--full`` runs the sizes that the bars
name: some minutes for each 10^6 joins, some more for a crowd of 10^4.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sortedcontainers import SortedList

from benchmarks.arguments import add_parts, at_least
from benchmarks.report import Bars
from overlay.ids import nanos
from overlay.rng import rng_for
from ring.config import LAN, GapRule
from ring.geometry import FIRST_ID, RING_SIZE, SECOND_ID, gap, midway
from ring.joining.gap_choice import Request, Sight, Verdict, choose
from sims.experiments.cluster import Cluster

MAX_SPREAD = 2**12  #: B06, of the widest gap over the narrowest
REST_S = 30.0  #: B07, from the last join to an ideal ring
CROWD_S = 60.0
WHAT = ("ids", "published", "crowd", "race")


@dataclass(frozen=True, slots=True)
class Grown:
    """A ring grown by joins, as far as ids go."""

    ids: SortedList[int]
    failed: int
    jumps: Counter[int]

    @property
    def spread(self) -> float:
        """Widest gap over narrowest."""
        return spread(self.ids)

    @property
    def mean_jumps(self) -> float:
        """How often the request of a join was passed on, in the mean over those that succeeded."""
        return sum(jumps * times for jumps, times in self.jumps.items()) / self.jumps.total()


def spread(ids: Sequence[int]) -> float:
    """Return the widest gap of a ring over the narrowest; ``ids`` are in order."""
    widths = [gap(a, b) for a, b in pairwise(ids)]
    widths.append(gap(ids[-1], ids[0]))
    return max(widths) / min(widths)


def sight_of(ids: SortedList[int], here: int) -> Sight:
    """Return what the broker ``here`` sees in a quiet ring of ``ids``."""
    n, at = len(ids), ids.index(here)
    half = min(4, n - 1)
    rights = [ids[(at + step) % n] for step in range(1, half + 1)]
    lefts = [ids[at - step] for step in range(1, min(4, n - 1 - half) + 1)]
    chords = []
    reach = 2
    while reach < n:
        chords.append(ids[(at + reach) % n])
        reach *= 2
    return Sight(here, gap(here, ids[(at + 1) % n]), lefts, rights, n < 9, chords)


def grow(n: int, *, one_contact: bool, rule: GapRule = GapRule.WIDEST, seed: int = 1) -> Grown:
    """Let brokers join a ring one after the other until it has ``n``, or joins fail."""
    rng = rng_for(seed, "joins", one_contact)
    ids: SortedList[int] = SortedList((FIRST_ID, SECOND_ID))
    come = [FIRST_ID, SECOND_ID]
    grown = Grown(ids, 0, Counter())
    failed = 0
    while len(come) < n and not failed:
        at = FIRST_ID if one_contact else rng.choice(come)
        newcomer, jumps, asked = f"{rng.getrandbits(128):032x}", 0, False
        while True:
            sight = sight_of(ids, at)
            choice = choose(sight, Request(newcomer, jumps, asked), rule, LAN.join_hops, rng)
            if choice.verdict is Verdict.INSERT:
                new = midway(at, (at + sight.room) % RING_SIZE)
                come.append(new)
                ids.add(new)
                grown.jumps[jumps] += 1
                break
            if choice.verdict is Verdict.FULL:
                failed += 1
                break
            at, jumps, asked = choice.ring_id, jumps + 1, choice.verdict is Verdict.ASK
    return Grown(ids, failed, grown.jumps)


def measure_ids(bars: Bars, joins: int, contacts: tuple[str, ...], seed: int) -> None:
    """Grow a ring of ``joins`` ids once for each kind of contact, "any" and "one"; B06.

    No join may fail, no id be given twice, and no gap be wider than 2^12 times another.
    """
    for words in contacts:
        start = time.perf_counter()
        grown = grow(joins, one_contact=words == "one", seed=seed)
        took = time.perf_counter() - start
        twice = len(grown.ids) - len(set(grown.ids))
        what = f"joins to n = {joins}, {words} contact"
        bars.check("B06", f"{what}: failed", grown.failed, 0)
        bars.check("B06", f"{what}: ids given twice", twice, 0)
        bars.check("B06", f"{what}: widest gap over narrowest", round(grown.spread), MAX_SPREAD)
        jumps = f"mean {grown.mean_jumps:.2f} max {max(grown.jumps)}"
        bars.note(f"{what}: jumps of a request {jumps}; {took:.0f} s")


def measure_published(bars: Bars, joins: int, contacts: tuple[str, ...], seed: int) -> None:
    """No bar: the paper's own rule, for comparison."""
    for words in contacts:
        grown = grow(joins, one_contact=words == "one", rule=GapRule.PUBLISHED, seed=seed)
        ran_out = f"fails at n = {len(grown.ids)}" if grown.failed else "no join fails"
        bars.note(f"the published rule, {words} contact, to n = {joins}: {ran_out}")


def measure_crowd(bars: Bars, joins: int, seed: int) -> None:
    """Everybody is given the address of the first broker and no other."""
    start = time.perf_counter()
    cluster = Cluster(seed)
    first = cluster.found()
    cluster.run(1.0)
    for _ in range(joins):
        cluster.start([first])
        cluster.run(CROWD_S / joins)
    seconds, findings = _until_ideal(cluster, 2 * REST_S)
    took = time.perf_counter() - start
    what = f"{joins} joins through one contact in {CROWD_S:.0f} s"
    ids = sorted(member.ring_id for node in cluster.nodes.values() if (member := node.member))
    bars.check("B07", f"{what}: not on the ring", 1 + joins - len(ids), 0)
    bars.check("B07", f"{what}: ids held twice", len(ids) - len(set(ids)), 0)
    bars.check("B07", f"{what}: seconds from the last join to an ideal ring", seconds, REST_S)
    bars.check("B07", f"{what}: broken local invariants", len(cluster.ledger.findings), 0)
    bars.note(f"widest gap over narrowest {spread(ids):.0f}; {took:.0f} s in real time")
    for finding in findings[:5]:
        bars.note(finding)


def measure_race(bars: Bars, seeds: int) -> None:
    """Newcomers ask one broker of a small ring at the same moment."""
    bad: list[str] = []
    longest = 0.0
    for seed in range(1, seeds + 1):
        rng = rng_for(seed, "race")
        n, racers = rng.randint(1, 8), 2 + seed % 15
        cluster = Cluster.ring_of(n, seed)
        contact = rng.choice(cluster.alive)
        for _ in range(racers):
            cluster.start([contact])
        seconds, findings = _until_ideal(cluster, REST_S)
        ids = [member.ring_id for node in cluster.nodes.values() if (member := node.member)]
        longest = max(longest, seconds)
        if findings or len(set(ids)) != n + racers:
            bad.append(f"seed {seed}: {racers} racing into a ring of {n}: {findings[:2]}")
    what = f"2 to 16 newcomers racing for one gap, {seeds} seeds"
    bars.check("B07", f"{what}: without an ideal ring of all at the end", len(bad), 0)
    bars.check("B07", f"{what}: seconds to an ideal ring, longest", longest, REST_S)
    for line in bad[:5]:
        bars.note(line)


def _until_ideal(cluster: Cluster, limit_s: float) -> tuple[float, list[str]]:
    """Run until the ring of all brokers is ideal; return the seconds, and what was still amiss."""
    start = cluster.world.now
    while (findings := cluster.findings()) and cluster.world.now - start < nanos(limit_s):
        cluster.run(0.2)
    return (cluster.world.now - start) / 1e9, findings


def main() -> int:
    """Measure the parts named and print them; return 1 if B06 or B07 is missed, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bars.joins", description=__doc__.splitlines()[0]
    )
    add_parts(parser, WHAT)
    parser.add_argument("--joins", type=at_least(100), default=100_000, help="joins on the model")
    parser.add_argument(
        "--contacts",
        nargs="+",
        choices=("any", "one"),
        default=("any", "one"),
        help="for ids and published",
    )
    parser.add_argument(
        "--crowd", type=at_least(1), default=1000, help="brokers in the flash crowd"
    )
    parser.add_argument("--seeds", type=at_least(1), default=150, help="races")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--full", action="store_true", help="10^6 joins, a crowd of 10^4, 1000 races"
    )
    options = parser.parse_args()
    if options.full:
        options.joins, options.crowd, options.seeds = 10**6, 10**4, 1000
    bars = Bars()
    if "ids" in options.what:
        measure_ids(bars, options.joins, options.contacts, options.seed)
    if "published" in options.what:
        measure_published(bars, options.joins, options.contacts, options.seed)
    if "crowd" in options.what:
        measure_crowd(bars, options.crowd, options.seed)
    if "race" in options.what:
        measure_race(bars, options.seeds)
    return bars.exit_code


if __name__ == "__main__":
    sys.exit(main())
