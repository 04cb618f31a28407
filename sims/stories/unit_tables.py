"""Stories of units that form, are split, folded and put together: at rest all is in order.

What "in order" is says :mod:`sims.verdicts.units`: each broker has an address of its own, all hold
the same tables, and no unit is above its limit.
"""

from __future__ import annotations

import random
from collections import Counter

from ges.units.planner import UnitsConfig
from ges.units.unit_names import parse_unit, written
from overlay.ids import nanos, short
from overlay.rng import rng_for
from sims.experiments.service import UNITS_PAUSE_NS, Service
from sims.world.cuts import Cut
from sims.world.world import CrashMode

AGREED_S = 90.0  #: until all is in order: slots of the dead rest for 60 s
MOVED_S = 60.0  #: until all stand where they wish
HALF = 8  #: the smallest limit with which a cluster is split at its median
SPLIT_S = 30.0
EMPTY_S = 20.0  #: a unit in whose arc nobody stands is folded after 10 s
HANDED_S = 0.9  #: a steward that is displaced hands its table over before its heir's patience ends
NAMES = ("eu/fra/a", "eu/fra/b", "eu/ber", "us")


def unit_growth(seed: int) -> list[str]:
    """Brokers come, leave and die, a whole cluster at once too: then all is in order again."""
    rng = rng_for(seed, "stories", "unit-growth")
    limit = rng.choice((3, 4))
    service = Service.of_clusters(rng.randint(5, 7), limit, seed)
    for _ in range(rng.randint(3, 5)):
        service.start(rng.sample(service.alive, 2))
        service.run(rng.choice((0.05, 0.5, 3)))
        if found := _above(service, limit):
            return found
    if found := _agree(service, AGREED_S):
        return found
    clusters: dict[object, list[str]] = {}
    for uid in service.alive:
        clusters.setdefault(service.brokers[uid].node.units.cluster, []).append(uid)
    for uid in rng.choice([*clusters.values()]):
        service.crash(uid, CrashMode.KILL)
    service.leave(rng.choice(service.alive))
    service.run(EMPTY_S)
    return _agree(service, AGREED_S) or _empty(service)


def unit_medians(seed: int) -> list[str]:
    """A cluster is split at its median and folded again: who has a slot keeps it, if it is free."""
    rng = rng_for(seed, "stories", "unit-medians")
    service = Service.of_clusters(HALF * 7 // 8 - 1, HALF, seed)
    before = _slots(service)
    service.start(rng.sample(service.alive, 2))
    end = service.timeline.now + nanos(SPLIT_S)
    while len(_clusters(service)) < 2:
        if service.timeline.now > end:
            return ["a cluster with 7/8 of its members is not split"]
        service.run(0.2)
    service.run(2)
    after = _slots(service)
    findings = [
        f"{short(u)} has another slot since the split" for u in before if after[u] != before[u]
    ]
    if sorted(_clusters(service).values()) != [3, 4]:
        findings.append(f"7 brokers were split into {sorted(_clusters(service).values())}")
    findings += _agree(service, SPLIT_S)
    if findings:
        return findings
    while len(service.alive) > HALF * 5 // 8 + 1:
        service.leave(_of_the_largest(service, rng))
        service.run(3)
    service.leave(_of_the_largest(service, rng))
    slots = _slots(service)
    if not _folded(service, SPLIT_S):
        return ["two clusters with 5/8 of the members of one are not folded"]
    service.run(HANDED_S)
    if found := service.unit_findings():
        return [f"after the fold: {each}" for each in found]
    kept = Counter(slots[uid] for uid in service.alive)
    after = _slots(service)
    return [
        f"{short(uid)} has another slot since the fold"
        for uid, slot in slots.items()
        if kept[slot] == 1 and uid in after and after[uid] != slot
    ]


def unit_merges(seed: int) -> list[str]:
    """An overlay is cut in two for so long that both have tables of their own; then it is one."""
    rng = rng_for(seed, "stories", "unit-merges")
    limit = rng.choice((3, 4))
    service = Service.of_clusters(rng.randint(6, 9), limit, seed)
    order = rng.sample(service.alive, len(service.alive))
    at = rng.randint(1, len(order) - 1)
    here, there = order[:at], order[at:]
    service.part([here, there], rng.choice((Cut.SILENT, Cut.BROKEN)))
    service.run(rng.uniform(3, 20))
    service.heal()
    service.rest()
    return _agree(service, AGREED_S)


def unit_places(seed: int) -> list[str]:
    """Brokers that were given names of units come in any order: each stands in its unit."""
    rng = rng_for(seed, "stories", "unit-places")
    service = Service(seed, units=UnitsConfig(4, UNITS_PAUSE_NS))
    wishes = [*NAMES, *rng.choices((*NAMES, ""), k=4)]
    rng.shuffle(wishes)
    given = {service.start((), unit=parse_unit(wishes[0])): wishes[0]}
    for wish in wishes[1:]:
        service.run(rng.choice((0.0, 0.5, 3)))
        given[service.start(rng.sample(service.alive, 1), unit=parse_unit(wish))] = wish
    service.run(5)
    service.rest()
    end = service.timeline.now + nanos(MOVED_S)
    while found := _misplaced(service, given):
        if service.timeline.now > end:
            return found
        service.run(1)
    return _agree(service, AGREED_S)


def _agree(service: Service, limit_s: float) -> list[str]:
    """Go on until all is in order; return what is not after so long."""
    end = service.timeline.now + nanos(limit_s)
    while found := service.unit_findings():
        if service.timeline.now > end:
            return found
        service.run(1)
    return []


def _clusters(service: Service) -> Counter[object]:
    return Counter(service.brokers[uid].node.units.cluster for uid in service.alive)


def _of_the_largest(service: Service, rng: random.Random) -> str:
    """Return a broker of a cluster with more than two."""
    sizes = _clusters(service)
    large = [u for u in service.alive if sizes[service.brokers[u].node.units.cluster] > 2]
    return rng.choice(large)


def _slots(service: Service) -> dict[str, int | None]:
    return {uid: service.brokers[uid].node.units.slot for uid in service.alive}


def _folded(service: Service, limit_s: float) -> bool:
    end = service.timeline.now + nanos(limit_s)
    while len(_clusters(service)) > 1:
        if service.timeline.now > end:
            return False
        service.run(0.1)
    return True


def _above(service: Service, limit: int) -> list[str]:
    """Return which tables have more members than there may be."""
    members = {uid: service.brokers[uid].node.units.members for uid in service.alive}
    return [f"{short(u)} knows {len(m)} members" for u, m in members.items() if len(m) > limit]


def _empty(service: Service) -> list[str]:
    """Return which units are named though nobody stands in them."""
    places = {uid: service.brokers[uid].node.ring.member for uid in service.alive}
    nodes = service.brokers[service.alive[0]].node.units.nodes
    return [
        f"unit {node} has no brokers"
        for node, arc in nodes.arcs.items()
        if not any(each is not None and arc.holds(each.ring_id) for each in places.values())
    ]


def _misplaced(service: Service, given: dict[str, str]) -> list[str]:
    """Return who stands in other units than it was given, and names that two units have."""
    found = []
    for uid in service.alive:
        units = service.brokers[uid].node.units
        if (stands := written(units.names)) != given[uid]:
            found.append(f"{short(uid)} stands in {stands!r}, not in {given[uid]!r}")
        for table in units.tables.values():
            names = Counter(row.name for row in table.rows if row.name)
            found += [
                f"{count} units are called {name}" for name, count in names.items() if count > 1
            ]
    return found
