"""Rings as tables of ids and links, and greedy walks over them; warm rings to take them from."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, log2

from benchmarks.bars.joins import grow
from benchmarks.bars.rings import OneStream
from overlay.ids import nanos
from overlay.quantiles import quantile
from ring.circle.greedy import distance, nearest
from ring.config import LAN, ChordStrategy
from ring.wire.messages import MAX_ROUTE_HOPS, Towards
from sims.world.warm import start_warm

Link = tuple[str, int]  #: (uid, ring id)
FORMING_S = 120.0  #: virtual time a warm ring may take


@dataclass(frozen=True, slots=True)
class Tables:
    """Who is where and linked to whom."""

    places: dict[str, int]
    links: dict[str, list[Link]]

    def without(self, dead: frozenset[str]) -> Tables:
        """Return what is left, with nothing repaired."""
        return Tables(
            {uid: at for uid, at in self.places.items() if uid not in dead},
            {
                uid: [link for link in links if link[0] not in dead]
                for uid, links in self.links.items()
                if uid not in dead
            },
        )

    @property
    def degree(self) -> float:
        """Links of a broker, in the mean."""
        return sum(map(len, self.links.values())) / len(self.links)


def ideal(ids: Sequence[int], *, two_way: bool = True, ring: bool = True) -> Tables:
    """Return exact tables by rank: 1, 2, 4, ... brokers to the right, and back if ``two_way``.

    With ``ring`` the first two of these lead back in any case.
    """
    n = len(ids)
    row = [(f"{at:08x}", ring_id) for at, ring_id in enumerate(sorted(ids))]
    links: dict[str, dict[str, int]] = {uid: {} for uid, _ in row}
    steps = [1 << level for level in range(max(1, ceil(log2(n))))]
    for at, (uid, ring_id) in enumerate(row):
        for step in steps:
            other, other_id = row[(at + step) % n]
            if other != uid:
                links[uid][other] = other_id
                if two_way or (ring and step <= 2):
                    links[other][uid] = ring_id
    return Tables(dict(row), {uid: list(found.items()) for uid, found in links.items()})


def walk(tables: Tables, start: str, goal: str, towards: Towards = Towards.NEAREST) -> int | None:
    """Return the hops of the greedy route, or None where it gets stuck before the goal."""
    target = tables.places[goal]
    here, left, hops = start, distance(towards, target, tables.places[start]), 0
    while here != goal:
        ahead = nearest(towards, target, tables.links[here])
        if ahead is None or ahead[0] >= left:
            return None
        left, here = ahead
        hops += 1
    return hops


def search(tables: Tables, start: str, goal: str) -> int | None:
    """Return the moves of a route with backtracking, by the rules of ``ring.circle.searches``."""
    target, trail, seen = tables.places[goal], [start], {start}
    for hops in range(MAX_ROUTE_HOPS + 1):
        here = trail[-1]
        if here == goal:
            return hops
        ahead = nearest(Towards.NEAREST, target, tables.links[here], seen)
        if ahead is not None:
            trail.append(ahead[1])
            seen.add(ahead[1])
        elif len(trail) > 1:
            trail.pop()
        else:
            return None
    return None


@dataclass(frozen=True, slots=True)
class Hops:
    """What many routes took."""

    failed: float  #: share of pairs without a route
    mean: float
    p99: float
    longest: int


def measure(
    tables: Tables,
    pairs: int,
    rng: random.Random,
    route: Callable[[Tables, str, str], int | None] = walk,
) -> Hops:
    """Route between ``pairs`` random pairs."""
    uids = sorted(tables.places)
    found = []
    for _ in range(pairs):
        start, goal = rng.sample(uids, 2)
        hops = route(tables, start, goal)
        if hops is not None:
            found.append(hops)
    if not found:
        return Hops(1.0, 0.0, 0, 0)
    p99 = quantile(found, 0.99)
    return Hops(1 - len(found) / pairs, sum(found) / len(found), p99, max(found))


class WarmRing(OneStream):
    """A simulated ring at rest, at ids as joins give them."""

    def __init__(self, n: int, seed: int, chords: ChordStrategy = ChordStrategy.RANK) -> None:
        super().__init__(n, replace(LAN, chords=chords), seed)
        ids = list(grow(n, one_contact=False, seed=seed).ids)
        self.draws.shuffle(ids)
        self.places = dict(zip(self.nodes, ids, strict=True))
        start_warm(self.world, self.places)
        self.run(2.0)
        self.heal_within(FORMING_S)
        self.run(10.0)

    def heal_within(self, limit_s: float, step_s: float = 0.25) -> float | None:
        """Run until the ring of the living is ideal; return seconds, or None if it never is."""
        start = self.world.now
        while self.ledger.members != len(self.world.alive) or self.ledger.ring_findings():
            if self.world.now - start > nanos(limit_s):
                return None
            self.run(step_s)
        return (self.world.now - start) / 1e9

    @property
    def tables(self) -> Tables:
        """Links that living brokers have to living ones, as they are now."""
        alive = frozenset(self.world.alive)
        links = {
            uid: [
                (other, member.ring_id)
                for other, member in self.nodes[uid].linked.items()
                if other in alive
            ]
            for uid in self.world.alive
        }
        return Tables({uid: self.places[uid] for uid in links}, links)
