"""What one death costs a ring in which nothing else happens: with it, less without it.

The same ring runs twice, with and without the death. So that the two runs differ in nothing else,
messages take as long each time, and each broker draws the same number whenever it draws one: else
whoever draws once more because of the death would do all that is periodic at other times.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from overlay.ids import Peer, nanos
from overlay.machine import OpenLink, Send
from overlay.rng import rng_for
from ring.config import RingConfig
from ring.node import RingNode
from sims.world.network import DISTANCES, Latency
from sims.world.warm import spread_evenly, start_warm
from sims.world.world import CrashMode, World

NEAR = 5  #: ring distance within which brokers may hear of the death


class Still(random.Random):
    """Draws the same number again and again."""

    def __init__(self, value: float) -> None:
        super().__init__(0)
        self._value = value

    def random(self) -> float:
        """Return the number."""
        return self._value


@dataclass(frozen=True, slots=True)
class Cost:
    """What the death of one broker of a ring of ``n`` came to."""

    n: int
    degree: int  #: links of the dead broker
    messages: int  #: more than without the death, heartbeats among them
    other: int  #: the same without heartbeats, which others save
    kinds: Counter[str]  #: the difference by kind, a call to an address being one
    heard: int  #: brokers that got more messages than without the death
    far: tuple[int, ...]  #: ring distances of those that were neither near nor linked


def cost_of_death(
    n: int, seed: int, config: RingConfig, settle_s: float, watch_s: float, mode: CrashMode
) -> Cost:
    """Let one broker of a warm ring of ``n`` die after ``settle_s``; count for ``watch_s``."""
    without = _Run(n, seed, config, settle_s)
    linked = without.nodes[without.dying].linked.keys()
    without.count(watch_s)
    run = _Run(n, seed, config, settle_s)
    run.world.crash(run.dying, mode)
    run.count(watch_s)
    kinds = Counter(run.kinds)
    kinds.subtract(without.kinds)
    places = {uid: at for at, uid in enumerate(run.order)}
    heard, far = 0, []
    for uid in run.order:
        if uid != run.dying and run.received[uid] > without.received[uid]:
            heard += 1
            apart = abs(places[uid] - places[run.dying])
            apart = min(apart, n - apart)
            if apart > NEAR and uid not in linked:
                far.append(apart)
    total = kinds.total()
    kinds = Counter({kind: count for kind, count in kinds.items() if count})
    return Cost(n, len(linked), total, total - kinds["Heartbeat"], kinds, heard, tuple(far))


class _Run:
    def __init__(self, n: int, seed: int, config: RingConfig, settle_s: float) -> None:
        self.world = World(Latency(replace(DISTANCES["lan"], jitter_ns=0), seed))
        self.nodes: dict[str, RingNode] = {}
        self.order: list[str] = []  #: going right
        self.kinds: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        places = {}
        for at, place in enumerate(spread_evenly(n)):
            draws = rng_for(seed, "one death", at)
            uid = f"{draws.getrandbits(128):032x}"
            peer = Peer(uid, 1, f"chordal://{uid[:12]}.test:9470")
            self.nodes[uid] = node = RingNode(config, peer, Still(draws.random()))
            self.world.add(node)
            self.order.append(uid)
            places[uid] = place
        self.dying = self.order[n // 2]
        start_warm(self.world, places)
        self.run(settle_s)

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + nanos(seconds))

    def count(self, seconds: float) -> None:
        """Count from now on what is sent to whom, calls to addresses included."""
        uids = {node.peer.url: uid for uid, node in self.nodes.items()}
        self.world.on_sent = self._counter(uids)
        self.run(seconds)

    def _counter(self, uids: dict[str, str]) -> Callable[[str, Send | OpenLink], None]:
        def note(sender: str, effect: Send | OpenLink) -> None:
            if isinstance(effect, Send):
                self.kinds[type(effect.message).__name__] += 1
                self.received[effect.uid] += 1
            else:
                self.kinds["call"] += 1
                self.received[uids[effect.url]] += 1

        return note
