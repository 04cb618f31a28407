"""A small simulated ring, and the verbs that break it.

::

    cluster = Cluster.ring_of(12, seed=3)
    cluster.crash(cluster.in_order[4], POWER)
    cluster.rest()  # seconds of virtual time until the ring was whole again
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Self

from overlay.ids import NANOS_PER_SECOND, Nanos, Peer, nanos
from overlay.machine import Fact
from overlay.rng import rng_for
from ring.config import LAN, RingConfig
from ring.facts import Found, Join, Leave, Left, PutRecord
from ring.geometry import FIRST_ID
from ring.invariants import Snapshot
from ring.node import RingNode
from sims.errors import InvariantViolated
from sims.verdicts.ledger import Ledger
from sims.world.cuts import Cut
from sims.world.network import DISTANCES, Latency
from sims.world.partitions import Partition
from sims.world.quiet import QuietWorld
from sims.world.warm import start_warm
from sims.world.world import CrashMode, Host, World

KILL, POWER = CrashMode.KILL, CrashMode.POWER


class Cluster:
    """Brokers named by uid in a world, with the distances of a LAN; every wait is bounded.

    ``seed`` decides everything that is drawn: uids, latencies, what brokers draw. ``nodes`` holds
    the protocol of each broker, alive or dead, ``ledger`` what the world knows of failures, and
    ``facts`` all that brokers have stated: when (virtual nanoseconds), who, what. Seconds are of
    virtual time.
    """

    def __init__(
        self,
        seed: int = 1,
        config: RingConfig = LAN,
        latency: Latency | None = None,
        *,
        distances: str = "lan",
        quiet: bool = False,
        world: World | None = None,
    ) -> None:
        """``quiet``: leave out what changes nothing; see :mod:`sims.world.quiet`.

        ``world``: one of another kind, instead of one with that latency.
        """
        self.config = config
        latency = latency or Latency(DISTANCES[distances], seed)
        self.world = world or (QuietWorld(latency) if quiet else World(latency))
        self.world.on_fact = self._on_fact
        self.world.on_sent = lambda uid, effect: self.ledger.on_sent(effect.about)
        self.ledger = Ledger()
        self.facts: list[tuple[Nanos, str, Fact]] = []
        self.nodes: dict[str, RingNode] = {}
        self.paused: set[str] = set()
        self.gone: set[str] = set()  #: those that left
        self._seed = seed
        self._partition: Partition | None = None

    @classmethod
    def ring_of(cls, n: int, seed: int = 1, config: RingConfig = LAN) -> Self:
        """Return a ring of ``n`` brokers that has come to rest, its facts so far forgotten."""
        cluster = cls(seed, config)
        cluster.found()
        while len(cluster.nodes) < n:
            here = list(cluster.nodes)
            for _ in range(min(max(1, len(here) // 4), n - len(here))):
                cluster.start(here)
            cluster.run(0.05)
        cluster.rest()
        cluster.facts.clear()
        return cluster

    # ── what is done to it ──────────────────────────────────────────────────────────────────────

    def found(self, ring_id: int = FIRST_ID) -> str:
        """Start a broker that founds a ring, with that ring id."""
        uid = self._add()
        self.world.give(uid, Found(ring_id))
        return uid

    def start(self, contacts: Sequence[str], *, uid: str | None = None, bootstrap: int = 1) -> str:
        """Start a broker that joins through ``contacts``, or founds a ring; returns its uid.

        ``uid``: of a broker that was named before it is started, see :meth:`name`; ``bootstrap``:
        see :class:`ring.facts.Join`.
        """
        uid = self._add(uid)
        self.world.give(uid, Join(self.urls(contacts), bootstrap) if contacts else Found())
        return uid

    def join(self, contacts: Sequence[str]) -> str:
        """Start a broker that joins through ``contacts``, and run until it has its place.

        Raises:
            InvariantViolated: it has none after a minute.
        """
        uid = self.start(contacts)
        end = self.world.now + nanos(60)
        while self.nodes[uid].member is None:
            if self.world.now >= end:
                raise InvariantViolated(f"{uid[:8]} finds no place")
            self.run(0.001)
        return uid

    def start_warm(self, places: Sequence[int]) -> list[str]:
        """Start brokers that are the members of one ring at these ids; returns their uids."""
        uids = [self._add() for _ in places]
        start_warm(self.world, dict(zip(uids, places, strict=True)))
        return uids

    def restart(self, uid: str, contacts: Sequence[str]) -> None:
        """Start the process of a dead broker again, under its uid and the next incarnation.

        Without contacts it founds a ring.
        """
        assert uid not in self.alive
        self.paused.discard(uid)
        self._add(uid, self.nodes[uid].peer.incarnation + 1)
        self.world.give(uid, Join(self.urls(contacts)) if contacts else Found())

    def crash(self, uid: str, mode: CrashMode) -> None:
        """Let a broker die now, without a word of its own."""
        self.ledger.on_crash(uid, len(self.nodes[uid].linked), self.world.now)
        self.paused.discard(uid)
        self.world.crash(uid, mode)

    def leave(self, uid: str) -> None:
        """Ask a broker to leave the ring in good order; it does so as time passes."""
        self.world.give(uid, Leave())

    def pause(self, uid: str, seconds: float | None = None) -> None:
        """Let a broker stand still for so long, or until :meth:`resume`; what comes waits for it.

        For a time: a broker that stands still already goes on as it was to.
        """
        if seconds is not None and uid in self.paused:
            return
        self.paused.add(uid)
        self.world.pause(uid)
        if seconds is not None:
            self.world.at(self.world.now + nanos(seconds), self._resume, self.world.hosts[uid], uid)

    def resume(self, uid: str) -> None:
        """Let a broker that stands still go on."""
        self.paused.discard(uid)
        self.world.resume(uid)

    def cut(self, uid: str, other: str, mode: Cut = Cut.SILENT, *, one_way: bool = False) -> None:
        """Let nothing pass between two brokers; see :meth:`World.cut`."""
        self.world.cut(uid, other, mode, one_way=one_way)

    def mend(self, uid: str, other: str) -> None:
        """End what :meth:`cut` began."""
        self.world.mend(uid, other)

    def skew(self, uid: str, rate: float) -> None:
        """Let the clock of a broker count so many seconds in one, until it is started again."""
        self.world.skew(uid, rate)

    def put(self, uid: str, key: str, body: bytes) -> None:
        """Let a broker own a record."""
        self.world.give(uid, PutRecord(key, body))

    def part(self, groups: Sequence[Iterable[str]]) -> None:
        """Let nothing pass between brokers of different groups until :meth:`heal`."""
        self.heal()
        self._partition = Partition(self.world, groups)

    def side_with(self, uid: str, other: str) -> None:
        """Put a broker that was started later on the side of ``other``."""
        assert self._partition is not None
        self._partition.join(uid, other)

    def heal(self) -> None:
        """End what :meth:`part` began, if it did."""
        if self._partition is not None:
            self._partition.heal()
            self._partition = None

    def name(self, number: int) -> str:
        """Return the uid of the broker that is, or will be, the ``number``-th to be started."""
        return f"{rng_for(self._seed, 'uid', number).getrandbits(128):032x}"

    def draws_of(self, uid: str, incarnation: int) -> Random:
        """Return what a broker draws from."""
        return rng_for(self._seed, "node", uid, incarnation)

    def urls(self, uids: Iterable[str]) -> tuple[str, ...]:
        """Return the addresses of brokers, whether they have been started or not."""
        return tuple(map(_url, uids))

    def run(self, seconds: float) -> None:
        """Let so many seconds of virtual time pass."""
        self.world.run(self.world.now + nanos(seconds))

    def rest(self, limit_s: float = 60.0) -> float:
        """Run until the ring is ideal and stays so for a detection time; return how long.

        Raises:
            InvariantViolated: it has not come to that by ``limit_s``.
        """
        start = self.world.now
        calm = 0.0
        step = self.config.heartbeat_ns / NANOS_PER_SECOND
        while calm < 2 * self.config.silence_ns / NANOS_PER_SECOND:
            if (self.world.now - start) / NANOS_PER_SECOND >= limit_s:
                raise InvariantViolated(
                    f"not at rest after {limit_s:g} s: {'; '.join(self.findings())}"
                )
            self.run(step)
            calm = 0.0 if self.findings() else calm + step
        return (self.world.now - start) / NANOS_PER_SECOND

    # ── what is seen ──────────────────────────────────────────────────────────────────────

    @property
    def alive(self) -> list[str]:
        """Uids of all brokers that have not died, those that stand still among them."""
        return self.world.alive

    def is_alive(self, uid: str) -> bool:
        """Say whether a broker's process runs."""
        return self.world.hosts[uid].alive

    def kept(self, uid: str) -> frozenset[str]:
        """Return the keys of the records of which a broker has the bytes, its own among them."""
        return frozenset(self.nodes[uid].kept)

    def links(self) -> list[tuple[str, str]]:
        """Return the pairs of brokers that are linked, each once, in a fixed order."""
        hosts = self.world.hosts
        return sorted(
            (uid, other)
            for uid, host in hosts.items()
            for other in host.wires
            if uid < other and host.alive and hosts[other].alive
        )

    def link_counts(self) -> dict[str, int]:
        """Return of each broker that lives how many that live it is linked to."""
        hosts = self.world.hosts
        living = {uid for uid, host in hosts.items() if host.alive}
        return {uid: len(living.intersection(hosts[uid].wires)) for uid in self.alive}

    @property
    def in_order(self) -> list[str]:
        """Uids of all members, going right from ring id 0."""
        members = (self.nodes[uid].member for uid in self.alive)
        return [m.uid for m in sorted((m for m in members if m), key=lambda m: m.ring_id)]

    def findings(self) -> list[str]:
        """Return all that keeps the living from being one ideal ring."""
        missing = [uid for uid in self.alive if self.nodes[uid].member is None]
        return [
            *self.ledger.findings,
            *self.ledger.ring_findings(),
            *(f"{uid[:8]} is not on the ring" for uid in missing),
        ]

    def snapshots(self, *, known: bool = True) -> list[Snapshot]:
        """Return the pointers of all live members; ``known``: with the members they know of."""
        return [
            Snapshot(member, node.left, node.right, node.known if known else ())
            for uid in self.alive
            if (member := (node := self.nodes[uid]).member) is not None
        ]

    def told(self, kind: type[Fact], since: Nanos = 0) -> list[tuple[str, Fact]]:
        """Return the facts of one kind and who stated them."""
        return [(uid, fact) for at, uid, fact in self.facts if type(fact) is kind and at >= since]

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _add(self, uid: str | None = None, incarnation: int = 1) -> str:
        if uid is None:
            uid = self.name(len(self.nodes))
        rng = self.draws_of(uid, incarnation)
        node = self.nodes[uid] = RingNode(self.config, Peer(uid, incarnation, _url(uid)), rng)
        self.world.add(node)
        return uid

    def _resume(self, host: Host, uid: str) -> None:
        if self.world.hosts[uid] is host and host.alive:
            self.resume(uid)

    def _on_fact(self, uid: str, fact: Fact) -> None:
        self.facts.append((self.world.now, uid, fact))
        self.ledger.on_fact(uid, fact, self.world.now)
        if isinstance(fact, Left):
            self.gone.add(uid)
            self.world.crash(uid, KILL)  # its process ends, and it is the last thing it does


def _url(uid: str) -> str:
    return f"chordal://{uid[:12]}.test:9470"
