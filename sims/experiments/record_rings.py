"""Rings whose brokers own records, and brokers that die at a chosen message.

::

    ring = RecordRing.warm(12, seed=3, backups=2)
    keys = ring.put_everywhere()
    ring.crash(ring.in_order[4], KILL)
    ring.settle()
    ring.owners(keys[0])  # one broker: a neighbour has taken it over, if its owner died
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from overlay.ids import Nanos, Peer
from overlay.machine import Effect, Input, Machine, Message, Refused, Send
from ring.config import LAN, RingConfig
from ring.invariants import Copies, backup_findings
from sims.errors import InvariantViolated
from sims.experiments.cluster import Cluster
from sims.world.warm import spread_evenly
from sims.world.world import CrashMode


class RecordRing(Cluster):
    """A cluster that knows which records there should be, and who owns them.

    ``buried`` holds the keys of records that died with the last broker that had their bytes.
    """

    def __init__(self, seed: int = 1, config: RingConfig = LAN) -> None:
        super().__init__(seed, config)
        self.buried: set[str] = set()

    @classmethod
    def warm(cls, n: int, seed: int, backups: int, config: RingConfig = LAN) -> RecordRing:
        """Return a ring of ``n`` brokers at rest that own nothing yet."""
        ring = cls(seed, replace(config, backups=backups))
        ring.start_warm(spread_evenly(n))
        ring.rest()
        ring.facts.clear()
        return ring

    def put_everywhere(self, count: int = 3) -> list[str]:
        """Let each broker own ``count`` records, and have them backed up; returns all keys.

        Raises:
            InvariantViolated: not all are backed up after half a second.
        """
        keys = []
        for uid in self.alive:
            for number in range(count):
                keys.append(f"{uid}/{number}")
                self.put(uid, keys[-1], uid.encode())
        self.run(0.5)
        if missing := self.backup_findings():
            raise InvariantViolated(f"not backed up after 0.5 s: {'; '.join(missing)}")
        return keys

    def crash(self, uid: str, mode: CrashMode) -> None:
        """Let a broker die now; what nobody else has bytes of is ``buried``."""
        kept = self.nodes[uid].kept
        super().crash(uid, mode)
        self.buried |= kept.difference(*(self.nodes[other].kept for other in self.alive))

    def start_beside(self, contacts: list[str]) -> str:
        """Start a broker on the side of ``contacts`` of a partition, to join by them."""
        uid = self.name(len(self.nodes))
        self.side_with(uid, contacts[0])
        return self.start(contacts)

    def owners(self, key: str) -> list[str]:
        """Uids of the living brokers that hold themselves for the owner of ``key``."""
        return [uid for uid in self.alive if key in self.nodes[uid].records]

    def backup_findings(self) -> list[str]:
        """Return what the backups of the living lack."""
        return backup_findings(self._copies(uid) for uid in self.alive)

    @property
    def is_backed_up(self) -> bool:
        """All records are on as many neighbours as they should be, in the latest version."""
        return not self.backup_findings()

    def _copies(self, uid: str) -> Copies:
        node = self.nodes[uid]
        near = frozenset(member.uid for member in (*node.left, *node.right))
        return Copies(uid, near, len(node.records), node.backups, self.config.backups)

    def settle(self, limit_s: float = 60.0) -> None:
        """Run until the ring is at rest, every duty is decided and every copy in its place.

        Raises:
            InvariantViolated: it has not come to that by ``limit_s``.
        """
        self.rest(limit_s)
        self.run(4 * self.config.silence_ns / 1e9)
        waited = 0.0
        while missing := self.backup_findings():
            if waited >= limit_s:
                raise InvariantViolated(f"not backed up after {limit_s:g} s: {'; '.join(missing)}")
            self.run(0.5)
            waited += 0.5

    def watch(self, uid: str, wrap: Callable[[Machine], Machine]) -> None:
        """Put a :class:`Wrapper` between a broker and the world."""
        host = self.world.hosts[uid]
        host.machine = wrap(host.machine)

    def doom(self, uid: str, sends: int, mode: CrashMode) -> None:
        """Let a broker die after ``sends`` more messages, in the middle of what it does."""

        def die() -> None:
            self.world.at(self.world.now, self.crash, uid, mode)

        self.watch(uid, lambda machine: Mortal(machine, sends, die))


class Wrapper:
    """A machine around another one that may change what comes out of it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    @property
    def peer(self) -> Peer:
        """Who the broker is."""
        return self.machine.peer

    def admit(self, peer: Peer) -> Refused | None:
        """Ask the broker whether a link may be made; its reason, if not."""
        return self.machine.admit(peer)

    def handle(self, event: Input, now: Nanos) -> list[Effect]:
        """Give the broker an input; return what :meth:`pass_on` lets out."""
        return self.pass_on(self.machine.handle(event, now))

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Let the broker's timers run out; return what :meth:`pass_on` lets out."""
        return self.pass_on(self.machine.handle_timers(now))

    def next_deadline(self) -> Nanos | None:
        """When the broker's next timer runs out."""
        return self.machine.next_deadline()

    def pass_on(self, effects: list[Effect]) -> list[Effect]:
        """Return what the world is to see of these effects: here, all."""
        return effects


class Mortal(Wrapper):
    """Dies after so many messages; what it would have sent after these is never sent."""

    def __init__(self, machine: Machine, sends: int, die: Callable[[], None]) -> None:
        super().__init__(machine)
        self._left = sends
        self._die = die
        self._dead = False

    def pass_on(self, effects: list[Effect]) -> list[Effect]:
        """Return the effects until the last message it sends."""
        if self._dead:
            return []
        for at, effect in enumerate(effects):
            if isinstance(effect, Send):
                if self._left == 0:
                    self._dead = True
                    self._die()
                    return effects[:at]
                self._left -= 1
        return effects


class Filter(Wrapper):
    """Loses the messages that ``loses`` picks now, and notes all others with their receivers."""

    def __init__(self, machine: Machine, loses: Callable[[Message], bool]) -> None:
        super().__init__(machine)
        self.loses = loses
        self.sent: list[tuple[str, Message]] = []

    def pass_on(self, effects: list[Effect]) -> list[Effect]:
        """Return the effects without the messages that are lost."""
        kept = [e for e in effects if not (isinstance(e, Send) and self.loses(e.message))]
        self.sent += [(e.uid, e.message) for e in kept if isinstance(e, Send)]
        return kept
