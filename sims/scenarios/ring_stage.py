"""Ring nodes alone: messages are objects, and no event flows. For size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from overlay.machine import Fact, Message, OpenLink, Send
from overlay.wire.codec import MessageCodec
from ring.config import RingConfig
from ring.wire.registry import RING_MESSAGES
from sims.experiments.cluster import Cluster
from sims.scenarios.stage import Sent
from sims.world.bandwidth import Bandwidth
from sims.world.conditions import Conditions
from sims.world.quiet import QuietWorld
from sims.world.timeline import Timeline
from sims.world.warm import spread_evenly


class RingStage(Cluster):
    """Ring nodes alone: messages are objects, and no event flows."""

    carries_events = False

    def __init__(
        self,
        seed: int,
        config: RingConfig,
        latency: Conditions,
        bandwidth: Bandwidth | None = None,
        *,
        quiet: bool = False,
    ) -> None:
        super().__init__(seed, config, latency, quiet=quiet)
        self._codec = MessageCodec(*RING_MESSAGES)
        self.world.bandwidth = bandwidth
        self.world.size_of = self._size_of
        self.timeline: Timeline = self.world
        self.on_fact: Callable[[str, Fact], None] = lambda uid, fact: None
        self._messages: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def count_traffic(self) -> None:
        """Count from now on what brokers send: the frames of their messages."""
        told = self.world.on_sent

        def count(uid: str, effect: Send | OpenLink) -> None:
            told(uid, effect)
            if isinstance(effect, Send):
                self._messages[uid] += 1
                self._bytes[uid] += self._size_of(effect.message)

        self.world.on_sent = count
        if isinstance(self.world, QuietWorld):
            self.world.count()

    def sent(self) -> dict[str, Sent]:
        """Return what each broker has sent, by uid, those that are dead among them."""
        if isinstance(self.world, QuietWorld):
            self.world.catch_up_all()
        return {uid: Sent(self._messages[uid], self._bytes[uid]) for uid in self.world.hosts}

    def begin(self, nodes: int) -> None:
        """Let there be a ring of so many brokers, without joins."""
        self.start_warm(spread_evenly(nodes))

    def _size_of(self, message: Message) -> int:
        return len(self._codec.encode(message))

    def _on_fact(self, uid: str, fact: Fact) -> None:
        super()._on_fact(uid, fact)
        self.facts.clear()  # they are not looked at, and would only grow
        self.on_fact(uid, fact)
