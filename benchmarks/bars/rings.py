"""Large rings to measure in: warm-started, in a world with faults, with an account of failures."""

from __future__ import annotations

import gc
from random import Random

from overlay.ids import Nanos, Peer, nanos
from overlay.machine import Fact
from overlay.rng import rng_for
from ring.config import RingConfig
from ring.facts import Join, Left
from ring.node import RingNode
from sims.verdicts.ledger import Ledger
from sims.world.faults import FaultyWorld
from sims.world.network import DISTANCES, Latency
from sims.world.warm import spread_evenly, start_warm
from sims.world.world import CrashMode, World


def draw_uid(rng: Random) -> str:
    """Return a random uid: 128 bits, as 32 hexadecimal digits."""
    return f"{rng.getrandbits(128):032x}"


def add_broker(world: World, uid: str, config: RingConfig, seed: int) -> RingNode:
    """Put a broker into a world that does nothing yet."""
    peer = Peer(uid, 1, f"chordal://{uid[:12]}.test:9470")
    node = RingNode(config, peer, rng_for(seed, "node", uid))
    world.add(node)
    return node


class Ring:
    """A ring of brokers that tell their facts to a ledger."""

    def __init__(
        self,
        n: int,
        config: RingConfig,
        seed: int,
        distances: str = "lan",
        latency: Latency | None = None,
    ) -> None:
        gc.freeze()  # what other rounds left behind need not be looked through again
        self.config = config
        self.world = FaultyWorld(latency or Latency(DISTANCES[distances], seed), seed)
        self.ledger = Ledger()
        self.nodes: dict[str, RingNode] = {}
        self.facts: list[tuple[Nanos, str, Fact]] = []
        self.wanted: tuple[type[Fact], ...] = ()  #: kinds of facts kept in ``facts``
        self.world.on_fact = self._on_fact
        self.world.on_sent = lambda uid, effect: self.ledger.on_sent(effect.about)
        self.seed = seed
        self._count = 0
        places = {self._add(): place for place in spread_evenly(n)}
        start_warm(self.world, places)
        self.order = sorted(places, key=places.__getitem__)  #: going right; newcomers come last

    def run(self, seconds: float) -> None:
        """Let so many seconds of virtual time pass."""
        self.world.run(self.world.now + nanos(seconds))

    def join(self) -> str:
        """Start a newcomer that knows three live brokers at most, and return its uid."""
        rng = rng_for(self.seed, "contacts", self._count)
        contacts = rng.sample(self.order, min(len(self.order), 20))
        alive = [uid for uid in contacts if self.world.hosts[uid].alive][:3]
        uid = self._add()
        self.order.append(uid)
        self.world.give(uid, Join(tuple(self.nodes[other].peer.url for other in alive)))
        return uid

    def crash(self, uid: str, mode: CrashMode) -> None:
        """Let a broker die now; the ledger is told of it, and how many it was linked to."""
        self.ledger.on_crash(uid, len(self.nodes[uid].linked), self.world.now)
        self.world.crash(uid, mode)

    def told(self, kind: type[Fact]) -> list[tuple[Nanos, str, Fact]]:
        """Return the facts kept of this kind: virtual nanoseconds, who said it, fact."""
        return [entry for entry in self.facts if type(entry[2]) is kind]

    def _add(self) -> str:
        uid = draw_uid(rng_for(self.seed, "uid", self._count))
        self._count += 1
        self.nodes[uid] = add_broker(self.world, uid, self.config, self.seed)
        return uid

    def _on_fact(self, uid: str, fact: Fact) -> None:
        if isinstance(fact, self.wanted):
            self.facts.append((self.world.now, uid, fact))
        self.ledger.on_fact(uid, fact, self.world.now)
        if isinstance(fact, Left):
            self.world.crash(uid, CrashMode.KILL)
