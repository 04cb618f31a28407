"""Is the ring a ring: its tables, Zave's invariants in churn, shrinking to one (B01, B02, B04)?

    python -m benchmarks.bars.invariants [tables] [diameter] [churn] [shrink] [deaths] [returns]
        [--seeds N] [--first S] [--shrinks N] [--large N ...] [--jobs N] [--full]

``tables``: rings of 2 to 200 by joins, and large ones from warm starts, compared with the sorted
ids at rest; the diameter of their pointers by breadth-first search. ``churn``: joins and crashes in
rings of up to 15, one run a seed; P. Zave's invariants are asked for after every event that changes
a pointer or a member, and the ring must be ideal at rest. Crashes obey her assumption: everybody
keeps a live neighbour on each side, and a newcomer keeps one live address. ``shrink``: 200 to 1 by
crashes and leaves, and back by joins. ``deaths``: somebody dies after each single step of a join,
for every step (B07). ``returns``: a broker loses power and is back within the detection time, one
ring a seed (B02). ``--full`` runs the sizes that the bars name.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import get_context
from random import Random
from typing import TypeVar

from benchmarks.arguments import add_parts, at_least
from benchmarks.bars.deaths import deaths, survive
from benchmarks.bars.watched_rings import WatchedRing
from benchmarks.report import Bars
from overlay.ids import NANOS_PER_SECOND, Nanos, nanos
from overlay.rng import rng_for
from ring.config import LAN
from ring.geometry import RING_SIZE
from sims.errors import InvariantViolated
from sims.experiments.cluster import KILL, POWER, Cluster
from sims.explore.search import no_cycles_looked_for
from sims.stories.lives import RETURNED_S
from sims.world.warm import spread_evenly

LIMIT = 12  #: brokers from which on none is started in churn; up to four start together
CHURN_S = 20.0
PEAK = 200  #: of a ring that shrinks to one
RETURN_STEP_S = 0.25  #: how often a ring is looked at to which a broker came back
WHAT = ("tables", "diameter", "churn", "shrink", "deaths", "returns")

R = TypeVar("R")


# ── B01 ───────────────────────────────────────────────────────────────────────────────────────


def measure_tables(bars: Bars, large: Sequence[int]) -> None:
    """Grow a ring one by one and look at it each time it is at rest."""
    wrong: list[str] = []
    far: list[str] = []
    cluster = Cluster(1)
    first = cluster.found()
    cluster.run(1.0)
    for n in range(2, PEAK + 1):
        cluster.start([first])
        limit = cluster.world.now + nanos(30)
        while cluster.findings() and cluster.world.now < limit:
            cluster.run(0.05)
        wrong += [f"n = {n}: {finding}" for finding in cluster.findings()]
        if n >= 5:
            diameter = _diameter(_pointers(cluster))
            if diameter != _formula(n):
                far.append(f"n = {n}: diameter {diameter}, should be {_formula(n)}")
    what = f"brokers with a pointer that is not as in the sorted ids, n = 2..{PEAK}"
    bars.check("B01", what, len(wrong), 0)
    bars.check("B01", f"rings of 5..{PEAK} not of diameter ceil((n-1)/4)", len(far), 0)
    for line in (*wrong[:5], *far[:5]):
        bars.note(line)
    for n in large:
        start = time.perf_counter()
        with no_cycles_looked_for():
            cluster = Cluster(1)
            cluster.start_warm(spread_evenly(n))
            cluster.run(10.0)
        found = cluster.findings()
        bars.check("B01", f"findings in a ring of {n}, started warm", len(found), 0)
        diameter = _diameter(_pointers(cluster), sources=1)
        bars.check(
            "B01", f"diameter from one broker of {n}, off by", abs(diameter - _formula(n)), 0
        )
        bars.note(f"{time.perf_counter() - start:.0f} s real time")


def measure_diameter(bars: Bars) -> None:
    """The formula itself, by breadth-first search of circulant graphs; one source tells all."""
    wrong = 0
    for n in range(5, 2001):
        steps = {at: [(at + step) % n for step in (1, 2, -1, -2)] for at in range(n)}
        wrong += _diameter(steps, sources=1) != _formula(n)
    bars.check("B01", "n in 5..2000 where C_n(1,2) is not of diameter ceil((n-1)/4)", wrong, 0)


def _formula(n: int) -> int:
    return -(-(n - 1) // 4)


def _pointers(cluster: Cluster) -> dict[str, list[str]]:
    return {
        uid: [m.uid for m in (*cluster.nodes[uid].left, *cluster.nodes[uid].right)]
        for uid in cluster.in_order
    }


T = TypeVar("T", str, int)


def _diameter(graph: Mapping[T, Sequence[T]], sources: int | None = None) -> int:
    """Return the longest of the shortest ways from the first ``sources``, or from all."""
    longest = 0
    for source in list(graph)[:sources]:
        steps = {source: 0}
        queue = deque([source])
        while queue:
            here = queue.popleft()
            for there in graph[here]:
                if there not in steps:
                    steps[there] = steps[here] + 1
                    queue.append(there)
        longest = max(longest, *steps.values()) if len(steps) == len(graph) else len(graph)
    return longest


# ── B02 ───────────────────────────────────────────────────────────────────────────────────────


def churn(seed: int) -> tuple[int, int, dict[str, int], list[str]]:
    """Run one seed; return it, the checks made, what was broken how often, and examples."""
    rng = rng_for(seed, "churn")
    cluster = WatchedRing(seed)
    cluster.found()
    cluster.run(0.5)
    end = cluster.world.now + nanos(CHURN_S)
    while cluster.world.now < end:
        _something(cluster, rng)
        cluster.check()
        cluster.run(rng.choice((0.0005, 0.002, 0.01, 0.1, 0.5, 2.0)))
    broken = dict(Counter(_name_of(finding) for _, finding in cluster.broken))
    examples = [f"{at / 1e9:.4f} s: {finding}" for at, finding in cluster.broken[:3]]
    try:
        cluster.rest(300)
    except InvariantViolated as error:
        broken["not ideal at rest"] = 1
        examples.append(str(error)[:300])
    if cluster.ledger.findings:
        broken["local invariants"] = len(cluster.ledger.findings)
    return seed, cluster.checks, broken, examples


def _name_of(finding: str) -> str:
    name = finding.split(": ", 1)[1].split(":")[0]
    return name if " " not in name else "a live neighbour"


def _something(cluster: WatchedRing, rng: Random) -> None:
    members = cluster.in_order
    if len(cluster.alive) < LIMIT and (len(members) < 3 or rng.random() < 0.5):
        for _ in range(rng.randint(1, 4)):
            cluster.start(rng.sample(members, min(3, len(members))))
    elif len(members) > 1:
        victim = rng.choice(members)
        if cluster.may_lose(victim):
            cluster.crash(victim, rng.choice((KILL, POWER)))


def measure_churn(bars: Bars, seeds: int, first: int, jobs: int) -> None:
    """Run :func:`churn` with each seed in ``jobs`` processes; B02: no seed breaks an invariant."""
    broken: Counter[str] = Counter()
    bad: Counter[str] = Counter()
    checks = 0
    shown: list[str] = []
    for seed, asked, found, examples in _spread(churn, range(first, first + seeds), jobs):
        checks += asked
        broken.update(found)
        bad.update(dict.fromkeys(found, 1))
        shown += [f"seed {seed}: {example}" for example in examples]
    names = (
        "AtLeastOneRing",
        "AtMostOneRing",
        "OrderedRing",
        "ConnectedAppendages",
        "a live neighbour",
        "local invariants",
        "not ideal at rest",
    )
    for name in names:
        bars.check("B02", f"{seeds} seeds of churn, seeds with {name} broken", bad[name], 0)
    bars.note(f"{checks} states checked; {broken.total()} findings")
    for line in shown[:10]:
        bars.note(line)


# ── B04 ───────────────────────────────────────────────────────────────────────────────────────


def shrink(seed: int) -> tuple[int, list[str], Nanos]:
    """200 to 1 to 200; return the seed, what was wrong, and the virtual time."""
    rng = rng_for(seed, "shrink")
    cluster = Cluster(seed)
    cluster.start_warm(spread_evenly(PEAK))
    try:
        cluster.rest()
        while len(cluster.alive) > 1:
            order = cluster.in_order
            for uid in order[rng.randrange(2) :: 3][: len(order) - 1]:
                if rng.random() < 0.3:
                    cluster.leave(uid)
                else:
                    cluster.crash(uid, rng.choice((KILL, POWER)))
            cluster.rest()
        while len(cluster.alive) < PEAK:
            here = cluster.alive
            for _ in range(min(max(1, len(here) // 4), PEAK - len(here))):
                cluster.start(rng.sample(here, min(3, len(here))))
            cluster.run(0.1)
        cluster.rest()
    except InvariantViolated as error:
        return seed, [str(error)[:300]], cluster.world.now
    return seed, cluster.ledger.findings, cluster.world.now


def measure_shrink(bars: Bars, seeds: int, first: int, jobs: int) -> None:
    """Run :func:`shrink` with each seed, in ``jobs`` processes; B04: no seed has a finding."""
    failed = [
        f"seed {seed}: {findings[:2]}"
        for seed, findings, _ in _spread(shrink, range(first, first + seeds), jobs)
        if findings
    ]
    what = f"{PEAK} to 1 to {PEAK} brokers, {seeds} seeds"
    bars.check("B04", f"{what}: not ideal, or a local monitor fired", len(failed), 0)
    for line in failed[:5]:
        bars.note(line)


# ── deaths during joins ───────────────────────────────────────────────────────────────────────


def every_death(n: int) -> tuple[int, int, list[str]]:
    """Return n, the deaths tried in a join to a ring of ``n``, and what went wrong."""
    outcomes = [survive(death, uid) for death, uid in deaths(n, seed=n)]
    return n, len(outcomes), [wrong for wrong in outcomes if wrong is not None]


def measure_deaths(bars: Bars, jobs: int) -> None:
    """Run :func:`every_death` in rings of 1 to 12; B07: nothing is amiss after any death."""
    tried = 0
    wrong: list[str] = []
    for n, count, failed in _spread(every_death, (1, 2, 3, 4, 5, 6, 7, 9, 12), jobs):
        bars.note(f"joins to a ring of {n}: {count} deaths tried, {len(failed)} went wrong")
        tried += count
        wrong += failed
    what = f"{tried} deaths, one after each step of a join to rings of 1..12"
    bars.check("B07", f"{what}: ring not whole, or a ghost", len(wrong), 0)
    for line in wrong[:5]:
        bars.note(line[:300])


# ── brokers that are back before they are missed ──────────────────────────────────────────────


def come_back(seed: int) -> tuple[int, float, list[str]]:
    """Return the seed, seconds from a return to an ideal ring, and what is wrong if it is late.

    In a ring of 7 to 29 whose gaps differ, a broker loses power and is back in its next life within
    the detection time, through one to three brokers that stand side by side anywhere.
    """
    rng = rng_for(seed, "returns")
    n = rng.randrange(7, 30)
    cluster = Cluster(seed)
    places = sorted(rng.sample(range(4 * n), n))
    order = cluster.start_warm([place * (RING_SIZE // (4 * n)) for place in places])
    cluster.run(rng.uniform(0.3, 1.3))
    uid = order.pop(rng.randrange(n))
    cluster.crash(uid, POWER)
    cluster.run(rng.choice((0.02, rng.uniform(0, LAN.silence_ns / NANOS_PER_SECOND))))
    first = rng.randrange(n - 1)
    cluster.restart(uid, [order[(first + at) % (n - 1)] for at in range(rng.choice((1, 1, 3)))])
    start = cluster.world.now
    ideal_at = start
    while cluster.world.now < start + nanos(RETURNED_S):
        cluster.run(RETURN_STEP_S)
        if cluster.findings():
            ideal_at = cluster.world.now + nanos(RETURN_STEP_S)
    return seed, (ideal_at - start) / NANOS_PER_SECOND, cluster.findings()


def measure_returns(bars: Bars, seeds: int, first: int, jobs: int) -> None:
    """Run :func:`come_back` with each seed; B02: the ring is ideal soon after each return."""
    late: list[str] = []
    longest = 0.0
    for seed, seconds, findings in _spread(come_back, range(first, first + seeds), jobs):
        longest = max(longest, seconds)
        if findings:
            late.append(f"seed {seed}: {findings[:2]}")
    what = f"{seeds} rings to which a broker came back before it was missed"
    bars.check("B02", f"{what}: not ideal after {RETURNED_S:g} s", len(late), 0)
    bars.note(f"longest until the ring was ideal, to {RETURN_STEP_S:g} s: {longest:.2f} s")
    for line in late[:5]:
        bars.note(line[:300])


def _spread(work: Callable[[int], R], over: Sequence[int], jobs: int) -> Iterator[R]:
    if jobs <= 1:
        yield from map(work, over)
        return
    with get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(work, over)


def main() -> int:
    """Measure the parts named and print their bars; return 1 if one is missed, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bars.invariants", description=__doc__.splitlines()[0]
    )
    add_parts(parser, WHAT)
    parser.add_argument("--seeds", type=at_least(1), default=300, help="of churn, and of returns")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--shrinks", type=at_least(1), default=3, help="seeds of shrinking")
    parser.add_argument(
        "--large", type=at_least(5), nargs="*", default=[1000], help="rings started warm"
    )
    parser.add_argument("--jobs", type=at_least(1), default=2, help="processes")
    parser.add_argument("--full", action="store_true", help="the sizes that the bars name")
    options = parser.parse_args()
    if options.full:
        options.seeds, options.shrinks, options.large = 3000, 1000, [1000, 10_000]
    bars = Bars()
    if "tables" in options.what:
        measure_tables(bars, options.large)
    if "diameter" in options.what:
        measure_diameter(bars)
    if "churn" in options.what:
        measure_churn(bars, options.seeds, options.first, options.jobs)
    if "shrink" in options.what:
        measure_shrink(bars, options.shrinks, options.first, options.jobs)
    if "deaths" in options.what:
        measure_deaths(bars, options.jobs)
    if "returns" in options.what:
        measure_returns(bars, options.seeds, options.first, options.jobs)
    return bars.exit_code


if __name__ == "__main__":
    sys.exit(main())
