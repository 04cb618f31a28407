"""Faults of the simulated network beyond those of :mod:`sims.world.world`, and what crosses it.

* *Loss*. The machines run over TCP, where a lost segment is a late one: that is
  :class:`Retransmissions`. A datagram that is lost is gone: ``FaultyWorld.loss`` does that to
  single kinds of messages, those that detect failures and that the detector sends again by itself;
  losing any other would break what a machine may assume (:mod:`overlay.machine`). It is the harsher
  of the two for a detector, and the one its theory speaks of.
* *Non-transitive pairs*: two brokers that cannot reach each other while all others reach both.
* *Pauses* after which a process looks at the clock before it reads what came in meanwhile.
* :func:`draw_dead` kills brokers independently of each other.

Each fault draws from a random stream of its own name.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from overlay.ids import LinkClass, Nanos, nanos
from overlay.machine import Message, OpenLink, Refused
from overlay.rng import rng_for
from overlay.wire.codec import MessageCodec
from overlay.wire.greetings import GREETINGS, Hello, Welcome
from ring.wire.messages import Heartbeat, Ping, Pong, Tested, TestNeighbour
from ring.wire.registry import RING_MESSAGES
from sims.world.network import Distances, Latency
from sims.world.world import CONNECT_TIMEOUT_NS, Pipe, World

#: What the detector sends, and sends again if there is no answer.
DETECTION: tuple[type[Message], ...] = (Heartbeat, Ping, Pong, TestNeighbour, Tested)

RETRANSMIT_NS = nanos(0.2)  #: TCP's shortest time-out in practice; it doubles each time
MAX_RETRANSMITS = 6


class Retransmissions(Latency):
    """Latencies where a share ``loss`` of all segments is lost and sent again by TCP."""

    def __init__(self, distances: Distances, seed: int, loss: float) -> None:
        super().__init__(distances, seed)
        self._loss = loss
        self._lost = rng_for(seed, "retransmissions")

    def one_way_ns(self, a: str, b: str) -> Nanos:
        """Draw the time a message from ``a`` needs to ``b``, sent again ones included."""
        way, wait = super().one_way_ns(a, b), RETRANSMIT_NS
        for _ in range(MAX_RETRANSMITS):
            if self._lost.random() >= self._loss:
                break
            way += wait
            wait *= 2
        return way


class Traffic:
    """Messages, and bytes in frames without what TCP and IP add, by sender and by kind."""

    def __init__(self) -> None:
        self.messages: Counter[str] = Counter()  #: by uid of the sender
        self.bytes: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()  #: messages by kind
        self.kind_bytes: Counter[str] = Counter()
        self._codec = MessageCodec(*RING_MESSAGES)

    def add(self, sender: str, message: Message) -> None:
        """Count a message and the bytes of its frame."""
        codec = GREETINGS if isinstance(message, Hello | Welcome) else self._codec
        size, kind = len(codec.encode(message)), type(message).__name__
        self.messages[sender] += 1
        self.bytes[sender] += size
        self.kinds[kind] += 1
        self.kind_bytes[kind] += size

    def clear(self) -> None:
        """Forget all that was counted."""
        for counter in (self.messages, self.bytes, self.kinds, self.kind_bytes):
            counter.clear()


class FaultyWorld(World):
    """A world whose network loses messages, separates pairs, and counts what crosses it."""

    def __init__(self, latency: Latency, seed: int) -> None:
        super().__init__(latency)
        self.loss: dict[type[Message], float] = {}  #: share of each kind that is lost
        self.separated = 0.0  #: share of all pairs that cannot reach each other
        self.clock_first = False  #: who is resumed runs its timers before it reads
        self.traffic: Traffic | None = None
        self._seed = seed
        self._lost = rng_for(seed, "loss")
        self._pairs: dict[tuple[str, str], bool] = {}

    def reaches(self, uid: str, other: str) -> bool:
        """Say whether two brokers can reach each other directly."""
        if not self.separated:
            return True
        pair = (uid, other) if uid < other else (other, uid)
        cut = self._pairs.get(pair)
        if cut is None:
            draw = rng_for(self._seed, "separated", *pair).random()
            cut = self._pairs[pair] = draw < self.separated
        return not cut

    def resume(self, uid: str) -> None:
        """Let a stopped process go on; with ``clock_first`` its overdue timers run out first."""
        host = self.hosts[uid]
        if self.clock_first and host.armed is not None and host.armed <= self._time_of(host):
            host.paused = False
            self._run_timers(uid, host, host.armed)
        super().resume(uid)

    def _later(
        self, sender: str, receiver: str, wire: Pipe, action: Callable[..., None], what: object
    ) -> None:
        if isinstance(what, Message):
            if self.traffic is not None:
                self.traffic.add(sender, what)
            share = self.loss.get(type(what))
            if share is not None and self._lost.random() < share:
                return
        if self.reaches(sender, receiver):
            super()._later(sender, receiver, wire, action, what)

    def _connect(self, uid: str, request: OpenLink) -> None:
        target = self._by_url.get(request.url)
        if target is not None and not self.reaches(uid, target):
            self._refuse(uid, request, Refused.TIMEOUT, CONNECT_TIMEOUT_NS)
            return
        if target is not None and self.traffic is not None and self.hosts[target].alive:
            here, there = self.hosts[uid].machine.peer, self.hosts[target].machine.peer
            hello = Hello(
                "chordal", 1, uid, here.incarnation, here, LinkClass.NORMAL, request.uid, 1
            )
            self.traffic.add(uid, hello)
            self.traffic.add(target, Welcome(there, 1))
        super()._connect(uid, request)


def draw_dead(ring: Sequence[str], share: float, rng: random.Random) -> list[str]:
    """Return brokers that are to die, each with probability ``share``, whatever others do."""
    return [uid for uid in ring if rng.random() < share]


def dead_runs(ring: Sequence[str], dead: Iterable[str]) -> list[int]:
    """Return the lengths of the runs of adjacent dead brokers round the ring, in any order."""
    gone = frozenset(dead)
    if len(gone) >= len(ring):
        return [len(ring)] if ring else []
    start = next(at for at, uid in enumerate(ring) if uid not in gone)
    runs, length = [], 0
    for uid in (*ring[start:], *ring[:start]):
        if uid in gone:
            length += 1
        elif length:
            runs.append(length)
            length = 0
    return [*runs, length] if length else runs
