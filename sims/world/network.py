"""How long messages take in the simulated world."""

from __future__ import annotations

import math
from dataclasses import dataclass

from overlay.ids import Nanos, nanos
from overlay.rng import rng_for


@dataclass(frozen=True, slots=True, kw_only=True)
class Distances:
    """Size of the world: one-way latencies are ``base`` plus the way plus jitter, in ns.

    Hosts lie at random on a square whose side takes ``side_ns`` to cross.
    """

    base_ns: Nanos
    side_ns: Nanos
    jitter_ns: Nanos


#: By timing profile: one machine, one building, one planet.
DISTANCES = {
    "local": Distances(base_ns=nanos(30e-6), side_ns=0, jitter_ns=nanos(20e-6)),
    "lan": Distances(base_ns=nanos(150e-6), side_ns=nanos(500e-6), jitter_ns=nanos(100e-6)),
    "wan": Distances(base_ns=nanos(5e-3), side_ns=nanos(100e-3), jitter_ns=nanos(5e-3)),
}


class Latency:
    """One-way latency between any two hosts, reproducible from the seed."""

    def __init__(self, distances: Distances, seed: int) -> None:
        self._distances = distances
        self._seed = seed
        self._jitter = rng_for(seed, "latency")
        self._places: dict[str, tuple[float, float]] = {}
        self._ways: dict[tuple[str, str], float] = {}

    def one_way_ns(self, a: str, b: str) -> Nanos:
        """Draw the time a message from ``a`` needs to ``b``."""
        distances = self._distances
        way = self._ways.get((a, b))
        if way is None:
            (ax, ay), (bx, by) = self.place(a), self.place(b)
            way = self._ways[a, b] = math.hypot(ax - bx, ay - by) * distances.side_ns
        return distances.base_ns + int(way + self._jitter.random() * distances.jitter_ns)

    def place(self, host: str) -> tuple[float, float]:
        """Return where a host lies on the map, which is a square of side 1."""
        place = self._places.get(host)
        if place is None:
            rng = rng_for(self._seed, "place", host)
            place = self._places[host] = (rng.random(), rng.random())
        return place
