"""The machines of whole brokers in virtual time, without the streams of events between them.

What brokers say to each other of units, links, profiles and statements is all here; an event is a
question to the tables that they hold (:mod:`sims.experiments.walks`). So there is room for some
1,000 brokers, where :class:`sims.experiments.service.Service` has room for some hundred.

::

    machines = Machines.laid_out(1000, limit=64)
    machines.subscribe(machines.alive[7], "orders/#")
    machines.run(2.0)
    print(machines.active_after("orders/#"))
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, Self

from ges.matching.asks import ask_for, served
from ges.node import BrokerNode
from ges.profiles.profiles_part import Wanted
from ges.statements.statements_part import ActiveIn
from ges.units.planner import UnitsConfig
from ges.wire.client_messages import Level
from overlay.ids import NANOS_PER_SECOND, Nanos, Peer, nanos
from overlay.machine import Fact, Message, OpenLink, Send
from overlay.multigraph.probes import LinkEcho, LinkProbe, Pace
from overlay.rng import rng_for
from ring.config import LAN, RingConfig
from sims.errors import InvariantViolated
from sims.experiments.cluster import Cluster
from sims.verdicts.units import unit_findings
from sims.world.warm import spread_evenly
from sims.world.warm_units import laid_out, settle_in

REST_S = 240.0  #: units that are laid out get so long until all brokers know of all that they need
LOOK_S = 2.0
LAST_S = 10.0  #: what is told of links that have lasted for a while is told by then
_NEVER = nanos(1e6)
UNMEASURED = Pace(first_ns=_NEVER, busy_ns=_NEVER, idle_ns=_NEVER, longest_ns=_NEVER)


class Subscribed(NamedTuple):
    """The key of a subscription."""

    uid: str  #: of its broker
    filter: str


class Machines(Cluster):
    """A :class:`Cluster` whose brokers have the event service's parts beside the ring."""

    def __init__(
        self,
        seed: int = 1,
        config: RingConfig = LAN,
        *,
        units: UnitsConfig | None = None,
        pace: Pace | None = None,
    ) -> None:
        """``pace``: how often links are probed; None: as brokers do."""
        super().__init__(seed, config)
        self.units = units or UnitsConfig()
        self.brokers: dict[str, BrokerNode] = {}
        self.messages: Counter[type[Message]] = Counter()  #: that were sent, relays included
        self._pace = pace
        self._subscribed: dict[Subscribed, Nanos] = {}
        self._active: dict[Subscribed, Nanos] = {}
        self.world.on_sent = self._on_sent

    @classmethod
    def laid_out(cls, n: int, limit: int, seed: int = 1) -> Self:
        """Return ``n`` brokers whose units are there from the beginning, and know of each other.

        What links cost is not measured: each costs the same.

        Raises:
            InvariantViolated: they do not hold together.
        """
        machines = cls(seed, units=UnitsConfig(limit), pace=UNMEASURED)
        machines.world.left_out = frozenset((LinkProbe, LinkEcho))
        uids = machines.start_warm(spread_evenly(n))
        machines.run(LOOK_S / 100)
        found = (machines.nodes[uid].member for uid in uids)
        members = sorted((each for each in found if each is not None), key=lambda m: m.ring_id)
        for each in laid_out(members, limit):
            told = settle_in(machines.brokers[each.uid], each, machines.world.now)
            machines.world.give(each.uid, told)
        machines.run(LAST_S)
        machines.rest_units()
        machines.facts.clear()
        return machines

    def rest_units(self) -> None:
        """Go on until events can name whom they are for, and nothing is unknown of any unit.

        Raises:
            InvariantViolated: that does not come about.
        """
        end = self.world.now + nanos(REST_S)
        while self.world.now < end:
            self.run(LOOK_S)
            alive = [self.brokers[uid] for uid in self.alive]
            if all(
                each.gateways.is_for_all
                and not each.statements.unknown
                and not each.profiles.index.unknown
                and not each.gateways.without_way
                for each in alive
            ):
                return
        raise InvariantViolated(f"units have not settled after {REST_S:g} s")

    def subscribe(self, uid: str, text: str) -> None:
        """Let a client of a broker subscribe."""
        key = Subscribed(uid, text)
        self._subscribed[key] = self.world.now
        ask = served(ask_for(text), secure=False)
        self.world.give(uid, Wanted(key, ask))

    def active_after(self, text: str) -> list[float]:
        """Return how long subscriptions to a filter took to be active everywhere, in seconds.

        One that is not is left out.
        """
        return [
            (self._active[key] - since) / NANOS_PER_SECOND
            for key, since in self._subscribed.items()
            if key.filter == text and key in self._active
        ]

    def unit_findings(self) -> list[str]:
        """Return all that is wrong with the tables and addresses of those that live."""
        alive = [uid for uid in self.alive if uid not in self.paused]
        brokers = ((self.nodes[uid].member, self.brokers[uid].units) for uid in alive)
        return unit_findings(brokers, self.units.limit)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _on_sent(self, uid: str, effect: Send | OpenLink) -> None:
        self.ledger.on_sent(effect.about)
        if isinstance(effect, Send):
            self.messages[type(effect.message)] += 1

    def _on_fact(self, uid: str, fact: Fact) -> None:
        super()._on_fact(uid, fact)
        if isinstance(fact, ActiveIn) and fact.level is Level.SYSTEM:
            for key in fact.keys:
                self._active.setdefault(key, self.world.now)

    def _add(self, uid: str | None = None, incarnation: int = 1) -> str:
        if uid is None:
            uid = self.name(len(self.nodes))
        peer = Peer(uid, incarnation, f"chordal://{uid[:12]}.test:9470")
        rng = rng_for(self._seed, "node", uid, incarnation)
        broker = BrokerNode(
            self.config, peer, rng, express_range_ns=0, pace=self._pace, units=self.units
        )
        self.brokers[uid] = broker
        self.nodes[uid] = broker.ring
        self.world.add(broker)
        return uid
