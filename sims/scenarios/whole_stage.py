"""Whole brokers with clients: what a process runs, frames as bytes."""

from __future__ import annotations

from collections.abc import Sequence

from ges.units.planner import UnitsConfig
from ges.units.unit_names import UnitNames
from overlay.ids import Nanos, nanos
from overlay.machine import Fact
from overlay.trace_schema import Why
from ring.config import RingConfig
from sims.experiments.service import Service
from sims.scenarios.schema import Units
from sims.scenarios.stage import Sent
from sims.scenarios.units import names_of
from sims.verdicts.ledger import Ledger
from sims.verdicts.unit_repairs import Concerned, UnitRepairs, level_of
from sims.world.bandwidth import Bandwidth
from sims.world.conditions import Conditions
from sims.world.cuts import Cut
from sims.world.world import CrashMode

LOOK_NS = nanos(0.02)  #: between two looks at units after a death
MERGE_NS = nanos(10)  #: so long after a partition healed, events may not come to all


class WholeStage(Service):
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
        super().__init__(seed, config, secure=secure, latency=latency, units=limits)
        self.network.bandwidth = bandwidth
        self.ledger = Ledger()
        self.on_sent = self.ledger.on_sent
        self._planned = units
        self._named = () if units is None else names_of(units)
        self._repairs = UnitRepairs()
        self._since: Nanos = 0
        self._past: dict[str, Sent] = {}  #: what earlier processes of a broker have sent

    def count_traffic(self) -> None:
        """Count from now on what brokers send: they do so all the time."""

    def sent(self) -> dict[str, Sent]:
        """Return what each broker has sent, by uid, those that are dead among them."""
        found = {}
        for uid, broker in self.brokers.items():
            counters, past = broker.counters, self._past.get(uid, Sent())
            found[uid] = Sent(
                past.messages + counters["control_messages_sent"],
                past.bytes + broker.sent_bytes,
                past.forwarded + counters["events_forwarded"],
                past.delivered + counters["events_delivered"] + counters["events_replayed"],
            )
        return found

    @property
    def are_units_in_order(self) -> bool:
        """Whether events name units, nothing is unknown of any, and their tables are in order."""
        return self.are_units_settled and not self.unit_findings()

    def settle(self, before: Nanos) -> Nanos:
        """Judge the events published before that time, or before a partition that lasts.

        Returns the time.
        """
        return super().settle(min(before, self._since - nanos(1)) if self._apart else before)

    def begin(self, nodes: int) -> None:
        """Let there be a ring of so many brokers, without joins."""
        self.start_warm(nodes, self._named)
        if self._planned is not None:
            self.lay_out_units(levels=self._planned.levels, named=self._named)

    def start(
        self,
        contacts: Sequence[str],
        uid: str | None = None,
        *,
        declared: bool = False,
        event_links: Sequence[str] = (),
        unit: UnitNames = (),
    ) -> str:
        """Start a broker; see :meth:`Service.start`. Units are dealt out in the order of starts."""
        if uid is None and self._named:
            unit = self._named[len(self.brokers) % len(self._named)]
        return super().start(contacts, uid, declared=declared, event_links=event_links, unit=unit)

    def restart(self, uid: str, contacts: Sequence[str]) -> None:
        """Start a broker again that has died or left: the same uid, its next incarnation."""
        self._past[uid] = self.sent()[uid]
        super().restart(uid, contacts)

    def crash(self, uid: str, mode: CrashMode) -> None:
        """Let a broker die now, without a word of its own."""
        node = self.brokers[uid].node
        level = None if self._planned is None else level_of(node.units)
        self.ledger.on_crash(uid, len(node.ring.linked), self.timeline.now, level)
        super().crash(uid, mode)
        if level is not None and node.ring.member is not None:
            if not self._repairs:
                self.timeline.at(self.timeline.now + LOOK_NS, self._look_at_units)
            self._repairs.on_death(Concerned(node.ring.member, level))

    def part(self, groups: Sequence[Sequence[str]], mode: Cut = Cut.SILENT) -> None:
        """Let nothing pass between brokers of different groups until :meth:`heal`."""
        super().part(groups, mode)
        self._since = self.timeline.now

    def heal(self) -> None:
        """End what :meth:`part` began; what had left by then, and soon after, need not come."""
        until = self.timeline.now + MERGE_NS
        for some, others in self._apart:
            for here, there in ((some, others), (others, some)):
                self.excuse(Why.APART, self._since - nanos(1), here, there, until)
        super().heal()

    def _look_at_units(self) -> None:
        now = self.timeline.now
        living = {uid: self.brokers[uid].node.units for uid in self.alive}
        for concerned in self._repairs.ended(living):
            self.ledger.on_units_repaired(concerned.member, now)
        if self._repairs:
            self.timeline.at(now + LOOK_NS, self._look_at_units)

    def _on_fact(self, uid: str, fact: Fact) -> None:
        self.ledger.on_fact(uid, fact, self.timeline.now)
        super()._on_fact(uid, fact)
        self.facts.clear()  # they are not looked at, and would only grow
