"""B19 and B21: who is declared dead though it lives, where messages or whole links are lost."""

from __future__ import annotations

import dataclasses
import math

from benchmarks.bars.rings import Ring
from benchmarks.report import Bars
from overlay.ids import NANOS_PER_SECOND
from ring.config import LAN
from ring.facts import Confirmed, Suspected
from sims.world.faults import DETECTION, Retransmissions
from sims.world.network import DISTANCES


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
            f" declared dead, {len(ring.kept_of(Suspected))} suspicions, {windows:.0f} windows"
        )
        if tested:
            what = f"10 % loss: false confirmations per window (95 % bound if 0: {3 / windows:.1e})"
            bars.rate("B19", what, wrong, windows, 2 * formula)
    floor = 1 / (1000 * seconds * NANOS_PER_SECOND / LAN.heartbeat_ns)
    what = "10 % loss: confirmations with C's test over those without (none counts as one)"
    ratio = max(rates[True], floor) / rates[False] if rates[False] else math.inf
    if ratio <= 1 / 50 or rates[True]:
        bars.check("B19", what, float(f"{ratio:.2g}"), 1 / 50)
    else:
        bars.not_judged("B19", f"{what}  measured {ratio:.2g}  threshold {1 / 50:g}")
    latency = Retransmissions(DISTANCES["lan"], seed, share)
    ring = Ring(1000, LAN, seed, latency=latency)
    ring.run(5)
    ring.wanted = (Confirmed, Suspected)
    ring.run(seconds / 4)
    what = (
        f"10 % of all segments sent again by TCP: {len(ring.kept_of(Suspected))} suspicions, deaths"
    )
    if seconds / 4 > LAN.silence_ns / NANOS_PER_SECOND:
        bars.check("B19", what, len(_condemned(ring)), 0)
    else:  # before that nobody can be suspected
        bars.not_judged("B19", what)


def separated_pairs(bars: Bars, seed: int, scale: float) -> None:
    """Live brokers declared dead where a share of all pairs cannot reach each other.

    With ``scale`` 1 as many rings are run as it takes to show the bar: if none of 3 / p suspicions
    is wrong, the share of wrong ones is below p at 95 %.
    """
    for share in (0.05, 0.023):  # the shorter first
        limit = 2 * share**2
        affected = wrong = broken = rounds = 0
        while affected < scale * 3 / limit:
            ring = Ring(1000, LAN, seed + rounds)
            rounds += 1
            ring.run(5)
            ring.wanted = (Confirmed, Suspected)
            ring.world.separated = share
            ring.run(30)
            cases = set()
            for _, observer, fact in ring.kept_of(Suspected):
                assert isinstance(fact, Suspected)
                cases.add((observer, fact.subject.uid))
            affected += len(cases)
            wrong += len(_condemned(ring))
            broken += bool(ring.ledger.ring_findings())
            bars.note(
                f"B21  {share:.1%} of pairs, ring {rounds}: {affected} affected suspicions so far"
            )
        bound = _upper(wrong, affected)
        bars.note(f"B21  {wrong} of {affected} affected suspicions; 95 % bound {bound:.4f}")
        what = f"{share:.1%} of pairs separated: live brokers declared dead per affected suspicion"
        bars.rate("B21", what, wrong, affected, limit)
        what = f"{share:.1%} of pairs separated: rings of {rounds} that are not whole after 30 s"
        bars.check("B21", what, broken, 0)


def _condemned(ring: Ring) -> set[tuple[str, int]]:
    """Return the lives that were declared dead although they were not."""
    found = set()
    for _, _, fact in ring.kept_of(Confirmed):
        assert isinstance(fact, Confirmed)
        if ring.world.hosts[fact.subject.uid].alive:
            found.add((fact.subject.uid, fact.subject.incarnation))
    return found


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
