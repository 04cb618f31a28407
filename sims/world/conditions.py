"""A network that is not ideal: a matrix of latencies, lost segments, slow hosts.

The machines run over TCP, where a lost segment is a late one: it is sent again after a time-out
that doubles. Segments are lost in bursts (Gilbert's model): each way between two hosts is in a good
state, where none is lost, or in a bad one, where all are.
"""

from __future__ import annotations

from overlay.ids import Nanos
from overlay.rng import rng_for
from sims.world.faults import MAX_RETRANSMITS, RETRANSMIT_NS
from sims.world.network import Distances, Latency, Way


class Matrix:
    """One-way latencies between regions, in nanoseconds."""

    def __init__(self, names: list[str], ways: list[list[Nanos]]) -> None:
        self.names = names
        self.ways = ways


class Conditions(Latency):
    """Latencies under which a scenario runs. All shares are from 0 to 1."""

    def __init__(
        self,
        distances: Distances,
        seed: int,
        *,
        matrix: Matrix | None = None,
        loss: float = 0.0,
        burst: float = 1.0,
        slow_share: float = 0.0,
        slow_ns: Nanos = 0,
    ) -> None:
        """``burst``: how many segments are lost in a row, in the mean."""
        super().__init__(distances, seed)
        self._matrix = matrix
        self._loss = loss
        self._stay = 1 - 1 / burst  #: the chance that the next one is lost as well
        # So that a share ``loss`` is lost in all, whatever the bursts.
        self._fall = min(1.0, loss / burst / (1 - loss)) if loss < 1 else 1.0
        self._bad: set[tuple[str, str]] = set()  #: ways that lose segments now
        self._lost = rng_for(seed, "conditions", "loss")
        self._slow_share = slow_share
        self._slow_ns = slow_ns
        self._slow: dict[str, bool] = {}
        self._jitter_ns = distances.jitter_ns
        self._base_ns = distances.base_ns
        self._regions: dict[str, int] = {}

    def region(self, host: str) -> str:
        """Return the region of a host; without a matrix there are none: an empty text."""
        return "" if self._matrix is None else self._matrix.names[self._region(host)]

    def is_slow(self, host: str) -> bool:
        """Say whether whatever a host sends takes longer."""
        slow = self._slow.get(host)
        if slow is None:
            drawn = rng_for(self._seed, "conditions", "slow", host).random()
            slow = self._slow[host] = drawn < self._slow_share
        return slow

    def one_way_ns(self, a: str, b: str) -> Nanos:
        """Draw the time a message from ``a`` needs to ``b``, sent again ones included."""
        if self._matrix is None or self._clock is not None:
            way = super().one_way_ns(a, b)
        else:
            straight = self._matrix.ways[self._region(a)][self._region(b)]
            way = self._base_ns + straight + int(self._jitter.random() * self._jitter_ns)
        if self._clock is None and self._slow_share and self.is_slow(a):
            way += self._slow_ns
        return way + self._sent_again_ns((a, b)) if self._loss else way

    def way(self, a: str, b: str) -> Way:
        """Return how long messages from ``a`` to ``b`` take, where jitter is drawn by key."""
        base, slow = self._base_ns, self._slow_ns if self._slow_share and self.is_slow(a) else 0
        if self._matrix is None:
            return Way(base + slow, self._way_ns(a, b), self._jitter_ns, self._key(a, b))
        straight = self._matrix.ways[self._region(a)][self._region(b)]
        return Way(base + straight + slow, 0.0, self._jitter_ns, self._key(a, b))

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _sent_again_ns(self, way: tuple[str, str]) -> Nanos:
        later, wait = 0, RETRANSMIT_NS
        for _ in range(MAX_RETRANSMITS):
            chance = self._stay if way in self._bad else self._fall
            if self._lost.random() >= chance:
                self._bad.discard(way)
                break
            self._bad.add(way)
            later += wait
            wait *= 2
        return later

    def _region(self, host: str) -> int:
        assert self._matrix is not None
        region = self._regions.get(host)
        if region is None:
            rng = rng_for(self._seed, "conditions", "region", host)
            region = self._regions[host] = rng.randrange(len(self._matrix.names))
        return region
