"""How long messages take in the simulated world."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

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


_MASK = (1 << 64) - 1
_UNIT = 2.0**-53


class Way(NamedTuple):
    """From one host to another: how long a message takes that is sent at a given time.

    For latencies that are drawn by key (:meth:`Latency.draw_by_key`).
    """

    base_ns: Nanos
    way_ns: float
    jitter_ns: Nanos
    key: int  #: of the seed and the two hosts, 64 bits

    def at(self, time: Nanos) -> Nanos:
        """Return how long what is sent then takes."""
        mixed = (time * 0x9E3779B97F4A7C15 ^ self.key) & _MASK
        mixed = (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93 & _MASK
        mixed = (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93 & _MASK
        drawn = ((mixed ^ mixed >> 32) >> 11) * _UNIT
        return self.base_ns + int(self.way_ns + drawn * self.jitter_ns)

    def arrivals(self, times: list[Nanos], last: Nanos) -> list[Nanos]:
        """Return when those arrive that are sent at these times, each after those before.

        ``last``: when the latest that was sent before them does.
        """
        base, way, jitter, key = self
        found = []
        for time in times:  # as :meth:`at`, which a call for each of millions would slow down
            mixed = (time * 0x9E3779B97F4A7C15 ^ key) & _MASK
            mixed = (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93 & _MASK
            mixed = (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93 & _MASK
            drawn = ((mixed ^ mixed >> 32) >> 11) * _UNIT
            arrival = time + base + int(way + drawn * jitter)
            last = arrival if arrival > last else last + 1
            found.append(last)
        return found


class Clock(Protocol):
    """Tells the time of the world."""

    @property
    def now(self) -> Nanos:
        """The time, in nanoseconds."""


class Latency:
    """One-way latency between any two hosts, reproducible from the seed."""

    def __init__(self, distances: Distances, seed: int) -> None:
        self._distances = distances
        self._seed = seed
        self._jitter = rng_for(seed, "latency")
        self._places: dict[str, tuple[float, float]] = {}
        self._ways: dict[tuple[str, str], float] = {}
        self._clock: Clock | None = None
        self._keys: dict[str, int] = {}

    def one_way_ns(self, a: str, b: str) -> Nanos:
        """Draw the time a message from ``a`` needs to ``b``."""
        if self._clock is not None:
            return self.way(a, b).at(self._clock.now)
        distances = self._distances
        way = self._ways.get((a, b))
        if way is None:
            way = self._ways[a, b] = self._way_ns(a, b)
        return distances.base_ns + int(way + self._jitter.random() * distances.jitter_ns)

    def draw_by_key(self, clock: Clock) -> None:
        """Let the jitter of a message follow from its two hosts and the time alone.

        Else it is the next of one stream for all, and a message that is left out shifts those of
        all others.
        """
        self._clock = clock

    def way(self, a: str, b: str) -> Way:
        """Return how long messages from ``a`` to ``b`` take, where jitter is drawn by key."""
        distances = self._distances
        key = self._key(a, b)
        return Way(distances.base_ns, self._way_ns(a, b), distances.jitter_ns, key)

    def place(self, host: str) -> tuple[float, float]:
        """Return where a host lies on the map, which is a square of side 1."""
        place = self._places.get(host)
        if place is None:
            rng = rng_for(self._seed, "place", host)
            place = self._places[host] = (rng.random(), rng.random())
        return place

    def _way_ns(self, a: str, b: str) -> float:
        (ax, ay), (bx, by) = self.place(a), self.place(b)
        return math.hypot(ax - bx, ay - by) * self._distances.side_ns

    def _key(self, a: str, b: str) -> int:
        keys = self._keys
        for host in (a, b):
            if host not in keys:
                keys[host] = rng_for(self._seed, "jitter", host).getrandbits(64)
        return (keys[a] * 3 ^ keys[b]) & _MASK
