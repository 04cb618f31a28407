"""Whole brokers with clients: what a process runs, frames as bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from ges.units.planner import UnitsConfig
from ges.units.unit_names import UnitNames
from overlay.ids import NANOS_PER_SECOND, Nanos, nanos
from overlay.machine import Fact
from overlay.trace_schema import Why
from ring.config import RingConfig
from ring.facts import PutRecord
from sims.experiments.service import Service
from sims.scenarios.schema import Units
from sims.scenarios.stage import Sent
from sims.scenarios.units import names_of
from sims.verdicts.ledger import Ledger
from sims.verdicts.unit_repairs import Concerned, UnitRepairs, level_of
from sims.world.bandwidth import Bandwidth
from sims.world.conditions import Conditions
from sims.world.processes import Cut
from sims.world.warm_units import dealt
from sims.world.world import CrashMode, CutMode

#: How a cut link looks to whole brokers.
_CUTS = {CutMode.SILENT: Cut.SILENT, CutMode.BROKEN: Cut.BROKEN}
LOOK_NS = nanos(0.02)  #: between two looks at units after a death
MERGE_NS = nanos(10)  #: so long after a partition healed, events may not come to all


class WholeStage:
    """Whole brokers with clients: what a process runs, frames as bytes."""

    carries_events = True

    def __init__(
        self,
        seed: int,
        config: RingConfig,
        latency: Conditions,
        bandwidth: Bandwidth | None = None,
        *,
        secure: bool,
        units: Units | None = None,
    ) -> None:
        """``units``: how they come to be; None: as by themselves, and nobody looks at them."""
        limits = None if units is None else UnitsConfig(units.limit)
        self.service = Service(seed, config, secure=secure, latency=latency, units=limits)
        self.service.network.bandwidth = bandwidth
        self.timeline = self.service.timeline
        self.ledger = Ledger()
        self.on_fact: Callable[[str, Fact], None] = lambda uid, fact: None
        self.service.on_fact = self._hear
        self.service.on_sent = self.ledger.on_sent
        self._units = units
        self._named = () if units is None else names_of(units)
        self._wished: dict[str, UnitNames] = {}  #: by brokers that joined, by uid
        self._repairs = UnitRepairs()
        self._apart: list[tuple[list[str], list[str]]] = []
        self._since: Nanos = 0
        self._past: dict[str, Sent] = {}  #: what earlier processes of a broker have sent

    def count_traffic(self) -> None:
        """Count from now on what brokers send: they do so all the time."""

    def sent(self) -> dict[str, Sent]:
        """Return what each broker has sent, by uid, those that are dead among them."""
        found = {}
        for uid, broker in self.service.brokers.items():
            counters, past = broker.counters, self._past.get(uid, Sent())
            found[uid] = Sent(
                past.messages + counters["control_messages_sent"],
                past.bytes + broker.sent_bytes,
                past.forwarded + counters["events_forwarded"],
                past.delivered + counters["events_delivered"] + counters["events_replayed"],
            )
        return found

    @property
    def are_units_settled(self) -> bool:
        """Whether events name units, nothing is unknown of any, and their tables are in order."""
        return self.service.are_units_settled and not self.service.unit_findings()

    def settle(self, before: Nanos) -> Nanos:
        """Judge the events published before that time, or before a partition that lasts.

        Returns the time.
        """
        return self.service.settle(min(before, self._since - nanos(1)) if self._apart else before)

    @property
    def alive(self) -> list[str]:
        """Uids of the processes that run, in the order in which they came."""
        return self.service.alive

    def is_alive(self, uid: str) -> bool:
        """Say whether a broker's process runs."""
        return self.service.brokers[uid].alive

    @property
    def in_order(self) -> list[str]:
        """Uids of the members that live, going right on the ring."""
        rings = (self.service.brokers[uid].node.ring for uid in self.service.alive)
        members = [ring.member for ring in rings if ring.member is not None]
        return [member.uid for member in sorted(members, key=lambda member: member.ring_id)]

    def links(self) -> list[tuple[str, str]]:
        """Return the pairs of brokers that are linked, each once, in a fixed order."""
        alive = self.service.alive
        known = frozenset(alive)
        return sorted(
            (uid, other)
            for uid in alive
            for other in self.service.brokers[uid].node.ring.linked
            if uid < other and other in known
        )

    def link_counts(self) -> dict[str, int]:
        """Return of each broker that lives how many that live it is linked to."""
        counts = dict.fromkeys(self.alive, 0)
        for ends in self.links():
            for uid in ends:
                counts[uid] += 1
        return counts

    def begin(self, nodes: int) -> None:
        """Let there be a ring of so many brokers, without joins."""
        self.service.start_warm(nodes, self._named)
        if self._named:
            self._wished.update(zip(self.service.uids, dealt(nodes, self._named), strict=True))
        if self._units is not None:
            self.service.lay_out_units(levels=self._units.levels, named=self._named)

    def start(self, contacts: Sequence[str]) -> str:
        """Start a broker that joins through ``contacts``, or founds a ring; returns its uid."""
        count = len(self.service.brokers)
        wished = self._named[count % len(self._named)] if self._named else ()
        uid = self.service.start(contacts, unit=wished)
        self._wished[uid] = wished
        return uid

    def restart(self, uid: str, contacts: Sequence[str]) -> None:
        """Start a broker again that has died or left: the same uid, its next incarnation."""
        self._past[uid] = self.sent()[uid]
        self.service.start(contacts, uid, unit=self._wished.get(uid, ()))

    def put(self, uid: str, key: str, body: bytes) -> None:
        """Let a broker own a record."""
        self.service.give(uid, PutRecord(key, body))

    def kept(self, uid: str) -> frozenset[str]:
        """Return the keys of the records of which a broker has the bytes, its own among them."""
        return frozenset(self.service.brokers[uid].node.ring.kept)

    def crash(self, uid: str, mode: CrashMode) -> None:
        """Let a broker die now, without a word of its own."""
        node = self.service.brokers[uid].node
        level = None if self._units is None else level_of(node.units)
        self.ledger.on_crash(uid, len(node.ring.linked), self.timeline.now, level)
        self.service.kill(uid, mode)
        if level is not None and node.ring.member is not None:
            if not self._repairs:
                self.timeline.at(self.timeline.now + LOOK_NS, self._look_at_units)
            self._repairs.on_death(Concerned(node.ring.member, level))

    def leave(self, uid: str) -> None:
        """Ask a broker to leave in good order."""
        self.service.leave(uid)

    def pause(self, uid: str, for_ns: Nanos) -> None:
        """Let a broker stand still for so long."""
        self.service.freeze(uid, for_ns / NANOS_PER_SECOND)

    def skew(self, uid: str, rate: float) -> None:
        """Let the clock of a broker count so many seconds in one, until it is started again."""
        self.service.brokers[uid].skew(rate)

    def cut(self, uid: str, other: str, mode: CutMode, *, one_way: bool) -> None:
        """Let nothing pass between two brokers until :meth:`mend`."""
        brokers = self.service.brokers
        self.service.network.cut(brokers[uid], brokers[other], _CUTS[mode], one_way=one_way)

    def mend(self, uid: str, other: str) -> None:
        """End what :meth:`cut` began."""
        self.service.mend([uid], [other])

    def part(self, groups: Sequence[Sequence[str]]) -> None:
        """Let nothing pass between the groups until :meth:`heal`."""
        self.heal()
        self._since = self.timeline.now
        self._apart = list(_pairs(groups))
        for some, others in self._apart:
            self.service.cut(some, others)

    def heal(self) -> None:
        """End what :meth:`part` began."""
        apart, self._apart = self._apart, []
        for some, others in apart:
            self.service.mend(some, others)
            for here, there in ((some, others), (others, some)):
                until = self.timeline.now + MERGE_NS
                self.service.excuse(Why.APART, self._since - nanos(1), here, there, until)

    def _look_at_units(self) -> None:
        now, brokers = self.timeline.now, self.service.brokers
        living = {uid: brokers[uid].node.units for uid in self.service.alive}
        for concerned in self._repairs.ended(living):
            self.ledger.on_units_repaired(concerned.member, now)
        if self._repairs:
            self.timeline.at(now + LOOK_NS, self._look_at_units)

    def _hear(self, uid: str, fact: Fact) -> None:
        self.ledger.on_fact(uid, fact, self.timeline.now)
        self.service.facts.clear()  # they are not looked at, and would only grow
        self.on_fact(uid, fact)


def _pairs(groups: Sequence[Sequence[str]]) -> Iterator[tuple[list[str], list[str]]]:
    for at, some in enumerate(groups):
        others: Iterable[str] = (uid for group in groups[at + 1 :] for uid in group)
        yield list(some), list(others)
