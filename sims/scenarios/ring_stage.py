"""Ring nodes alone: messages are objects, and no event flows. For size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from overlay.ids import Nanos
from overlay.machine import Fact, Message, OpenLink, Send
from overlay.wire.codec import MessageCodec
from ring.config import RingConfig
from ring.facts import PutRecord
from ring.wire.registry import RING_MESSAGES
from sims.experiments.cluster import Cluster
from sims.scenarios.stage import Sent
from sims.world.bandwidth import Bandwidth
from sims.world.conditions import Conditions
from sims.world.quiet import QuietWorld
from sims.world.timeline import Timeline
from sims.world.warm import spread_evenly
from sims.world.world import CrashMode, CutMode


class RingStage:
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
        self.cluster = Cluster(seed, config, latency, quiet=quiet)
        self._codec = MessageCodec(*RING_MESSAGES)
        self.cluster.world.bandwidth = bandwidth
        self.cluster.world.size_of = self._size_of
        self.timeline: Timeline = self.cluster.world
        self.ledger = self.cluster.ledger
        self._gone = self.cluster.gone
        self.on_fact: Callable[[str, Fact], None] = lambda uid, fact: None
        heard = self.cluster.world.on_fact

        def hear(uid: str, fact: Fact) -> None:
            heard(uid, fact)
            self.cluster.facts.clear()  # they are not looked at, and would only grow
            self.on_fact(uid, fact)

        self.cluster.world.on_fact = hear
        self._messages: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def count_traffic(self) -> None:
        """Count from now on what brokers send: the frames of their messages."""
        told = self.cluster.world.on_sent

        def count(uid: str, effect: Send | OpenLink) -> None:
            told(uid, effect)
            if isinstance(effect, Send):
                self._messages[uid] += 1
                self._bytes[uid] += self._size_of(effect.message)

        world = self.cluster.world
        world.on_sent = count
        if isinstance(world, QuietWorld):
            world.count()

    def _size_of(self, message: Message) -> int:
        return len(self._codec.encode(message))

    def sent(self) -> dict[str, Sent]:
        """Return what each broker has sent, by uid, those that are dead among them."""
        world = self.cluster.world
        hosts = world.hosts
        if isinstance(world, QuietWorld):
            world.catch_up_all()
        return {uid: Sent(self._messages[uid], self._bytes[uid]) for uid in hosts}

    @property
    def alive(self) -> list[str]:
        """Uids of the processes that run, in the order in which they came."""
        return self.cluster.alive

    def is_alive(self, uid: str) -> bool:
        """Say whether a broker's process runs."""
        return self.cluster.world.hosts[uid].alive

    @property
    def in_order(self) -> list[str]:
        """Uids of the members that live, going right on the ring."""
        return self.cluster.in_order

    def links(self) -> list[tuple[str, str]]:
        """Return the pairs of brokers that are linked, each once, in a fixed order."""
        hosts = self.cluster.world.hosts
        return sorted(
            (uid, other)
            for uid, host in hosts.items()
            for other in host.wires
            if uid < other and host.alive and hosts[other].alive
        )

    def link_counts(self) -> dict[str, int]:
        """Return of each broker that lives how many that live it is linked to."""
        hosts = self.cluster.world.hosts
        living = {uid for uid, host in hosts.items() if host.alive}
        return {uid: len(living.intersection(hosts[uid].wires)) for uid in self.alive}

    def begin(self, nodes: int) -> None:
        """Let there be a ring of so many brokers, without joins."""
        self.cluster.start_warm(spread_evenly(nodes))

    def start(self, contacts: Sequence[str]) -> str:
        """Start a broker that joins through ``contacts``, or founds a ring; returns its uid."""
        return self.cluster.start(contacts) if contacts else self.cluster.found()

    def restart(self, uid: str, contacts: Sequence[str]) -> None:
        """Start a broker again that has died or left: the same uid, its next incarnation."""
        self.cluster.restart(uid, contacts)

    def put(self, uid: str, key: str, body: bytes) -> None:
        """Let a broker own a record."""
        self.cluster.world.give(uid, PutRecord(key, body))

    def kept(self, uid: str) -> frozenset[str]:
        """Return the keys of the records of which a broker has the bytes, its own among them."""
        return frozenset(self.cluster.nodes[uid].kept)

    def crash(self, uid: str, mode: CrashMode) -> None:
        """Let a broker die now, without a word of its own."""
        self.cluster.crash(uid, mode)

    def leave(self, uid: str) -> None:
        """Ask a broker to leave in good order."""
        self.cluster.leave(uid)

    def pause(self, uid: str, for_ns: Nanos) -> None:
        """Let a broker stand still for so long."""
        if uid in self.cluster.paused:
            return
        self.cluster.pause(uid)
        host = self.cluster.world.hosts[uid]

        def resume() -> None:
            if self.cluster.world.hosts[uid] is host and host.alive:
                self.cluster.resume(uid)

        self.timeline.at(self.timeline.now + for_ns, resume)

    def skew(self, uid: str, rate: float) -> None:
        """Let the clock of a broker count so many seconds in one, until it is started again."""
        self.cluster.world.skew(uid, rate)

    def cut(self, uid: str, other: str, mode: CutMode, *, one_way: bool) -> None:
        """Let nothing pass between two brokers until :meth:`mend`."""
        self.cluster.cut(uid, other, mode, one_way=one_way)

    def mend(self, uid: str, other: str) -> None:
        """End what :meth:`cut` began."""
        self.cluster.mend(uid, other)

    def part(self, groups: Sequence[Sequence[str]]) -> None:
        """Let nothing pass between the groups until :meth:`heal`."""
        self.cluster.partition(*groups)

    def heal(self) -> None:
        """End what :meth:`part` began."""
        self.cluster.heal()
