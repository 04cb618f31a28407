"""What one death costs a ring in which nothing else happens: all messages with it, less without.

The same ring runs twice, with and without the death. So that the two runs differ in nothing else,
messages take as long each time, and each broker draws the same number whenever it draws one: else a
broker that draws once more because of the death would do all that is periodic at other times.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from overlay.machine import OpenLink, Send
from overlay.rng import rng_for
from ring.config import RingConfig
from sims.experiments.cluster import Cluster
from sims.world.network import DISTANCES, Latency
from sims.world.warm import spread_evenly
from sims.world.world import CrashMode

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
    #: The difference by kind of message, those to and from the dead broker included. Some kinds are
    #: fewer with the death: nobody asks, or is asked by, the dead broker any more.
    kinds: Counter[str]
    repair: int  #: messages whose senders sent them because of that failure, as B23 counts them
    heard: int  #: brokers that got more messages than without the death
    far: tuple[int, ...]  #: ring distances of those among them that were neither near nor linked

    @property
    def messages(self) -> int:
        """The difference: all messages with the death less all without it, but for heartbeats."""
        return self.kinds.total() - self.kinds["Heartbeat"]

    @property
    def more(self) -> int:
        """The same of those kinds alone that are more with the death."""
        return sum(count for count in self.kinds.values() if count > 0)


def cost_of_death(
    n: int,
    seed: int,
    config: RingConfig,
    *,
    settle_s: float,
    watch_s: float,
    modes: Sequence[CrashMode] = (CrashMode.KILL,),
) -> list[Cost]:
    """Let one broker of a warm ring of ``n`` die after ``settle_s``; count for ``watch_s``.

    Returns:
        One result for each of ``modes``.
    """
    without = _Run(n, seed, config, settle_s)
    linked = without.nodes[without.dying].linked.keys()
    without.count(watch_s)
    found = []
    for mode in modes:
        run = _Run(n, seed, config, settle_s)
        run.world.crash(run.dying, mode)
        run.count(watch_s)
        kinds = Counter(run.kinds)
        kinds.subtract(without.kinds)
        more = [uid for uid in run.order if run.received[uid] > without.received[uid]]
        places = {uid: at for at, uid in enumerate(run.order)}
        apart = {uid: abs(places[uid] - places[run.dying]) for uid in more if uid != run.dying}
        far = [
            min(way, n - way)
            for uid, way in apart.items()
            if uid not in linked and NEAR < way < n - NEAR
        ]
        found.append(Cost(n, len(linked), kinds, run.repair, len(apart), tuple(far)))
    return found


class _Run(Cluster):
    def __init__(self, n: int, seed: int, config: RingConfig, settle_s: float) -> None:
        super().__init__(seed, config, Latency(replace(DISTANCES["lan"], jitter_ns=0), seed))
        self.kinds: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        self.repair = 0
        self.order = self.start_warm(spread_evenly(n))  #: going right
        self.dying = self.order[n // 2]
        self.run(settle_s)

    def name(self, number: int) -> str:
        return f"{rng_for(self._seed, 'one death', number).getrandbits(128):032x}"

    def draws_of(self, uid: str, incarnation: int) -> Still:
        draws = rng_for(self._seed, "one death", len(self.nodes))
        draws.getrandbits(128)
        return Still(draws.random())

    def count(self, seconds: float) -> None:
        """Count from now on what is sent to whom, calls to addresses included."""
        uids = {node.peer.url: uid for uid, node in self.nodes.items()}
        self.world.on_sent = self._counter(uids)
        self.run(seconds)

    def _counter(self, uids: dict[str, str]) -> Callable[[str, Send | OpenLink], None]:
        def note(sender: str, effect: Send | OpenLink) -> None:
            self.repair += effect.about == self.dying
            if isinstance(effect, Send):
                self.kinds[type(effect.message).__name__] += 1
                self.received[effect.uid] += 1
            else:
                self.kinds["call"] += 1
                self.received[uids[effect.url]] += 1

        return note
