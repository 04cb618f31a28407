"""Large rings to measure in: warm-started, in a world with faults, with an account of failures."""

from __future__ import annotations

import gc
from random import Random

from overlay.ids import Nanos
from overlay.machine import Fact
from overlay.rng import rng_for
from ring.config import RingConfig
from sims.experiments.cluster import Cluster
from sims.world.faults import FaultyWorld
from sims.world.network import DISTANCES, Latency
from sims.world.warm import spread_evenly


class OneStream(Cluster):
    """Brokers of one life each, whose uids are drawn from one stream, :attr:`draws`."""

    def __init__(self, n: int, config: RingConfig, seed: int) -> None:
        super().__init__(seed, config)
        self.draws = rng_for(seed, "uids")
        self._names = [f"{self.draws.getrandbits(128):032x}" for _ in range(n)]
        for _ in range(n):
            self._add()

    def name(self, number: int) -> str:
        """Return the uid of the ``number``-th broker."""
        return self._names[number]

    def draws_of(self, uid: str, incarnation: int) -> Random:
        """Return what a broker draws from, in its only life."""
        return rng_for(self._seed, "node", uid)

    def _on_fact(self, uid: str, fact: Fact) -> None:
        super()._on_fact(uid, fact)
        self.facts.clear()  # they are not looked at, and would only grow


class Ring(Cluster):
    """A ring in a world with faults, that keeps the facts that are wanted."""

    world: FaultyWorld

    def __init__(
        self,
        n: int,
        config: RingConfig,
        seed: int,
        distances: str = "lan",
        latency: Latency | None = None,
    ) -> None:
        gc.freeze()  # what other rounds left behind need not be looked through again
        self.seed = seed
        self.wanted: tuple[type[Fact], ...] = ()  #: kinds of facts kept in ``facts``
        between = latency or Latency(DISTANCES[distances], seed)
        super().__init__(seed, config, world=FaultyWorld(between, seed))
        self.order = self.start_warm(spread_evenly(n))  #: going right; newcomers come last

    def newcomer(self) -> str:
        """Start a broker that knows three live ones at most, and return its uid."""
        rng = rng_for(self.seed, "contacts", len(self.nodes))
        contacts = rng.sample(self.order, min(len(self.order), 20))
        self.order.append(self.start([uid for uid in contacts if self.is_alive(uid)][:3]))
        return self.order[-1]

    def draws_of(self, uid: str, incarnation: int) -> Random:
        """Return what a broker draws from, in its only life."""
        return rng_for(self.seed, "node", uid)

    def kept_of(self, kind: type[Fact]) -> list[tuple[Nanos, str, Fact]]:
        """Return the facts kept of this kind: virtual nanoseconds, who said it, fact."""
        return [entry for entry in self.facts if type(entry[2]) is kind]

    def _on_fact(self, uid: str, fact: Fact) -> None:
        super()._on_fact(uid, fact)
        if not isinstance(fact, self.wanted):
            self.facts.pop()
