"""The part of a broker's machine that watches for lost connections between units.

When links or units have changed, it looks at them each second until they are the same twice: a
broker that has died is known to be dead by then, both ends of a link have told that it is gone, and
their units have stated it. Then it compares what there is with what there was when it judged last
(:mod:`ges.gateways.losses`). A link that is back by then was not lost.

All brokers of a context see a loss between two units of it, so one loss is told in the log of each.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Set
from dataclasses import dataclass
from typing import Protocol

from ges.gateways.connections import claims_of, connections
from ges.gateways.gateways_part import GatewaysPart, OuterEdges
from ges.gateways.losses import Connections, Loss, Severity, cut_off, losses
from ges.telling.changes import Change
from ges.telling.part import Part
from ges.units.address import LEVELS
from ges.units.nodes import name_of, node_at
from ges.units.unit_rows import unit_arcs
from ges.units.units_part import UnitsPart
from overlay.ids import Nanos, nanos
from overlay.machine import Effect, Fact, Notify

LOOK_NS = nanos(1.0)  #: between two looks at what has changed; the same twice is judged
PATIENCE_NS = nanos(20.0)  #: where changes go on for longer than this, they are judged all the same
RECENT = 16  #: losses kept to be told


@dataclass(frozen=True, slots=True)
class GatewayLost(Fact):
    """Two units of one level have fewer links between them than before."""

    level: int  #: of the units: 0 for brokers of one cluster, 1 for clusters, and so on
    units: tuple[str, str]  #: as they are printed, such as ``0.0.2``; of brokers the addresses
    severity: Severity
    left: int  #: links that still join the two


class OuterUnits(OuterEdges, Protocol):
    """What other units have told; a :class:`ges.statements.held.Statements`."""

    @property
    def unknown(self) -> int:
        """Other units of which nothing is known, as a mask."""


class LossesPart(Part):
    """The lost connections that one broker sees."""

    def __init__(self, units: UnitsPart, gateways: GatewaysPart, outer: OuterUnits) -> None:
        self.recent: deque[tuple[Nanos, GatewayLost]] = deque(maxlen=RECENT)  #: oldest first
        self.counts: Counter[tuple[int, Severity]] = Counter()  #: by level and severity
        self.counters: Counter[str] = Counter()  #: the same by severity alone
        #: By level, the units beside this broker's own to which no path led at the last look.
        self.cut_off: dict[int, int] = dict.fromkeys(range(LEVELS), 0)
        self._units = units
        self._gateways = gateways
        self._outer = outer
        self._before: Connections | None = None  #: what was judged last
        self._looked: Connections | None = None  #: what there was at the last look since
        self._since: Nanos = 0  #: when something changed first that is not judged yet
        self._due: Nanos | None = None

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Look at what has changed, and judge it once it is at rest."""
        if self._due is None or self._due > now:
            return []
        self._due = now + LOOK_NS
        if not self._is_known:
            self._looked = None
            return []
        found = self._look()
        if found != self._looked and now < self._since + PATIENCE_NS:
            self._looked = found
            return []
        self._due = self._looked = None
        before, self._before = self._before, found
        own = {0: self._gateways.slot, **found.own}
        self.cut_off |= {n: cut_off(found, at) for n, at in own.items() if at is not None}
        facts = [self._told(loss) for loss in losses(before, found)] if before is not None else []
        self.recent.extend((now, fact) for fact in facts)
        for fact in facts:
            self.counts[fact.level, fact.severity] += 1
            self.counters[f"gateways_lost_{fact.severity.value}"] += 1
        return [Notify(fact) for fact in facts]

    def next_deadline(self) -> Nanos | None:
        """Return when to look, or None."""
        return self._due

    def settle(self, changed: Set[Change], now: Nanos) -> list[Effect]:
        """Look at links and units soon."""
        if self._due is None:
            self._since, self._due = now, now + LOOK_NS
        return []

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    @property
    def _is_known(self) -> bool:
        """This broker has an address, and knows all units of its contexts."""
        gateways = self._gateways
        is_named = self._units.address is not None and self._units.nodes.is_known
        return is_named and gateways.is_at_rest and not self._outer.unknown

    def _look(self) -> Connections:
        units, slots = self._units, self._gateways.slots
        names: dict[int, Hashable] = {slot: uid for uid, slot in slots.items()}
        for level, table in units.tables.items():
            names |= {node_at(level, row.number): arc for row, arc in unit_arcs(table)}
        claims = claims_of(units.nodes.arcs, self._outer.edges, self._outer.unknown)
        return connections(self._gateways.states, slots, units.nodes.own, names, claims)

    def _told(self, loss: Loss) -> GatewayLost:
        address = self._units.address
        assert address is not None, "it is known who is compared"
        units = name_of(loss.a, address), name_of(loss.b, address)
        return GatewayLost(loss.level, units, loss.severity, loss.left)
