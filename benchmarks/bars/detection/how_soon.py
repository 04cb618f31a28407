"""B17 and B18: how long after its death a broker is suspected, and confirmed to be dead."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Container

from benchmarks.bars.rings import Ring
from benchmarks.report import Bars
from overlay.ids import NANOS_PER_SECOND, Nanos, nanos
from overlay.quantiles import quantile
from overlay.rng import rng_for
from ring.config import LAN, WAN, RingConfig
from ring.facts import Confirmed, Suspected
from ring.wire.messages import TestNeighbour
from sims.world.world import CrashMode

#: T = 1 s, k = 3: a broker is suspected when nothing was heard of it for three whole periods.
CLASSIC = RingConfig(
    heartbeat_ns=nanos(1.0),
    lateness_ns=nanos(1.0),
    lateness_max_ns=nanos(1.0),
    answer_ns=nanos(0.5),
    answer_max_ns=nanos(0.5),
)
PROFILES = ("classic", "lan", "wan")  #: in B18 "wan" is over short and over wide distances
SPACING = 10  #: brokers between any two that die, so that each death is a case of its own
SPREAD_S = 5.0  #: over which those of one ring die, in whole periods


def law_of_silence(bars: Bars, seed: int, rounds: int, profiles: Container[str]) -> None:
    """First suspicion after T (k - M / (M + 1)) in the mean, each monitor's after T (k - 1/2).

    k is the silence that makes a suspicion, in periods. Questions to witnesses are lost here, so
    that nobody is told before it suspects by itself. ``profiles`` of :data:`PROFILES` are measured,
    each in ``rounds`` rings, wan in four times as many: most of its silence is one whole period.
    wan is measured as it is, with the monitors that it has.
    """
    lan, wan = (dataclasses.replace(c, lateness_max_ns=c.lateness_ns) for c in (LAN, WAN))
    for key, name, base, rings, choices in (
        ("classic", "T=1 s, k=3", CLASSIC, rounds, (1, 2, 4)),
        ("lan", "lan", lan, rounds, (1, 2, 4)),
        ("wan", "wan", wan, 4 * rounds, (wan.monitors,)),
    ):
        for monitors in choices if key in profiles else ():
            config = dataclasses.replace(base, monitors=monitors)
            first, each = [], []
            for at in range(rings):
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
                f" {law:.3f} s, {len(first)} deaths (standard error {_error(first) / law:.4f}):"
                " relative deviation"
            )
            bars.check("B17", what, round(off, 4), 0.03)
            off = abs(statistics.mean(each) / law_each - 1)
            what = (
                f"{name}, M={monitors}: each monitor mean {statistics.mean(each):.3f} s, law"
                f" {law_each:.3f} s (standard error {_error(each) / law_each:.4f}):"
                " relative deviation"
            )
            bars.check("B17", what, round(off, 4), 0.03)
            what = f"{name}, M={monitors}: latest suspicion, s (k T and the longest delay)"
            bars.check("B17", what, round(max(each), 4), misses * period + 0.01)


def _suspicions(config: RingConfig, seed: int) -> list[list[float]]:
    """Return, for each death, after how many seconds each of its monitors suspected it."""
    ring = Ring(1000, config, seed)
    ring.world.loss = {TestNeighbour: 1.0}
    ring.run(max(4, 2 * config.heartbeat_ns / NANOS_PER_SECOND))
    ring.wanted = (Suspected,)
    deaths = _kill_apart(ring, 90, CrashMode.POWER, _whole_periods(2.0, config))
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


def crash_to_confirmation(
    bars: Bars, seed: int, seeds: int, sizes: list[int], profiles: Container[str]
) -> None:
    """From the silent death of a broker until both its neighbours hold it for dead.

    The deaths in ``seeds`` rings of one size are taken together: a ring of 1000 has 99, whose 99th
    percentile would be the longest. ``profiles`` of :data:`PROFILES` are measured.
    """
    for key, name, config, distances in (
        ("classic", "T=1 s, k=3", CLASSIC, "lan"),
        ("lan", "lan", LAN, "lan"),
        ("wan", "wan", WAN, "lan"),
        ("wan", "wan", WAN, "wan"),
    ):
        if key not in profiles:
            continue
        means: list[tuple[float, float]] = []  #: and the standard error of each
        for n in sizes:
            taken: list[float] = []
            for at in range(seeds):
                taken += _confirmations(Ring(n, config, seed + at, distances))
            taken.sort()
            mean = statistics.mean(taken)
            means.append((mean, _error(taken)))
            what = (
                f"profile {name}, distances {distances}, n={n}: crash to confirmation by A and C,"
                f" mean {mean:.2f} s, max {taken[-1]:.2f} s, {len(taken)} deaths; p99, s"
            )
            bars.check("B18", what, round(quantile(taken, 0.99), 3), 5.0)
        for n, (mean, error) in zip(sizes[1:], means[1:], strict=True):
            smallest, its_error = means[0]
            off, error = mean / smallest - 1, math.hypot(error, its_error) / smallest
            what = (
                f"profile {name}, distances {distances}: mean at n={n} off that at n={sizes[0]}"
                f" ({off:+.4f}, standard error {error:.4f})"
            )
            bars.check("B18", what, round(abs(off), 4), 0.05)


def _confirmations(ring: Ring) -> list[float]:
    """Kill brokers of one ring; return after how many seconds A and C both held each for dead."""
    config, n = ring.config, len(ring.order)
    ring.run(4 * config.silence_ns / NANOS_PER_SECOND)
    ring.wanted = (Confirmed,)
    spread = _whole_periods(SPREAD_S, config)
    deaths = _kill_apart(ring, min(n // SPACING, 400), CrashMode.POWER, spread)
    ring.run(4 * config.silence_max_ns / NANOS_PER_SECOND)
    beside = {uid: _beside(ring.order, uid) for uid in deaths}
    by: dict[str, dict[str, Nanos]] = {uid: {} for uid in deaths}
    for at, observer, fact in ring.facts:
        assert isinstance(fact, Confirmed)
        uid = fact.subject.uid
        if uid in deaths and observer in beside[uid]:
            by[uid].setdefault(observer, at)
    assert all(len(times) == 2 for times in by.values()), "a death was not confirmed"
    return [(max(times.values()) - deaths[uid]) / NANOS_PER_SECOND for uid, times in by.items()]


def _kill_apart(ring: Ring, count: int, mode: CrashMode, span: Nanos) -> dict[str, Nanos]:
    """Kill brokers that are far apart at random times; return when each died."""
    rng = rng_for(ring.seed, "deaths", ring.world.now, len(ring.order))
    spacing = max(SPACING, len(ring.order) // count)
    victims = [ring.order[at] for at in range(0, len(ring.order) - SPACING, spacing)][:count]
    times = sorted((ring.world.now + rng.randrange(span), uid) for uid in victims)
    for time, uid in times:
        ring.world.run(time)
        ring.crash(uid, mode)
    return {uid: time for time, uid in times}


def _whole_periods(seconds: float, config: RingConfig) -> Nanos:
    """Return ``seconds`` or a little more: in whole periods, as only so any phase is as likely.

    Brokers that start at one moment also beat at one.
    """
    return math.ceil(seconds * NANOS_PER_SECOND / config.heartbeat_ns) * config.heartbeat_ns


def _beside(order: list[str], uid: str) -> tuple[str, str]:
    at = order.index(uid)
    return order[at - 1], order[(at + 1) % len(order)]


def _error(taken: list[float]) -> float:
    """Return the standard error of the mean."""
    return statistics.stdev(taken) / math.sqrt(len(taken))
