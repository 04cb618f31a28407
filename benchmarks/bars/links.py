"""Links that fail while their brokers live: is anybody taken for dead, is the ring whole meanwhile?

    python -m benchmarks.bars.links [one] [death] [many] [never] [flap] [--seeds N] [--nodes N]

``one``: the link of two neighbours is cut for five minutes, then mended. ``death``: so, and one of
the two dies meanwhile. ``many``: for ten minutes links of neighbours are cut and mended at random,
up to four at once, silent or broken, some of them one way. ``never``: a share of all pairs can
never reach each other, from before the ring forms. ``flap``: a link breaks every second for ten
minutes. All in the simulator, profile ``lan``, with every seed from 1 on.
"""

from __future__ import annotations

import argparse
import sys
from statistics import median

from benchmarks.arguments import add_parts, at_least
from benchmarks.report import Bars
from overlay.ids import NANOS_PER_SECOND
from overlay.rng import rng_for
from ring.config import LAN
from ring.detection.detector import IDLE_PERIODS, IDLE_SPREAD
from ring.facts import Confirmed, Detoured, NeighboursChanged
from sims.experiments.cluster import POWER, Cluster
from sims.world.cuts import OF_LINKS, Cut

WHAT = ("one", "death", "many", "never", "flap")
BACK_S = 1.5 * LAN.retry_max_ns / NANOS_PER_SECOND + 2.5  #: a retry may be due only then
FOUND_S = LAN.silence_max_ns / NANOS_PER_SECOND + 1.0
#: Second neighbours send each other no heartbeats; a silent link between them is found only then.
IDLE_S = (IDLE_PERIODS + IDLE_SPREAD) * LAN.heartbeat_ns / NANOS_PER_SECOND
STEP_S = 0.05


def pair_of(cluster: Cluster, seed: int, step: int | None = None) -> tuple[str, str, Cut]:
    """Draw two brokers that are ``step`` places apart (None: one or two), and how a link fails."""
    rng = rng_for(seed, "pair")
    order = cluster.in_order
    at, drawn = rng.randrange(len(order)), rng.choice((1, 2))
    other = order[(at + (step or drawn)) % len(order)]
    return order[at], other, rng.choice(OF_LINKS)


def seconds_until_round(cluster: Cluster, a: str, b: str, *, going: bool) -> float:
    """Run until both go round their link, or neither does; return how long that took."""
    since = cluster.world.now
    while {b in cluster.nodes[a].detours, a in cluster.nodes[b].detours} != {going}:
        cluster.run(STEP_S)
        if cluster.world.now - since > 600 * NANOS_PER_SECOND:
            break
    return (cluster.world.now - since) / NANOS_PER_SECOND


def one(bars: Bars, nodes: int, seeds: int) -> None:
    """Cut the link of two neighbours, then of two second ones, for 300 s; once a seed each.

    Bars: no broker taken for dead, no pointer moved; the longest time, in virtual seconds, until
    both ends go round the link, and until both use it again.
    """
    for step, limit in ((1, FOUND_S), (2, IDLE_S + FOUND_S)):
        found, back, deaths, moves = [], [], 0, 0
        for seed in range(1, seeds + 1):
            cluster = Cluster.ring_of(nodes, seed)
            a, b, mode = pair_of(cluster, seed, step)
            cluster.cut(a, b, mode)
            found.append(seconds_until_round(cluster, a, b, going=True))
            cluster.run(300)
            cluster.mend(a, b)
            back.append(seconds_until_round(cluster, a, b, going=False))
            cluster.run(10)
            deaths += len(cluster.told(Confirmed))
            moves += len(cluster.told(NeighboursChanged))
        bars.note(f"{nodes} brokers, a link over {step} place(s) cut for 300 s, {seeds} seeds")
        bars.check("LINK", "live brokers taken for dead", deaths, 0)
        bars.check("LINK", "pointers that moved", moves, 0)
        middle = median(found)
        bars.check("LINK", f"s until both go round, longest (median {middle:g})", max(found), limit)
        middle = median(back)
        bars.check("LINK", f"s from mended to used, longest (median {middle:g})", max(back), BACK_S)


def death(bars: Bars, nodes: int, seeds: int) -> None:
    """Cut a link; 60 s later one of its ends loses power, once a seed.

    Bars: every ring ideal 10 s after it was found out; the longest time, in virtual seconds, until
    the other end has no link to the dead any more.
    """
    unnoticed, took = 0, []
    for seed in range(1, seeds + 1):
        cluster = Cluster.ring_of(nodes, seed)
        a, b, mode = pair_of(cluster, seed)
        cluster.cut(a, b, mode)
        cluster.run(60)
        since = cluster.world.now
        cluster.crash(b, POWER)
        while a in cluster.alive and b in cluster.nodes[a].linked:
            cluster.run(STEP_S)
            if cluster.world.now - since > 60 * NANOS_PER_SECOND:
                break
        took.append((cluster.world.now - since) / NANOS_PER_SECOND)
        cluster.run(10)
        unnoticed += bool(cluster.findings())
    bars.note(f"a broker behind a cut link loses power, {seeds} seeds")
    bars.check("LINK", "deaths not repaired", unnoticed, 0)
    bars.check(
        "LINK", f"s until it is confirmed, longest (median {median(took):g})", max(took), FOUND_S
    )


