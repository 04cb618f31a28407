"""A small ring of whole brokers with clients in virtual time, and the verbs that break it.

::

    service = Service.ring_of(6, seed=3)
    service.subscribe_everywhere()
    service.publish(service.uids[0], Flowing(rate=50))
    service.run(2.0)
    service.crash(service.uids[4], KILL)
    service.run(5.0)
    print(service.finish())
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, product

from ges.node import BrokerNode
from ges.units.address import UNIT_LIMIT
from ges.units.planner import UnitsConfig
from ges.units.unit_names import UnitNames
from overlay.ids import Nanos, Peer, nanos
from overlay.machine import Fact, Input
from overlay.multigraph.probes import Pace
from overlay.rng import rng_for
from overlay.trace_schema import Why
from ring.config import LAN, RingConfig
from ring.facts import Found, Join, Joined, Left, PutRecord, Rejoining
from sims.errors import InvariantViolated
from sims.verdicts.deliveries import Deliveries
from sims.verdicts.judged import Excuse, Verdict
from sims.verdicts.units import unit_findings
from sims.workloads.traffic import Flowing, Publisher, Subscriber
from sims.world.brokers import WholeBroker
from sims.world.clients import ClientUser, SimulatedClient
from sims.world.cuts import Cut
from sims.world.network import DISTANCES, Latency
from sims.world.processes import Network
from sims.world.timeline import Timeline
from sims.world.warm import spread_evenly, start_warm
from sims.world.warm_units import dealt, laid_out, settle_in
from sims.world.world import CrashMode

SETTLE_S = 11.0  #: for the last events to come, and for gaps to be given up
REST_S = 200.0  #: brokers get so long to become one ring; small rings knock rarely
UNITS_PAUSE_NS = nanos(3.0)  #: between two changes of one unit, where clusters are to form soon
LOOK_S = 0.005  #: warm rings are whole after a few of these
UNITS_LOOK_S = 10.0  #: after so long units may have settled, and events name them
UNITS_LOOKS = 24  #: so often that is looked at
AWAY_NS = nanos(2.0)  #: what was published so long before a broker is off the ring may miss it


class Service:
    """Whole brokers by uid, their clients, and the oracle. Seconds are of virtual time."""

    def __init__(
        self,
        seed: int = 1,
        config: RingConfig = LAN,
        *,
        secure: bool = False,
        latency: Latency | None = None,
        keeps_alive: bool = True,
        pace: Pace | None = None,
        units: UnitsConfig | None = None,
    ) -> None:
        """Begin without brokers.

        Args:
            seed: decides all that is drawn.
            config: timing of the brokers.
            secure: brokers hold identities, and clients attach over TLS.
            latency: between any two hosts; None: those of a LAN.
            keeps_alive: clients ask their brokers now and then whether they live.
            pace: how often links are probed; None: as brokers do.
            units: how many sub-units a unit may have; None: as many as there can be.
        """
        self.config = config
        self.timeline = Timeline()
        self.network = Network(self.timeline, latency or Latency(DISTANCES["lan"], seed))
        self.brokers: dict[str, WholeBroker] = {}  #: the latest process of each uid
        self.deliveries = Deliveries()
        self.publishers: list[Publisher] = []
        self.clients: list[SimulatedClient] = []
        self.facts: list[tuple[Nanos, str, Fact]] = []
        self.on_fact: Callable[[str, Fact], None] = lambda uid, fact: None
        self.on_sent: Callable[[str | None], None] = lambda about: None
        self.secure = secure
        self._subscribers: list[Subscriber] = []
        self._away: dict[str, Nanos] = {}  #: who is off the ring, and since when
        self._keeps_alive = keeps_alive
        self._wished: dict[str, UnitNames] = {}  #: units that brokers wished, by uid
        self._apart: list[tuple[Sequence[str], list[str]]] = []  #: groups that are parted
        self._pace = pace
        self._units = units
        self._seed = seed

    @classmethod
    def ring_of(
        cls,
        n: int,
        seed: int = 1,
        config: RingConfig = LAN,
        *,
        secure: bool = False,
        latency: Latency | None = None,
        pace: Pace | None = None,
        units: UnitsConfig | None = None,
    ) -> Service:
        """Return a ring of ``n`` brokers that has formed by joins.

        Raises:
            InvariantViolated: it does not form.
        """
        service = cls(seed, config, secure=secure, latency=latency, pace=pace, units=units)
        service._grow(n)
        service.rest()
        service.run(1.0)
        return service

    @classmethod
    def of_clusters(
        cls, n: int, limit: int, seed: int = 1, *, secure: bool = False, calm: int = 1
    ) -> Service:
        """Return ``n`` brokers whose units have formed, and know of each other.

        ``limit``: how many sub-units a unit may have; ``calm``: see :meth:`rest_units`.

        Raises:
            InvariantViolated: they do not form.
        """
        service = cls(seed, secure=secure, units=UnitsConfig(limit, UNITS_PAUSE_NS))
        service._grow(n)
        service.rest_units(calm)
        return service

    @classmethod
    def of_clusters_at_once(
        cls, n: int, limit: int, seed: int = 1, *, keeps_alive: bool = False
    ) -> Service:
        """Return ``n`` brokers whose units are there from the beginning, and know of each other.

        ``keeps_alive``: clients ask their brokers now and then whether they live.

        Raises:
            InvariantViolated: they do not hold together.
        """
        service = cls(seed, units=UnitsConfig(limit), keeps_alive=keeps_alive)
        service.start_warm(n)
        service.lay_out_units()
        service.rest_units()
        return service

    # ── what is done to it ────────────────────────────────────────────────────────────────────

    def start(
        self,
        contacts: Sequence[str],
        uid: str | None = None,
        *,
        declared: bool = False,
        event_links: Sequence[str] = (),
        unit: UnitNames = (),
    ) -> str:
        """Start a broker that joins through ``contacts``; without any it founds a ring.

        Args:
            contacts: uids of brokers.
            uid: its own; None: it is drawn.
            declared: events take those of its links alone that an end names.
            event_links: uids of brokers, links to which it names.
            unit: names of the unit that it is to be in.
        """
        if uid is None:
            uid = f"{rng_for(self._seed, 'uid', len(self.brokers)).getrandbits(128):032x}"
        self._wished[uid] = unit
        before = self.brokers.get(uid)
        incarnation = 1 if before is None else before.node.peer.incarnation + 1
        named = tuple(self.url_of(other) for other in event_links)
        broker = self._add(uid, incarnation, declared=declared, event_links=named, unit=unit)
        urls = tuple(self.brokers[other].url for other in contacts)
        broker.join(Join(urls) if urls else Found())
        return uid

    def start_warm(self, n: int, named: Sequence[UnitNames] = ()) -> None:
        """Start brokers that are the members of one ring at once; ``named``: units they wish."""
        places = {}
        wished = dealt(n, named) if named else [()] * n
        for number, (place, unit) in enumerate(zip(spread_evenly(n), wished, strict=True)):
            uid = f"{rng_for(self._seed, 'uid', number).getrandbits(128):032x}"
            self._add(uid, 1, unit=unit)
            self._wished[uid] = unit
            places[uid] = place
        start_warm(self, places)

    def lay_out_units(self, *, levels: int | None = None, named: Sequence[UnitNames] = ()) -> None:
        """Let brokers that were started warm know units that are there at once."""
        while not self.is_whole:
            self.run(LOOK_S)
        found = (broker.node.ring.member for broker in self.brokers.values())
        members = [member for member in found if member is not None]
        members.sort(key=lambda member: member.ring_id)
        for each in laid_out(members, self.unit_limit, levels=levels, named=named):
            told = settle_in(self.brokers[each.uid].node, each, self.timeline.now)
            self.give(each.uid, told)

    def link(self, uid: str, other: str) -> None:
        """Let there be a link between two brokers, without a call."""
        self.brokers[uid].link(self.brokers[other])

    def give(self, uid: str, event: Input) -> None:
        """Hand an input to a broker now."""
        self.brokers[uid].join(event)

    def run(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self.timeline.run(self.timeline.now + nanos(seconds))

    def restart(self, uid: str, contacts: Sequence[str]) -> None:
        """Start a broker again that has died or left: the same uid, its next incarnation."""
        self.start(contacts, uid, unit=self._wished.get(uid, ()))

    def put(self, uid: str, key: str, body: bytes) -> None:
        """Let a broker own a record."""
        self.give(uid, PutRecord(key, body))

    def crash(self, uid: str, mode: CrashMode) -> None:
        """Let a broker die now, without a word of its own."""
        broker, now = self.brokers[uid], self.timeline.now
        broker.crash(mode)
        self.deliveries.on_death(now)
        self._away.pop(uid, None)
        for subscriber in self._subscribers:
            if subscriber.broker == uid:
                self.deliveries.on_unserved(subscriber.name, now)

    def leave(self, uid: str) -> None:
        """Ask a broker to leave; it does so as time passes."""
        self.brokers[uid].leave()

    def pause(self, uid: str, seconds: float) -> None:
        """Let a broker stand still for so long; what comes meanwhile waits for it."""
        broker = self.brokers[uid]
        broker.pause()
        self.timeline.at(self.timeline.now + nanos(seconds), broker.resume)

    def skew(self, uid: str, rate: float) -> None:
        """Let the clock of a broker count so many seconds in one, until it is started again."""
        self.brokers[uid].skew(rate)

    def cut(self, uid: str, other: str, mode: Cut = Cut.SILENT, *, one_way: bool = False) -> None:
        """Let nothing pass between two brokers until :meth:`mend`; see :meth:`Network.cut`."""
        self.network.cut(self.brokers[uid], self.brokers[other], mode, one_way=one_way)

    def mend(self, uid: str, other: str) -> None:
        """End what :meth:`cut` began."""
        self.network.mend(self.brokers[uid], self.brokers[other])

    def part(self, groups: Sequence[Sequence[str]], mode: Cut = Cut.SILENT) -> None:
        """Let nothing pass between brokers of different groups until :meth:`heal`."""
        self.heal()
        self._apart = [
            (some, [uid for group in groups[at + 1 :] for uid in group])
            for at, some in enumerate(groups)
        ]
        for uid, other in self._pairs_apart():
            self.cut(uid, other, mode)

    def heal(self) -> None:
        """End what :meth:`part` began, if it did."""
        for uid, other in self._pairs_apart():
            self.mend(uid, other)
        self._apart = []

    def excuse(
        self,
        why: Why,
        since: Nanos,
        senders: Iterable[str] | None = None,
        receivers: Iterable[str] | None = None,
        until: Nanos | None = None,
    ) -> None:
        """Say what need not come: see :class:`Excuse`; ``until`` None: published up to now."""
        self.deliveries.excuses.append(
            Excuse(
                why,
                since,
                self.timeline.now if until is None else until,
                None if senders is None else frozenset(senders),
                None if receivers is None else frozenset(receivers),
            )
        )

    # ── clients ───────────────────────────────────────────────────────────────────────────────

    def subscribe(self, uid: str, topic: str = "t") -> SimulatedClient:
        """Attach a subscriber to a broker."""
        subscriber = Subscriber(f"s{len(self.clients)}", self.timeline, self.deliveries)
        self._subscribers.append(subscriber)
        self.deliveries.wants(subscriber.name, topic)
        client = self._client(uid, subscriber.name, subscriber)
        client.subscribe(topic)
        client.start()
        return client

    def attach(self, uid: str, name: str, user: ClientUser) -> SimulatedClient:
        """Attach a client with a user of its own to a broker."""
        client = self._client(uid, name, user)
        client.start()
        return client

    def subscribe_everywhere(self, topic: str = "t") -> None:
        """Attach a subscriber to every broker, and wait until all are served."""
        for uid in self.alive:
            self.subscribe(uid, topic)
        self.run(0.5)

    def publish(self, uid: str, flowing: Flowing) -> Publisher:
        """Attach a publisher to a broker; it begins at once."""
        publisher = Publisher(f"p{len(self.clients)}", self.timeline, self.deliveries, flowing)
        client = self._client(uid, publisher.name, publisher)
        publisher.client = client
        self.publishers.append(publisher)
        client.start()
        self.timeline.at(self.timeline.now + nanos(0.1), publisher.start)
        return publisher

    # ── what is seen ──────────────────────────────────────────────────────────────────────────

    @property
    def uids(self) -> list[str]:
        """Of all brokers, in the order in which they were started."""
        return list(self.brokers)

    @property
    def alive(self) -> list[str]:
        """Of those that live."""
        return [uid for uid, broker in self.brokers.items() if broker.alive]

    def is_alive(self, uid: str) -> bool:
        """Say whether a broker's process runs."""
        return self.brokers[uid].alive

    @property
    def in_order(self) -> list[str]:
        """Uids of the members that live, going right from ring id 0."""
        members = (node.ring.member for node in self._nodes)
        return [m.uid for m in sorted((m for m in members if m), key=lambda m: m.ring_id)]

    def kept(self, uid: str) -> frozenset[str]:
        """Return the keys of the records of which a broker has the bytes, its own among them."""
        return frozenset(self.brokers[uid].node.ring.kept)

    def links(self) -> list[tuple[str, str]]:
        """Return the pairs of brokers that are linked, each once, in a fixed order."""
        known = frozenset(self.alive)
        return sorted(
            (uid, other)
            for uid in known
            for other in self.brokers[uid].node.ring.linked
            if uid < other and other in known
        )

    def link_counts(self) -> dict[str, int]:
        """Return of each broker that lives how many that live it is linked to."""
        counts = dict.fromkeys(self.alive, 0)
        for ends in self.links():
            for uid in ends:
                counts[uid] += 1
        return counts

    @property
    def is_whole(self) -> bool:
        """Whether all that live are one ring: each stands between those that it should."""
        rings = [self.brokers[uid].node.ring for uid in self.alive]
        places = sorted(
            ((ring.member.ring_id, ring) for ring in rings if ring.member is not None),
            key=lambda place: place[0],
        )
        if len(places) < len(rings):
            return False
        if len(places) == 1:
            return True
        return all(
            here.right[:1] == (there.member,) and there.left[:1] == (here.member,)
            for (_, here), (_, there) in pairwise([*places, places[0]])
        )

    @property
    def are_units_settled(self) -> bool:
        """Whether events name units, and nothing is unknown of any."""
        return all(n.gateways.is_for_all and not n.statements.unknown for n in self._nodes)

    @property
    def unit_limit(self) -> int:
        """How many sub-units a unit may have."""
        return self._units.limit if self._units is not None else UNIT_LIMIT

    def rest(self, limit_s: float = REST_S) -> None:
        """Run until all that live are one ring.

        Raises:
            InvariantViolated: they are not in time.
        """
        end = self.timeline.now + nanos(limit_s)
        while not self.is_whole:
            if self.timeline.now >= end:
                raise InvariantViolated(f"the brokers are not one ring after {limit_s:g} s")
            self.run(0.1)

    def rest_units(self, calm: int = 1) -> None:
        """Go on until events name units, and nothing is unknown of any.

        ``calm``: so many looks in a row, 10 s apart, are to see that, and the same names. More than
        one sees to it that no change is to come: units may wait for half a minute with one.

        Raises:
            InvariantViolated: they do not settle.
        """
        names: list[int] = []
        seen = 0
        for _ in range(UNITS_LOOKS):
            self.run(UNITS_LOOK_S)
            before, names = names, [each.gateways.namings for each in self._nodes]
            if not self.are_units_settled:
                seen = 0
                continue
            seen = seen + 1 if names == before else 1
            if seen >= calm:
                return
        raise InvariantViolated("units have not settled")

    @property
    def counters(self) -> Counter[str]:
        """Of all brokers together."""
        return sum((broker.counters for broker in self.brokers.values()), Counter())

    def settle(self, before: Nanos) -> Nanos:
        """Judge and forget what was published before that time, or before an absence that lasts.

        Returns the time.
        """
        before = min(before, min(self._away.values(), default=before + AWAY_NS) - AWAY_NS)
        self.deliveries.settle(before)
        return before

    def finish(self, settle_s: float = SETTLE_S) -> Verdict:
        """Let publishers stop and the last events come; then judge.

        What broke the protocol, or keeps the ring from being whole, is among the findings.
        """
        for publisher in self.publishers:
            publisher.stop()
        self.run(settle_s)
        for uid in list(self._away):
            self._is_back(uid)
        self.deliveries.settle()
        verdict = self.deliveries.verdict(self.timeline.now)
        for uid, broker in self.brokers.items():
            errors = broker.links.protocol_errors + broker.sessions.protocol_errors
            verdict.findings += [f"{uid[:8]}: protocol error: {error}" for error in errors]
        for client in self.clients:
            verdict.findings += [f"{client.name}: {error}" for error in client.protocol_errors]
        return verdict

    def unit_findings(self) -> list[str]:
        """Return all that keeps the units from being in order; see :mod:`sims.verdicts.units`."""
        standing = ((node.ring.member, node.units) for node in self._nodes)
        return unit_findings(standing, self.unit_limit)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _pairs_apart(self) -> Iterator[tuple[str, str]]:
        for some, others in self._apart:
            yield from product(some, others)

    @property
    def _nodes(self) -> list[BrokerNode]:
        return [self.brokers[uid].node for uid in self.alive]

    def _grow(self, n: int) -> None:
        """Let the first broker found a ring, and others join it one after the other."""
        self.start(())
        while len(self.brokers) < n:
            self.start(self.uids)
            self.run(0.05)

    @staticmethod
    def url_of(uid: str) -> str:
        """Return where a broker listens, started or not."""
        return f"chordal://{uid[:12]}.test:9470"

    def _add(
        self,
        uid: str,
        incarnation: int,
        *,
        declared: bool = False,
        event_links: tuple[str, ...] = (),
        unit: UnitNames = (),
    ) -> WholeBroker:
        url = self.url_of(uid)
        units = self._units
        if unit:
            units = replace(units if units is not None else UnitsConfig(), names=unit)
        broker = self.brokers[uid] = WholeBroker(
            self.network,
            self.config,
            Peer(uid, incarnation, url, self.secure, declared),
            rng_for(self._seed, "node", uid, incarnation),
            on_fact=self._on_fact,
            on_sent=lambda about: self.on_sent(about),
            pace=self._pace,
            units=units,
            event_links=event_links,
        )
        self.network.add(broker)
        return broker

    def _client(self, uid: str, name: str, user: ClientUser) -> SimulatedClient:
        client = SimulatedClient(
            self.network,
            name,
            [self.brokers[uid].url],
            rng_for(self._seed, "client", name),
            user,
            secure=self.secure,
            keeps_alive=self._keeps_alive,
        )
        self.clients.append(client)
        return client

    def _on_fact(self, uid: str, fact: Fact) -> None:
        now = self.timeline.now
        self.facts.append((now, uid, fact))
        self.on_fact(uid, fact)
        if isinstance(fact, Rejoining):
            self._away.setdefault(uid, now)
        elif isinstance(fact, Joined):
            self.deliveries.on_joined(uid, now)
            self._is_back(uid)
        elif isinstance(fact, Left):
            for subscriber in self._subscribers:
                if subscriber.broker == uid:
                    self.deliveries.on_unserved(subscriber.name, now)

    def _is_back(self, uid: str) -> None:
        since = self._away.pop(uid, None)
        if since is not None:
            self.excuse(Why.AWAY, since - AWAY_NS, receivers=[uid])
            self.excuse(Why.AWAY, since - AWAY_NS, senders=[uid])
