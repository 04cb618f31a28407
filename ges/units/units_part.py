"""The part of a broker's machine that knows its units: addresses, and what all members are told.

Other parts tell things to all members of the cluster by ``spread``, and have what they hold
compared by ``comparison``; ``members`` says who they are. ``table`` and ``tables`` say which units
there are above (:mod:`ges.units.contexts`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set

from ges.telling.arcs import Arc
from ges.telling.changes import Change, Changes
from ges.telling.part import MessageHandler, Part, earliest
from ges.telling.shared import Asking, Sharing
from ges.telling.spread import Surroundings
from ges.units.address import Address, in_cluster
from ges.units.contexts import Contexts
from ges.units.facts import Addressed, Unaddressed
from ges.units.membership import Membership
from ges.units.nodes import Nodes, nodes_of
from ges.units.office import AnyTable
from ges.units.placement import Placement
from ges.units.planner import UnitsConfig
from ges.units.relocating import Relocating
from ges.units.steward import Steward
from ges.units.table import ClusterTable
from ges.units.unit_names import UnitNames
from ges.units.unit_rows import unit_at
from ges.units.view import LinkedRing, View
from ges.units.whole_tables import ComparedTable, WholeTables
from ges.wire.relocation_messages import Relocate, Relocated
from ges.wire.status import ContextStatus, UnitStatus
from ges.wire.telling_messages import Held, Kind, Rows, RowsWanted, TellTaken, Told
from ges.wire.unit_messages import (
    MemberChange,
    MemberLost,
    MemberRow,
    MemberTable,
    SlotWanted,
    StewardHandover,
    UnitHandover,
    UnitReport,
    UnitRow,
    UnitTable,
)
from overlay.ids import Nanos, Peer
from overlay.machine import (
    Effect,
    Fact,
    LinkDown,
    LinkRefused,
    LinkUp,
    Message,
    Notify,
)
from overlay.multigraph.weights import LinkKey
from ring.facts import Confirmed, Departed, Move

#: What is told of these changes tables here.
TABLES = frozenset((Kind.MEMBERS, Kind.CLUSTERS, Kind.SUPER_CLUSTERS, Kind.SUPER_SUPER_CLUSTERS))


class UnitsPart(Part):
    """The cluster, as one broker takes part in it."""

    def __init__(
        self,
        ring: LinkedRing,
        normal: Mapping[str, Peer],
        changes: Changes,
        config: UnitsConfig | None = None,
    ) -> None:
        """``normal``: who has normal links to here, by uid, as it is now."""
        self._changes = changes
        self._table = ClusterTable(changes)
        self._view = View(ring, normal, self._table)
        self.sharing = Sharing(self._view, lambda: self._table.arc)
        self.spread, self.comparison = self.sharing.spread, self.sharing.comparison
        telling = self.spread, self.comparison
        tables = WholeTables(self._all_tables, lambda: self._contexts.taken)
        asking = Asking(Kind.TABLES, tables)
        self.sharing.answer(asking)
        self._steward = Steward(self._view, self._table, self.spread)
        self._membership = Membership(
            self._view, self._table, self._steward, *telling, asking.on_differs
        )
        self.spread.register(Kind.MEMBERS, MemberChange, self._membership.on_change)
        self.spread.register(Kind.MEMBER_TABLE, MemberTable, self._membership.on_table)
        self.comparison.register(Kind.MEMBERS, ComparedTable(self._table, asking))
        config = config or UnitsConfig()
        self._ring = ring
        self._contexts = contexts = Contexts(
            self._view, self._table, self._steward, *telling, asking, config, changes
        )
        self.placement = Placement(
            self._view, contexts, self._table, self._steward, config, changes
        )
        self.relocating = Relocating(self._view, contexts, self._table, self._membership)
        self.placement.aims = self.relocating.aim
        ring.be_guided(self.placement)
        self._deadlines = (
            self.spread.next_deadline,
            self.comparison.next_deadline,
            self._steward.next_deadline,
            self._membership.next_deadline,
            contexts.next_deadline,
            self.placement.next_deadline,
            self.relocating.next_deadline,
            self._table.lingers_until,
        )
        self._address: Address | None = None
        self._address_of: tuple[int | None, tuple[int, ...] | None] = (None, None)
        self._nodes: Nodes | None = None
        self._nodes_of: tuple[tuple[UnitTable, ...], int | None] = ((), None)
        self._told: Address | None = None
        self._is_without = False  #: and that has been told

    # ── what others see ───────────────────────────────────────────────────────────────────────

    @property
    def address(self) -> Address | None:
        """This broker's address; None: it has none, or is not on the ring."""
        key = self.slot, self._contexts.numbers
        if key != self._address_of:  # asked for after each input
            self._address_of = key
            self._address = self.address_of(key[0]) if key[0] is not None else None
        return self._address

    def address_of(self, slot: int) -> Address | None:
        """Return the address of a member of the cluster; None: that of the cluster is unknown."""
        cluster = self.cluster
        return in_cluster(slot, cluster) if cluster is not None else None

    @property
    def cluster(self) -> tuple[int, int, int] | None:
        """The numbers of this broker's cluster and the units around it, from the top."""
        numbers = self._contexts.numbers
        if numbers is None:
            return None
        d, c, b = numbers
        return d, c, b

    @property
    def slot(self) -> int | None:
        """The slot of this broker; None: it has none, or is not on the ring."""
        row = self._table.live.get(self._view.peer.uid)
        return row.slot if row is not None and self._view.member is not None else None

    @property
    def is_for_all(self) -> bool:
        """All brokers are one cluster, and each has a slot or gets one at once."""
        return self._table.is_for_all and self._contexts.is_single

    @property
    def is_crowded(self) -> bool:
        """In this cluster brokers wait for slots, or nobody knows whether any do."""
        return not self._table.is_for_all

    # ── the units above ───────────────────────────────────────────────────────────────────────

    @property
    def units_above(self) -> Contexts:
        """The tables of units, and what this broker does for them."""
        return self._contexts

    @property
    def is_single(self) -> bool:
        """All brokers are one cluster."""
        return self._contexts.is_single

    @property
    def nodes(self) -> Nodes:
        """The units that this broker can name, as they are now."""
        member = self._view.member
        key = self._contexts.tables, member.ring_id if member is not None else None
        if self._nodes is None or self._nodes_of != key:
            nodes, self._nodes_of = nodes_of(*key), key
            if nodes != self._nodes:  # else a table says the same once more
                self._nodes = nodes
        return self._nodes

    @property
    def are_taken(self) -> bool:
        """All brokers of the contexts hold the same tables of units as this one."""
        return self._contexts.are_taken

    @property
    def arc(self) -> Arc:
        """The arc of this broker's cluster."""
        return self._table.arc

    @property
    def limit(self) -> int:
        """How many sub-units a unit may have."""
        return self._table.limit

    @property
    def tables(self) -> Mapping[int, UnitTable]:
        """The tables of this broker's own contexts, by the level of the units in them, 1 to 3."""
        return {table.level: table for table in self._contexts.tables}

    @property
    def contexts(self) -> tuple[ContextStatus, ...]:
        """The tables that this broker holds, as it tells of them."""
        found = [
            ContextStatus(
                held.level,
                held.table.lo,
                held.table.hi,
                held.table.epoch,
                held.table.steward,
                held.digest,
                tuple(
                    UnitStatus(row.number, row.lo, row.size, row.name) for row in held.table.rows
                ),
            )
            for held in (planner.held for planner in self._contexts.planners.values())
            if held.table is not None
        ]
        table = self._table.table
        if table is not None:
            found.append(
                ContextStatus(0, table.lo, table.hi, table.epoch, table.steward, self.digest)
            )
        return tuple(found)

    @property
    def names(self) -> UnitNames:
        """Of the units in which this broker stands, from the top; none: they have no names."""
        return self.placement.standing or ()

    def unit_of(self, ring_id: int, level: int) -> UnitRow | None:
        """Return the unit of a level in which a place lies; None: in another context."""
        table = self._contexts.table(level)
        found = unit_at(table, ring_id) if table is not None else None
        return found[0] if found is not None else None

    def is_steward_of(self, level: int) -> bool:
        """Say whether this broker is steward of its unit of a level, 1 (its cluster) to 4 (all)."""
        if level == 1:
            return self._steward.is_in_office
        return self._contexts.planners[level - 1].office.is_in_office

    def on_relocated(self, uid: str, relocated: Relocated, now: Nanos) -> list[Effect]:
        """A broker that was linked to here has moved with its whole unit."""
        self._changes.mark(Change.HEARD)
        return self.relocating.on_relocated(uid, relocated, now)

    # ── the cluster ───────────────────────────────────────────────────────────────────────────

    @property
    def around(self) -> Surroundings:
        """What this broker sees of the ring and the cluster."""
        return self._view

    def is_gone(self, uid: str) -> bool:
        """Say whether a broker was seen to die or leave, and is not linked again."""
        return uid in self._view.gone

    @property
    def members(self) -> Mapping[str, MemberRow]:
        """Members of the cluster by uid, this broker among them."""
        return self._table.live

    @property
    def steward(self) -> str | None:
        """Uid of the broker that has made the table; None before there is one."""
        return self._table.steward

    @property
    def digest(self) -> int:
        """Of the table of members; the same at all at rest, 0 before there is one."""
        return self._table.digest

    @property
    def counters(self) -> Counter[str]:
        """What has befallen this broker so far."""
        return self.spread.counters + self.comparison.counters + self._membership.counters

    # ── as a part ─────────────────────────────────────────────────────────────────────────────

    @property
    def messages(self) -> Mapping[type[Message], MessageHandler]:
        """Tables and slots, what all are told, and digests."""
        return {
            Told: self._on_told,
            TellTaken: self._on_taken,
            Held: self._on_held,
            RowsWanted: self._on_rows_wanted,
            Rows: self._on_rows,
            SlotWanted: self._on_slot_wanted,
            MemberLost: self._on_member_lost,
            StewardHandover: self._on_handover,
            UnitHandover: self._on_unit_handover,
            UnitReport: self._on_unit_report,
            Relocate: self._on_relocate,
        }

    def on_link(self, event: LinkUp | LinkDown | LinkRefused, now: Nanos) -> list[Effect]:
        """Somebody is linked, or no more."""
        if isinstance(event, LinkUp):
            self._view.note_there(event.peer.uid)
        return []

    def on_fact(self, fact: Fact, now: Nanos) -> list[Effect]:
        """Wait no more for those that are gone."""
        match fact:
            case Confirmed(gone) | Departed(gone):
                self._view.note_gone(gone.uid)
                self._table.let_go(gone.uid)
                return self.spread.strike((gone.uid,), now)
        return []

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Do what has come due."""
        due = self.next_deadline()
        if due is None or due > now:
            return []
        self._changes.mark(Change.HEARD)
        effects = self.spread.strike(self._table.end_lingering(now), now)
        effects += self.spread.handle_timers(now)
        effects += self.comparison.handle_timers(now)
        effects += self._steward.handle_timers(now)
        told, why = self.relocating.handle_timers(now)
        effects += told
        if why is None and not self.relocating.is_under_way:
            why = self.placement.moves(now)
        return effects if why is None else [*effects, *self._ring.handle(Move(why), now)]

    def next_deadline(self) -> Nanos | None:
        """Return when something is due next, or None."""
        return earliest(self._deadlines)

    def settle(self, changed: Set[Change], now: Nanos) -> list[Effect]:
        """Follow the ring: who is steward, who is missing, and whether there is a slot for us."""
        made = self.placement.take()
        self.comparison.set_neighbours(self._view.neighbours, now)
        effects = made + self.relocating.follow(now)
        effects += self._contexts.follow(now)
        effects += self._steward.follow(now)
        effects += self._membership.follow(now)
        effects += self._contexts.report(now)
        effects += self.placement.follow(now)
        if self.relocating.mail:
            self._changes.mark(Change.MAIL)
        return [*effects, *self._tell_address()]

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _all_tables(self) -> tuple[AnyTable, ...]:
        members = self._table.table
        return (*self._contexts.tables, *((members,) if members is not None else ()))

    def _tell_address(self) -> list[Effect]:
        address = self.address
        if address is not None:
            self._is_without = False
            before, self._told = self._told, address
            return [Notify(Addressed(address, before))] if address != before else []
        is_out = self._view.member is not None and self._table.is_full and self.slot is None
        if not is_out or self._is_without:
            return []
        self._is_without = True
        before, self._told = self._told, None
        return [Notify(Unaddressed(len(self._table.live), before))]

    def _on_told(self, key: LinkKey, told: Told, now: Nanos) -> list[Effect]:
        if told.kind in TABLES:
            self._changes.mark(Change.HEARD)
        return self.spread.on_told(key[0], told, now)

    def _on_taken(self, key: LinkKey, taken: TellTaken, now: Nanos) -> list[Effect]:
        return self.spread.on_taken(key[0], taken, now)

    def _on_held(self, key: LinkKey, held: Held, now: Nanos) -> list[Effect]:
        return self.comparison.on_held(key[0], held, now)

    def _on_rows_wanted(self, key: LinkKey, wanted: RowsWanted, now: Nanos) -> list[Effect]:
        return self.sharing.on_wanted(key[0], wanted, now)

    def _on_rows(self, key: LinkKey, rows: Rows, now: Nanos) -> list[Effect]:
        self._changes.mark(Change.HEARD)
        return self.sharing.on_rows(key[0], rows, now)

    def _on_unit_handover(self, key: LinkKey, handover: UnitHandover, now: Nanos) -> list[Effect]:
        self._changes.mark(Change.HEARD)
        return self._contexts.on_handover(key[0], handover, now)

    def _on_unit_report(self, key: LinkKey, report: UnitReport, now: Nanos) -> list[Effect]:
        self._changes.mark(Change.HEARD)
        return self._contexts.on_report(report, now)

    def _on_relocate(self, key: LinkKey, relocate: Relocate, now: Nanos) -> list[Effect]:
        self._changes.mark(Change.HEARD)
        return self.relocating.on_relocate(relocate, now)

    def _on_slot_wanted(self, key: LinkKey, wanted: SlotWanted, now: Nanos) -> list[Effect]:
        return self._membership.on_slot_wanted(wanted, now)

    def _on_member_lost(self, key: LinkKey, lost: MemberLost, now: Nanos) -> list[Effect]:
        return self._membership.on_member_lost(lost, now)

    def _on_handover(self, key: LinkKey, handover: StewardHandover, now: Nanos) -> list[Effect]:
        self._changes.mark(Change.HEARD)
        return self._membership.on_handover(key[0], handover, now)
