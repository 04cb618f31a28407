"""How soon and how surely failures are detected: B13, B17, B18, B19, B21, B22.

    python -m benchmarks.ring.detection [--only B17,B18] [--seed S] [--nodes N,N] [--scale X]

``--nodes`` gives the ring sizes of B18 (default 1000; the full bar: 1000,10000,100000), ``--scale``
multiplies how much is drawn or how long is run for the other bars.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import statistics
import sys
from collections import Counter

from benchmarks.ring.report import Bars
from benchmarks.ring.rings import Ring
from overlay.ids import NANOS_PER_SECOND, Nanos, nanos
from overlay.rng import rng_for
from ring.config import LAN, WAN, RingConfig
from ring.detector import Detector
from ring.facts import Confirmed, Joined, Suspected
from ring.health import LocalHealth
from ring.messages import Member, TestNeighbour
from ring.parts import Parts
from sims.faults import DETECTION, Retransmissions, dead_runs, draw_dead
from sims.network import DISTANCES
from sims.world import CrashMode

#: T = 1 s, k = 3: a broker is suspected when nothing was heard of it for three whole periods.
CLASSIC = RingConfig(
    heartbeat_ns=nanos(1.0),
    lateness_ns=nanos(1.0),
    lateness_max_ns=nanos(1.0),
    answer_ns=nanos(0.5),
    answer_max_ns=nanos(0.5),
)
SPACING = 10  #: brokers between any two that die, so that each death is a case of its own
CHI_SQUARE_001 = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 5: 20.52}  #: p = .001 by freedom


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="bars, with commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", default="1000", help="ring sizes of B18, with commas")
    parser.add_argument("--scale", type=float, default=1.0)
    options = parser.parse_args()
    bars = Bars()
    only = {bar for bar in options.only.split(",") if bar}
    sizes = [int(part) for part in options.nodes.split(",")]
    seed, scale = options.seed, options.scale
    if not only or "B13" in only:
        runs_of_dead(bars, seed, max(1, round(40 * scale)))
    if not only or "B17" in only:
        law_of_silence(bars, seed, max(1, round(2 * scale)))
    if not only or "B18" in only:
        crash_to_confirmation(bars, seed, sizes)
    if not only or "B19" in only:
        loss(bars, seed, 150 * scale)
    if not only or "B21" in only:
        separated_pairs(bars, seed, max(1, round(8 * scale)))
    if not only or "B22" in only:
        pauses(bars, seed, 240 * scale)
    sys.exit(bars.exit_code)


# ── B13: the injector ─────────────────────────────────────────────────────────────────────────


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


# ── B17, B18: how soon ────────────────────────────────────────────────────────────────────────


def law_of_silence(bars: Bars, seed: int, rounds: int) -> None:
    """First suspicion after T (k - M / (M + 1)) in the mean, each monitor's after T (k - 1/2).

    k is the silence that makes a suspicion, in periods. Questions to witnesses are lost here, so
    that nobody is told before it suspects by itself.
    """
    lan = dataclasses.replace(LAN, lateness_max_ns=LAN.lateness_ns)
    for name, base in (("T=1 s, k=3", CLASSIC), ("lan", lan)):
        for monitors in (1, 2, 4):
            config = dataclasses.replace(base, monitors=monitors)
            first, each = [], []
            for at in range(rounds):
                times = _suspicions(config, seed + at)
                first += [times_of[0] for times_of in times]
                each += list(itertools.chain.from_iterable(times))
            period = config.heartbeat_ns / NANOS_PER_SECOND
            misses = config.silence_ns / config.heartbeat_ns
            law = period * (misses - monitors / (monitors + 1))
            law_each = period * (misses - 0.5)
            off = abs(statistics.mean(first) / law - 1)
            what = (
                f"{name}, M={monitors}: first suspicion mean {statistics.mean(first):.3f} s, law"
                f" {law:.3f} s, {len(first)} deaths: relative deviation"
            )
            bars.check("B17", what, round(off, 4), 0.03)
            off = abs(statistics.mean(each) / law_each - 1)
            what = (
                f"{name}, M={monitors}: each monitor mean {statistics.mean(each):.3f} s, law"
                f" {law_each:.3f} s: relative deviation"
            )
            bars.check("B17", what, round(off, 4), 0.03)
            what = f"{name}, M={monitors}: latest suspicion, s (k T and the longest delay)"
            bars.check("B17", what, round(max(each), 4), misses * period + 0.01)


def _suspicions(config: RingConfig, seed: int) -> list[list[float]]:
    """Return, for each death, after how many seconds each of its monitors suspected it."""
    ring = Ring(1000, config, seed)
    ring.world.loss = {TestNeighbour: 1.0}
    ring.run(4)
    ring.wanted = (Suspected,)
    deaths = _kill_apart(ring, 90, CrashMode.POWER, spread_s=2.0)
    ring.run(config.silence_ns / NANOS_PER_SECOND + 0.1)
    steps = {1: (-1,), 2: (-1, 1), 4: (-2, -1, 1, 2)}[config.monitors]
    places = {uid: at for at, uid in enumerate(ring.order)}
    found: dict[str, list[float]] = {uid: [] for uid in deaths}
    for at, observer, fact in ring.facts:
        assert isinstance(fact, Suspected)
        uid = fact.subject.uid
        monitors = [ring.order[(places[uid] + step) % len(ring.order)] for step in steps]
        if uid in deaths and observer in monitors:
            found[uid].append((at - deaths[uid]) / NANOS_PER_SECOND)
    assert all(len(times) == len(steps) for times in found.values()), "a monitor missed a death"
    return list(found.values())


def crash_to_confirmation(bars: Bars, seed: int, sizes: list[int]) -> None:
    """From the silent death of a broker until both its neighbours hold it for dead."""
    wan = dataclasses.replace(WAN)
    for name, config, distances in (
        ("T=1 s, k=3", CLASSIC, "lan"),
        ("lan", LAN, "lan"),
        ("wan", wan, "lan"),
        ("wan", wan, "wan"),
    ):
        means = []
        for n in sizes:
            ring = Ring(n, config, seed, distances)
            ring.run(4 * config.silence_ns / NANOS_PER_SECOND)
            ring.wanted = (Confirmed,)
            deaths = _kill_apart(ring, min(n // SPACING, 400), CrashMode.POWER, spread_s=5.0)
            ring.run(4 * config.silence_max_ns / NANOS_PER_SECOND)
            beside = {uid: _beside(ring.order, uid) for uid in deaths}
            by: dict[str, dict[str, Nanos]] = {uid: {} for uid in deaths}
            for at, observer, fact in ring.facts:
                assert isinstance(fact, Confirmed)
                uid = fact.subject.uid
                if uid in deaths and observer in beside[uid]:
                    by[uid].setdefault(observer, at)
            assert all(len(times) == 2 for times in by.values()), "a death was not confirmed"
            taken = sorted(
                (max(times.values()) - deaths[uid]) / NANOS_PER_SECOND for uid, times in by.items()
            )
            means.append(statistics.mean(taken))
            what = (
                f"profile {name}, distances {distances}, n={n}: crash to confirmation by A and C,"
                f" mean {means[-1]:.2f} s, max {taken[-1]:.2f} s, {len(taken)} deaths; p99, s"
            )
            bars.check("B18", what, round(_quantile(taken, 0.99), 3), 5.0)
        for n, mean in zip(sizes[1:], means[1:], strict=True):
            what = f"profile {name}, distances {distances}: mean at n={n} off that at n={sizes[0]}"
            bars.check("B18", what, round(abs(mean / means[0] - 1), 4), 0.05)


def _kill_apart(ring: Ring, count: int, mode: CrashMode, spread_s: float) -> dict[str, Nanos]:
    """Kill brokers that are far apart at random times; return when each died."""
    rng = rng_for(ring.world.now, "deaths", len(ring.order))
    spacing = max(SPACING, len(ring.order) // count)
    victims = [ring.order[at] for at in range(0, len(ring.order) - SPACING, spacing)][:count]
    span = nanos(spread_s)
    times = sorted((ring.world.now + rng.randrange(span), uid) for uid in victims)
    for time, uid in times:
        ring.world.run(time)
        ring.crash(uid, mode)
    return {uid: time for time, uid in times}


def _beside(order: list[str], uid: str) -> tuple[str, str]:
    at = order.index(uid)
    return order[at - 1], order[(at + 1) % len(order)]


# ── B19, B21: how surely ──────────────────────────────────────────────────────────────────────


def loss(bars: Bars, seed: int, seconds: float) -> None:
    """Live brokers declared dead though a tenth of all the detector sends is lost."""
    share, misses, tries = 0.1, 3, 3
    formula = share**misses * (1 - (1 - share) ** 2) ** tries
    rates = {}
    for tested in (True, False):
        config = LAN if tested else dataclasses.replace(LAN, witnesses=0)
        ring = Ring(1000, config, seed)
        ring.run(5)
        ring.wanted = (Confirmed, Suspected)
        ring.world.loss = dict.fromkeys(DETECTION, share)
        ring.run(seconds if tested else seconds / 4)
        windows = 1000 * (seconds if tested else seconds / 4) * NANOS_PER_SECOND
        windows /= config.heartbeat_ns
        wrong = len(_condemned(ring))
        rates[tested] = wrong / windows
        bars.note(
            f"B19  {'with' if tested else 'without'} C's test: {wrong} of 1000 live brokers"
            f" declared dead, {len(ring.told(Suspected))} suspicions, {windows:.0f} windows"
        )
        if tested:
            what = f"10 % loss: false confirmations per window (95 % bound if 0: {3 / windows:.1e})"
            bars.check("B19", what, wrong / windows, 2 * formula)
    floor = 1 / (1000 * seconds * NANOS_PER_SECOND / LAN.heartbeat_ns)
    what = "10 % loss: confirmations with C's test over those without (none counts as one)"
    bars.check("B19", what, float(f"{max(rates[True], floor) / rates[False]:.2g}"), 1 / 50)
    latency = Retransmissions(DISTANCES["lan"], seed, share)
    ring = Ring(1000, LAN, seed, latency=latency)
    ring.run(5)
    ring.wanted = (Confirmed, Suspected)
    ring.run(seconds / 4)
    what = f"10 % of all segments sent again by TCP: {len(ring.told(Suspected))} suspicions, deaths"
    bars.check("B19", what, len(_condemned(ring)), 0)


def separated_pairs(bars: Bars, seed: int, rounds: int) -> None:
    """Live brokers declared dead where a share of all pairs cannot reach each other."""
    for share in (0.023, 0.05):
        affected = wrong = broken = 0
        for at in range(rounds):
            ring = Ring(1000, LAN, seed + at)
            ring.run(5)
            ring.wanted = (Confirmed, Suspected)
            ring.world.separated = share
            ring.run(30)
            cases = set()
            for _, observer, fact in ring.told(Suspected):
                assert isinstance(fact, Suspected)
                cases.add((observer, fact.subject.uid))
            affected += len(cases)
            wrong += len(_condemned(ring))
            broken += bool(ring.ledger.ring_findings())
        limit = 2 * share**2
        bound = _upper(wrong, affected)
        bars.note(f"B21  {wrong} of {affected} affected suspicions; 95 % bound {bound:.4f}")
        what = f"{share:.1%} of pairs separated: live brokers declared dead per affected suspicion"
        bars.check("B21", what, float(f"{wrong / max(1, affected):.3g}"), limit)
        what = f"{share:.1%} of pairs separated: rings of {rounds} that are not whole after 30 s"
        bars.check("B21", what, broken, 0)


def _condemned(ring: Ring) -> set[tuple[str, int]]:
    """Return the lives that were declared dead although they were not."""
    found = set()
    for _, _, fact in ring.told(Confirmed):
        assert isinstance(fact, Confirmed)
        if ring.world.hosts[fact.subject.uid].alive:
            found.add((fact.subject.uid, fact.subject.incarnation))
    return found


# ── B22: pauses ───────────────────────────────────────────────────────────────────────────────


class NaiveDetector(Detector):
    """Suspects whoever it has not heard for long enough, whatever the reason."""

    def forgive_pause(self, now: Nanos) -> None:
        pass

    def on_silent(self, uid: str) -> Member | None:
        link, watch = self._links.up.get(uid), self._watches.get(uid)
        if link is None or watch is None:
            return None
        if self._quiet_until(link.heard_at, watch) > self._core.now:
            self._rest(uid, watch)
            return None
        self._rest(uid, watch, since=self._core.now)
        return link.member


def pauses(bars: Bars, seed: int, seconds: float) -> None:
    """One broker of a hundred stands still at a time; who is accused when it wakes?"""
    counts = {}
    for naive in (False, True):
        for shortest, longest in ((5.0, 30.0), (0.2, 2.0)):
            config = dataclasses.replace(LAN, witnesses=0, monitors=4) if naive else LAN
            ring = Ring(500, config, seed)
            ring.world.clock_first = True
            if naive:
                for node in ring.nodes.values():
                    _make_naive(node._parts)
            ring.run(5)
            ring.wanted = (Confirmed, Joined)
            length = seconds if longest > 2 else seconds / 4
            woke, slept = _sleep_in_turns(ring, shortest, longest, length, seed)
            blamed = 0
            for at, observer, fact in ring.told(Confirmed):
                assert isinstance(fact, Confirmed)
                subject = fact.subject.uid
                spans = slept.get(subject, ())
                healthy = not any(start <= at <= end + nanos(5) for start, end in spans)
                spans = slept.get(observer, ())
                blamed += healthy and any(end <= at <= end + nanos(5) for _, end in spans)
            kind = "naive" if naive else "ours"
            bars.note(
                f"B22  {kind}, pauses of {shortest:g}-{longest:g} s: {blamed} healthy brokers"
                f" declared dead by {woke} that woke"
            )
            counts[naive, longest] = blamed
            if not naive and longest > 2:
                _reintegration(bars, ring, slept)
    for longest in (30.0, 2.0):
        what = f"pauses up to {longest:g} s: false deaths by paused observers, ours over naive"
        ratio = counts[False, longest] / max(1, counts[True, longest])
        bars.check("B22", what, float(f"{ratio:.3g}"), 1 / 50)


def _make_naive(parts: Parts) -> None:
    parts.detector = NaiveDetector(parts.core, parts.links, parts.hood, LocalHealth())


def _sleep_in_turns(
    ring: Ring, shortest: float, longest: float, seconds: float, seed: int
) -> tuple[int, dict[str, list[tuple[Nanos, Nanos]]]]:
    rng = rng_for(seed, "pauses", longest)
    end = ring.world.now + nanos(seconds)
    slept: dict[str, list[tuple[Nanos, Nanos]]] = {}
    asleep: list[tuple[Nanos, str]] = []
    free: dict[str, Nanos] = dict.fromkeys(ring.order, 0)
    woke = 0
    while ring.world.now < end or asleep:
        while len(asleep) < len(ring.order) // 100 and ring.world.now < end:
            uid = rng.choice(ring.order)
            if free[uid] <= ring.world.now:
                until = ring.world.now + nanos(rng.uniform(shortest, longest))
                ring.world.pause(uid)
                asleep.append((until, uid))
                slept.setdefault(uid, []).append((ring.world.now, until))
                free[uid] = until + nanos(20)
        asleep.sort()
        until, uid = asleep.pop(0)
        ring.world.run(until)
        ring.world.resume(uid)
        woke += 1
    ring.run(20)
    return woke, slept


def _reintegration(bars: Bars, ring: Ring, slept: dict[str, list[tuple[Nanos, Nanos]]]) -> None:
    """How long after it woke a broker that was declared dead is a member again."""
    joined: dict[str, list[Nanos]] = {}
    for at, uid, _ in ring.told(Joined):
        joined.setdefault(uid, []).append(at)
    taken = []
    for uid, spans in slept.items():
        for _, end in spans:
            after = [at - end for at in joined.get(uid, ()) if at >= end]
            if after:
                taken.append(min(after) / ring.config.heartbeat_ns)
    what = f"{len(taken)} woke to find themselves declared dead: longest until a member again, T"
    bars.check("B22", what, round(max(taken, default=0.0), 2), 10.0)
    places = Counter(node.member.ring_id for node in ring.nodes.values() if node.member is not None)
    twice = sum(1 for count in places.values() if count > 1)
    lost = sum(1 for node in ring.nodes.values() if node.member is None)
    bars.check("B22", "ids owned by two, or brokers without a place, at the end", twice + lost, 0)
    bars.check(
        "B22", "findings against one ideal ring at the end", len(ring.ledger.ring_findings()), 0
    )


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def _upper(events: int, trials: int) -> float:
    """Return Wilson's upper 95 % bound of a proportion; 3 / trials where nothing happened."""
    if trials == 0:
        return 1.0
    if events == 0:
        return 3 / trials
    z, p = 1.96, events / trials
    middle = p + z * z / (2 * trials)
    spread = z * math.sqrt(p * (1 - p) / trials + z * z / (4 * trials * trials))
    return (middle + spread) / (1 + z * z / trials)


if __name__ == "__main__":
    main()
