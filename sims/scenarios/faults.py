"""What breaks: each kind of fault of a scenario file, put on a stage's schedule."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from sims.scenarios.adversary import lie_in_wait
from sims.scenarios.deeds import Deed, Deeds, how_many, spread_out
from sims.scenarios.schema import (
    Adversary,
    Arc,
    Clocks,
    Crash,
    CutLinks,
    Fault,
    Leave,
    Partition,
    Pause,
    Region,
    RollingRestart,
    Scenario,
)
from sims.world.conditions import Conditions
from sims.world.cuts import Cut
from sims.world.world import CrashMode

_KILL = CrashMode.KILL
LEAVING_S = 0.5  #: between two looks whether a broker that leaves is gone
LEAVES_AT_MOST_S = 60.0


def schedule(fault: Fault, number: int, deeds: Deeds, latency: Conditions) -> None:
    """Put a fault on the schedule; ``number`` is its place in the file."""
    rng = deeds.rng("fault", number)
    match fault:
        case Crash():
            _many(deeds, rng, fault, lambda uid: _crash(deeds, rng, fault, uid))
        case Leave():
            _many(deeds, rng, fault, lambda uid: _leave(deeds, uid))
        case Pause():
            _many(deeds, rng, fault, lambda uid: _pause(deeds, fault, uid))
        case Arc():
            deeds.at(fault.at_s, _arc, deeds, rng, fault)
        case Region():
            deeds.at(fault.at_s, _region, deeds, rng, fault, latency)
        case RollingRestart():
            deeds.at(fault.at_s, _roll, deeds, rng, fault, None)
        case CutLinks():
            deeds.at(fault.at_s, _cut_links, deeds, rng, fault)
        case Partition():
            deeds.at(fault.at_s, _part, deeds, rng, fault)
        case Clocks():
            deeds.at(fault.at_s, _skew, deeds, rng, fault)
        case Adversary():
            deeds.at(fault.at_s, lie_in_wait, deeds, rng, fault)


def late(scenario: Scenario) -> list[str]:
    """Name what is planned for a time when the run is over."""
    seconds, found = scenario.seconds, []
    for key, parts in (("churn", scenario.churn), ("faults", scenario.faults)):
        for number, part in enumerate(parts):
            begins = getattr(part, "at_s", 0.0)
            ends = begins + getattr(part, "over_s", 0.0)
            if not seconds or ends <= seconds:
                continue
            named = f"{key}[{number}] ({part.__struct_config__.tag})"
            when = (
                f"does not happen: it is planned at {begins:g} s"
                if begins > seconds
                else f"may not happen in full: it is spread up to {ends:g} s"
            )
            found.append(f"{named} {when}, and the run ends at {seconds:g} s")
    return found


# ── brokers, drawn at random ──────────────────────────────────────────────────────────────────


def _many(
    deeds: Deeds, rng: random.Random, fault: Crash | Leave | Pause, strike: Callable[[str], None]
) -> None:
    """Strike brokers that are drawn when the first is struck."""

    def begin() -> None:
        alive = sorted(deeds.stage.alive)
        # Of leaves there is a share only.
        count = fault.count if not isinstance(fault, Leave) else 0
        victims = rng.sample(alive, how_many(fault.share, count, len(alive)))
        over_s = fault.over_s
        if isinstance(fault, Crash):
            over_s = max(over_s, fault.each_s * len(victims))
        times = spread_out(rng, len(victims), fault.at_s, over_s)
        for time, uid in zip(times, victims, strict=True):
            deeds.at(time, strike, uid)

    deeds.at(fault.at_s, begin)


def _crash(deeds: Deeds, rng: random.Random, fault: Crash, uid: str) -> None:
    if deeds.crash(uid, fault.mode) and fault.back_after_s is not None:
        deeds.mend(fault.back_after_s, deeds.back, uid, rng)


def _leave(deeds: Deeds, uid: str) -> None:
    deeds.leave(uid)


def _pause(deeds: Deeds, fault: Pause, uid: str) -> None:
    if deeds.is_alive(uid) and not deeds.is_over:
        deeds.note(Deed.PAUSE, uid)
        deeds.stage.pause(uid, fault.for_s)
        deeds.mend(fault.for_s, deeds.note, Deed.PAUSE_ENDED, uid)


def _skew(deeds: Deeds, rng: random.Random, fault: Clocks) -> None:
    alive = sorted(deeds.stage.alive)
    # A clock does not take a broker away: all may be struck.
    for uid in rng.sample(alive, min(fault.count or round(fault.share * len(alive)), len(alive))):
        deeds.note(Deed.SKEW, uid)
        deeds.stage.skew(uid, rng.choice(fault.rates))
        if fault.for_s is not None:
            deeds.after(fault.for_s, _unskew, deeds, uid)


def _unskew(deeds: Deeds, uid: str) -> None:
    if deeds.is_alive(uid):
        deeds.stage.skew(uid, 1.0)
        deeds.note(Deed.UNSKEW, uid)


# ── brokers that have something in common ─────────────────────────────────────────────────────


def _arc(deeds: Deeds, rng: random.Random, fault: Arc) -> None:
    ring = deeds.stage.in_order
    first = rng.randrange(len(ring)) if ring else 0
    for step in range(how_many(fault.share, fault.count, len(ring))):
        deeds.crash(ring[(first + step) % len(ring)], fault.mode)


def _region(deeds: Deeds, rng: random.Random, fault: Region, latency: Conditions) -> None:
    x, y = rng.random(), rng.random()

    def distance(uid: str) -> tuple[float, str]:
        place = latency.place(uid)
        return math.hypot(place[0] - x, place[1] - y), uid

    near = sorted(deeds.stage.alive, key=distance)
    for uid in near[: how_many(fault.share, 0, len(near))]:
        deeds.crash(uid, fault.mode)


def _roll(
    deeds: Deeds, rng: random.Random, fault: RollingRestart, waiting: list[str] | None
) -> None:
    if waiting is None:  # in ring order: neighbours go one after the other, which is the worst
        ring = deeds.stage.in_order
        waiting = ring[: round(fault.share * len(ring))]
        waiting.reverse()
    if not waiting or deeds.is_over:
        return
    uid = waiting.pop()
    if fault.drain:
        if deeds.leave(uid):
            _back_when_gone(deeds, rng, fault, uid, deeds.seconds + LEAVES_AT_MOST_S)
    elif deeds.crash(uid, _KILL):
        deeds.mend(fault.down_s, deeds.back, uid, rng)
    deeds.after(fault.every_s, _roll, deeds, rng, fault, waiting)


def _back_when_gone(
    deeds: Deeds, rng: random.Random, fault: RollingRestart, uid: str, until_s: float
) -> None:
    if not deeds.is_alive(uid):
        deeds.mend(fault.down_s, deeds.back, uid, rng)
    elif deeds.seconds < until_s:
        deeds.mend(LEAVING_S, _back_when_gone, deeds, rng, fault, uid, until_s)


# ── the network ───────────────────────────────────────────────────────────────────────────────


def _cut_links(deeds: Deeds, rng: random.Random, fault: CutLinks) -> None:
    links = deeds.stage.links()
    count = min(fault.count or round(fault.share * len(links)), len(links))
    drawn = rng.sample(links, count)
    times = spread_out(rng, count, fault.at_s, fault.over_s)
    for time, (uid, other) in zip(times, drawn, strict=True):
        here, there = (uid, other) if rng.random() < 0.5 else (other, uid)
        deeds.at(time, _cut, deeds, fault, here, there)


def _cut(deeds: Deeds, fault: CutLinks, uid: str, other: str) -> None:
    if deeds.is_over or not (deeds.is_alive(uid) and deeds.is_alive(other)):
        return
    deeds.note(Deed.CUT, uid, other)
    deeds.stage.cut(uid, other, Cut(fault.mode), one_way=fault.one_way)
    deeds.mend(fault.for_s, _mend, deeds, fault, uid, other)


def _mend(deeds: Deeds, fault: CutLinks, uid: str, other: str) -> None:
    deeds.stage.mend(uid, other)
    deeds.note(Deed.MENDED, uid, other)
    if fault.again_s is not None and not deeds.is_over:
        deeds.after(fault.again_s, _cut, deeds, fault, uid, other)


def _part(deeds: Deeds, rng: random.Random, fault: Partition) -> None:
    if deeds.is_over:
        return
    alive = sorted(deeds.stage.alive)
    rng.shuffle(alive)
    whole = sum(fault.groups) or 1.0
    groups: list[list[str]] = []
    first, share = 0, 0.0
    for part in fault.groups:
        share += part / whole
        end = round(share * len(alive))
        groups.append(alive[first:end])
        first = end
    deeds.note(Deed.PARTITION)
    deeds.stage.part([group for group in groups if group])
    deeds.mend(fault.for_s, _heal, deeds)


def _heal(deeds: Deeds) -> None:
    deeds.stage.heal()
    deeds.note(Deed.HEALED)
