"""A simulated ring of brokers' machines, and what must hold of their cluster at rest."""

from __future__ import annotations

from collections import Counter

from ges.node import BrokerNode
from ges.units.address import UNIT_LIMIT
from ges.wire.unit_messages import Held, Kind, TellTaken, Told
from overlay.ids import NANOS_PER_SECOND, Peer
from overlay.machine import OpenLink, Send
from overlay.rng import rng_for
from ring.config import LAN, RingConfig
from sims.errors import InvariantViolated
from sims.experiments.cluster import Cluster


class UnitsRing(Cluster):
    """A :class:`Cluster` whose brokers have the event service's parts beside the ring."""

    def __init__(self, seed: int = 1, config: RingConfig = LAN) -> None:
        super().__init__(seed, config)
        self.brokers: dict[str, BrokerNode] = {}
        self.sent: Counter[str] = Counter()  #: messages about units, by name
        self.about_members = 0  #: of these, but for what is told of links and clients, and digests
        self._members_told: set[tuple[str, int]] = set()
        self.world.on_sent = self._on_sent

    def agree(self, limit_s: float = 15.0) -> float:
        """Run until all that must hold of the cluster at rest does; return how long it took.

        Raises:
            InvariantViolated: it does not in time.
        """
        start = self.world.now
        while found := self.cluster_findings():
            if (self.world.now - start) / NANOS_PER_SECOND >= limit_s:
                raise InvariantViolated(f"after {limit_s:g} s: {'; '.join(found)}")
            self.run(0.1)
        return (self.world.now - start) / NANOS_PER_SECOND

    def cluster_findings(self) -> list[str]:
        """Return all that is wrong with the tables and addresses of those that live."""
        alive = [uid for uid in self.alive if uid not in self.paused]
        units = {uid: self.brokers[uid].units for uid in alive}
        found = []
        digests = {unit.digest for unit in units.values()}
        if len(digests) > 1 or 0 in digests:
            found.append(f"{len(digests)} tables")
        slots = Counter(unit.address for unit in units.values() if unit.address is not None)
        found += [f"{slots[at]} brokers at {at}" for at in slots if slots[at] > 1]
        if len(slots) != min(len(alive), UNIT_LIMIT):
            found.append(f"{len(slots)} addresses for {len(alive)} brokers")
        first = min(alive, key=self._place)
        stewards = {unit.steward for unit in units.values()}
        if stewards != {first}:
            found.append(f"stewards {stewards}, and first is {first}")
        members = set(units[first].members)
        if len(members) != len(slots) or not members <= set(alive):
            found.append("the table has others than the living")
        for uid, row in units[first].members.items():
            if uid in alive and row.member != self.nodes[uid].member:
                found.append(f"{uid[:8]} stands elsewhere, or lives another life")
        return found

    def addresses(self) -> dict[str, str]:
        """Return the addresses of those that have one, as printed, by uid."""
        units = {uid: self.brokers[uid].units for uid in self.alive}
        return {uid: str(unit.address) for uid, unit in units.items() if unit.address is not None}

    def link(self, uid: str, other: str) -> None:
        """Let there be a link between two brokers, so that their rings become one."""
        self.world.link(uid, other)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _place(self, uid: str) -> int:
        member = self.nodes[uid].member
        return member.ring_id if member is not None else 2**32

    def _on_sent(self, uid: str, effect: Send | OpenLink) -> None:
        self.ledger.on_sent(effect.about)
        if isinstance(effect, Send) and effect.message.capability == "units":
            message = effect.message
            self.sent[type(message).__name__] += 1
            if isinstance(message, Told) and message.kind == Kind.MEMBERS:
                self._members_told.add((message.origin, message.number))
            if isinstance(message, Told | TellTaken):
                self.about_members += (message.origin, message.number) in self._members_told
            elif not isinstance(message, Held):
                self.about_members += 1

    def _add(self, uid: str | None = None, incarnation: int = 1) -> str:
        if uid is None:
            uid = self.name(len(self.nodes))
        peer = Peer(uid, incarnation, f"chordal://{uid[:12]}.test:9470")
        rng = rng_for(self._seed, "node", uid, incarnation)
        broker = BrokerNode(self.config, peer, rng, express_range_ns=0)
        self.brokers[uid] = broker
        self.nodes[uid] = broker.ring
        self.world.add(broker)
        return uid
