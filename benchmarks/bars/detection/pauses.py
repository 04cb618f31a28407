"""B22: who is accused by a broker that stood still, and how soon it is a member again."""

from __future__ import annotations

import dataclasses
from collections import Counter

from benchmarks.bars.rings import Ring
from benchmarks.report import Bars
from overlay.ids import Nanos, nanos
from overlay.rng import rng_for
from ring.config import LAN
from ring.coordination.parts import Parts
from ring.detection.detector import Detector
from ring.detection.local_health import LocalHealth
from ring.facts import Confirmed, Joined
from ring.wire.messages import Member


class NaiveDetector(Detector):
    """Suspects a broker that it has not heard for long enough, whatever the reason."""

    def forgive_pause(self, now: Nanos) -> None:
        """Forgive nothing: deadlines stay where they are, however long this process stood still."""

    def on_silent(self, uid: str) -> Member | None:
        """Return a neighbour that is overdue, without a ping; None if it was heard, or is gone."""
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
                    _make_naive(node.parts)
            ring.run(5)
            ring.wanted = (Confirmed, Joined)
            length = seconds if longest > 2 else seconds / 4
            woke, slept = _sleep_in_turns(ring, shortest, longest, length, seed)
            blamed = 0
            for at, observer, fact in ring.kept_of(Confirmed):
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
        bars.rate("B22", what, counts[False, longest], max(1, counts[True, longest]), 1 / 50)


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
    for at, uid, _ in ring.kept_of(Joined):
        joined.setdefault(uid, []).append(at)
    taken = []
    for uid, spans in slept.items():
        for _, end in spans:
            after = [at - end for at in joined.get(uid, ()) if at >= end]
            if after:
                taken.append(min(after) / ring.config.heartbeat_ns)
    what = f"{len(taken)} woke to find themselves declared dead: longest until a member again, T"
    if taken:
        bars.check("B22", what, round(max(taken), 2), 10.0)
    else:
        bars.not_judged("B22", what)
    places = Counter(node.member.ring_id for node in ring.nodes.values() if node.member is not None)
    twice = sum(1 for count in places.values() if count > 1)
    lost = sum(1 for node in ring.nodes.values() if node.member is None)
    bars.check("B22", "ids owned by two, or brokers without a place, at the end", twice + lost, 0)
    bars.check(
        "B22", "findings against one ideal ring at the end", len(ring.ledger.ring_findings()), 0
    )