def many(bars: Bars, nodes: int, seeds: int) -> None:
    """Cut and mend links of first and second neighbours for 600 s, four at most at once.

    Bars: no broker taken for dead; every ring ideal 60 s after the last is mended.
    """
    deaths = broken = cuts = 0
    for seed in range(1, seeds + 1):
        cluster = Cluster.ring_of(nodes, seed)
        rng = rng_for(seed, "cuts")
        down: list[tuple[float, str, str]] = []
        end = cluster.world.now / NANOS_PER_SECOND + 600
        while (now := cluster.world.now / NANOS_PER_SECOND) < end:
            for until, a, b in [entry for entry in down if entry[0] <= now]:
                cluster.mend(a, b)
                down.remove((until, a, b))
            if len(down) < 4:
                order = cluster.in_order
                at = rng.randrange(len(order))
                a, b = order[at], order[(at + rng.choice((1, 2))) % len(order)]
                if not cluster.world.is_cut(a, b):
                    one_way = rng.random() < 0.2
                    cluster.cut(a, b, rng.choice(OF_LINKS), one_way=one_way)
                    down.append((now + rng.uniform(1, 120), a, b))
                    cuts += 1
            cluster.run(rng.uniform(1, 10))
        for _, a, b in down:
            cluster.mend(a, b)
        cluster.run(60)
        broken += bool(cluster.findings())
        deaths += len(
            {f.subject.uid for _, f in cluster.told(Confirmed) if isinstance(f, Confirmed)}
        )
    bars.note(f"{cuts} cuts in {seeds} rings of {nodes}, up to four links of each down at a time")
    bars.check("LINK", "live brokers taken for dead", deaths, 0)
    bars.check("LINK", "rings not ideal 60 s after the last is mended", broken, 0)


def never(bars: Bars, nodes: int, seeds: int) -> None:
    """Form rings while 2.3, 5 and 20 % of all pairs cannot reach each other, once a seed each.

    Bars: every ring ideal 120 s after the last has started and 120 s later, no broker taken for
    dead in between; not judged where no such pair was drawn.
    """
    for share in (0.023, 0.05, 0.2):
        broken = deaths = drawn = cut = 0
        for seed in range(1, seeds + 1):
            cluster = Cluster(seed)
            rng = rng_for(seed, "pairs")
            pairs = [(i, j) for i in range(nodes) for j in range(i + 1, nodes)]
            for i, j in pairs:
                if rng.random() < share:
                    cluster.cut(cluster.name(i), cluster.name(j))
                    drawn += 1
            cluster.found()
            while len(cluster.nodes) < nodes:
                cluster.start(list(cluster.nodes)[:6])
                cluster.run(1.0)
            cluster.run(120)
            broken += bool(cluster.findings())
            cluster.facts.clear()
            cluster.run(120)
            broken += bool(cluster.findings())
            deaths += len(cluster.told(Confirmed))
            cut += sum(
                cluster.world.is_cut(uid, member.uid)
                for uid, node in cluster.nodes.items()
                for member in node.right
            )
        bars.note(
            f"{100 * share:g} % of all pairs, {drawn} in all, never reach each other; {cut} of them"
            " neighbours"
        )
        if not drawn:
            bars.not_judged(
                "LINK", f"{seeds} rings of {nodes}: no pair that cannot reach each other"
            )
            continue
        bars.check("LINK", f"of {seeds} rings of {nodes}: not ideal", broken, 0)
        bars.check("LINK", "live brokers taken for dead in the next 120 s", deaths, 0)


def flap(bars: Bars, nodes: int, seeds: int) -> None:
    """Break a link for 0.1 s in every second, 600 times, once a seed.

    Bars: given up for a way round 20 times at most; no broker taken for dead.
    """
    uses, deaths = [], 0
    for seed in range(1, seeds + 1):
        cluster = Cluster.ring_of(nodes, seed)
        a, b, _ = pair_of(cluster, seed)
        for _ in range(600):
            cluster.cut(a, b, Cut.BROKEN)
            cluster.run(0.1)
            cluster.mend(a, b)
            cluster.run(0.9)
        uses.append(len([uid for uid, _ in cluster.told(Detoured) if uid == a]))
        deaths += len(cluster.told(Confirmed))
    bars.note(f"a link that breaks 600 times in 600 s, {seeds} seeds")
    bars.check("LINK", f"times it was used again, most (median {median(uses):g})", max(uses), 20)
    bars.check("LINK", "live brokers taken for dead", deaths, 0)


def main() -> int:
    """Measure the parts named and print them; return 1 if a bar is missed or not judged, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bars.links", description=(__doc__ or "").splitlines()[0]
    )
    add_parts(parser, WHAT)
    parser.add_argument("--seeds", type=at_least(1), default=10)
    parser.add_argument("--nodes", type=at_least(5), default=24)
    given = parser.parse_args()
    bars = Bars()
    runs = {"one": one, "death": death, "many": many, "never": never, "flap": flap}
    for what in given.what:
        runs[what](bars, given.nodes, given.seeds)
    return bars.exit_code


if __name__ == "__main__":
    sys.exit(main())
