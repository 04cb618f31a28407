"""The part of a broker's machine that makes the statements of its units, and takes those of others.

The steward of a cluster states what is wanted in there and which links lead to other units; all
brokers of the super-cluster are told. From these statements the steward of the super-cluster makes
one of its own, for all of the super-super-cluster, and so on. A statement is told again until all
have taken it. Then the unit is told that it is *taken*.

A subscription is active in its cluster when all members have acknowledged it. It is active in the
super-cluster when the statement of the cluster covers it, and is taken; and so on, up to the whole
system. So it goes as far up as nothing covers it yet, and no broker counts who asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Set
from dataclasses import dataclass
from typing import Generic, TypeVar

from ges.gateways.gateways_part import GatewaysPart
from ges.matching.asks import everything
from ges.profiles.covering import CoverTree
from ges.profiles.profiles_part import ProfilesPart
from ges.statements.content import Content, cluster_edges, edges_above, is_full, stated, tree_of
from ges.statements.health import cluster_health, unit_health, wants_secure
from ges.statements.held import UNIT_LEVELS, Statements, Unit, unit_of
from ges.telling.arcs import Arc
from ges.telling.changes import Change, Changes
from ges.telling.part import Part
from ges.telling.shared import SharedTable
from ges.units.nodes import from_level, node_at
from ges.units.unit_rows import unit_arcs
from ges.units.units_part import UnitsPart
from ges.wire.asked import Ask
from ges.wire.client_messages import Level
from ges.wire.statement_messages import (
    SecureHealth,
    StatementTaken,
    UnitStatement,
)
from ges.wire.telling_messages import Kind, RowVersion
from ges.wire.unit_messages import UnitTable
from overlay.circular import following, is_after
from overlay.ids import Nanos, nanos
from overlay.machine import Effect, Fact, Notify

GATHER_NS = nanos(0.03)  #: changes are stated together after this
PAUSE_NS = nanos(0.25)  #: between two statements of one unit
AGAIN_NS = nanos(5.0)  #: a statement that not all have taken is told again

K = TypeVar("K", bound=Hashable)

#: After these there may be something else to state of a unit.
_OF_CONTENT = frozenset((Change.PLACE, Change.BESIDE, Change.MEMBERS, Change.UNITS))
_OF_CONTENT |= {Change.STATES, Change.ASKS, Change.SAID}


@dataclass(frozen=True, slots=True)
class ActiveIn(Fact, Generic[K]):
    """These subscriptions are active in the unit of a level: the keys that they were given."""

    level: Level
    keys: tuple[K, ...]


@dataclass(slots=True)
class _Waiting:
    """A subscription that is active in the cluster, and not in the whole system yet."""

    ask: Ask
    level: int = 0  #: the one that was told last


@dataclass(slots=True)
class _Stated:
    """What this broker has stated as steward of a unit."""

    content: Content
    version: RowVersion
    told_at: Nanos
    is_taken: bool = False


class StatementsPart(Part):
    """The statements of one broker's contexts."""

    def __init__(
        self,
        uid: str,
        units: UnitsPart,
        gateways: GatewaysPart,
        profiles: ProfilesPart,
        statements: Statements,
        changes: Changes,
    ) -> None:
        self.statements = statements
        self._uid = uid
        self._units = units
        self._gateways = gateways
        self._profiles = profiles
        self._stated: dict[Unit, _Stated] = {}
        self._taken: dict[Unit, RowVersion] = {}  #: of own units: what all others hold
        self._covering: dict[Unit, tuple[RowVersion, CoverTree]] = {}  #: what that covers
        self._waiting: dict[Hashable, _Waiting] = {}
        self._changes = changes
        self._due: Nanos | None = None
        self._shared = {
            level: SharedTable(
                units.sharing,
                Kind.STATEMENTS + level - 1,
                UnitStatement,
                table,
                self._on_news,
                arc=self._context_of(level),
            )
            for level, table in statements.tables.items()
        }
        units.spread.register(Kind.STATEMENT_TAKEN, StatementTaken, self._on_taken)

    # ── as a part ─────────────────────────────────────────────────────────────────────────────

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """State what has changed, or tell it again."""
        if self._due is None or self._due > now:
            return []
        self._due = None
        return self._state(now)

    def next_deadline(self) -> Nanos | None:
        """Return when something is to be stated, or None."""
        return self._due

    def settle(self, changed: Set[Change], now: Nanos) -> list[Effect]:
        """Follow the units, and subscriptions that are active in the cluster now.

        See later whether there is something new to be stated.
        """
        nodes = self._units.nodes
        has_changed = nodes is not self.statements.nodes
        if has_changed:
            self.statements.set_nodes(nodes, self._own_units())
            self._units.comparison.touch(now)
            self._changes.mark(Change.OUTER)
        effects = self._follow_active()
        if has_changed:
            effects += self._look_active(self._waiting)
        if nodes.arcs and (has_changed or changed & _OF_CONTENT):
            self._look_by(now + GATHER_NS)
        return effects

    def health(self, level: int) -> SecureHealth:
        """Return how the secure part of this broker's own unit of a level is, as it knows."""
        if level > 1:
            found = self._parts(level)
            if found is None:
                return self.health(level - 1)
            known = {node: each for node, each in found.items() if each is not None}
            return unit_health(known, level, has_others=self._has_others(level))
        members, index = self._units.members, self._profiles.index
        holders = {uid for uid, row in members.items() if row.member.peer.secure}
        slots = {uid: row.slot for uid, row in members.items()}
        wanting = {
            uid
            for uid in holders
            if index.unknown >> slots[uid] & 1 or wants_secure(index.asks_of(uid))
        }
        states, others = self._gateways.states, self._has_others(1)
        return cluster_health(states, slots, holders, wanting, has_others=others)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _own(self, level: int) -> Unit | None:
        """Return this broker's own unit of a level, if there are others beside it."""
        table = self._units.tables.get(level)
        node = self._units.nodes.own.get(level)
        if table is None or node is None or len(table.rows) == 1:
            return None
        return next(
            ((level, arc) for row, arc in unit_arcs(table) if row.number == node - 64 * level), None
        )

    def _own_units(self) -> list[Unit]:
        """Return this broker's own units that have others beside them."""
        return [unit for level in UNIT_LEVELS if (unit := self._own(level)) is not None]

    def _table(self, level: int) -> UnitTable | None:
        return self._units.tables.get(level)

    def _context_of(self, level: int) -> Callable[[], Arc]:
        def arc() -> Arc:
            table = self._table(level)
            return Arc(table.lo, table.hi) if table is not None else Arc(0, 0)

        return arc

    def _look_by(self, at: Nanos) -> None:
        self._due = at if self._due is None else min(self._due, at)

    def _state(self, now: Nanos) -> list[Effect]:
        """State anew what this broker is steward of."""
        effects: list[Effect] = []
        for level in UNIT_LEVELS:
            own = self._own(level)
            if own is None or not self._units.is_steward_of(level):
                continue
            effects += self._state_unit(level, own, now)
        current = self._own_units()
        self._stated = {unit: each for unit, each in self._stated.items() if unit in current}
        self._taken = {unit: each for unit, each in self._taken.items() if unit in current}
        self._covering = {unit: each for unit, each in self._covering.items() if unit in current}
        return effects

    def _state_unit(self, level: int, own: Unit, now: Nanos) -> list[Effect]:
        held, stated = self.statements.get(own), self._stated.get(own)
        content = self._content(level, was_crowded=held is not None and held.is_crowded)
        is_held = (
            held is not None
            and stated is not None
            and held.version == stated.version
            and stated.content == content
        )
        if stated is not None and (not is_held or not stated.is_taken):
            at = stated.told_at + (AGAIN_NS if is_held else PAUSE_NS)
            if now < at:
                self._look_by(at)
                return []
        if is_held and stated is not None and stated.is_taken:
            return []
        _, arc = own
        version = stated.version if is_held and stated is not None else self._next(level, held)
        statement = UnitStatement(level, arc.lo, arc.hi, version, *content)
        self._stated[own] = _Stated(content, version, now)
        self.statements.take(statement)
        self._changes.mark(Change.SAID)  # the unit above may have something to state now
        self._look_by(now + AGAIN_NS)

        def on_done(missing: frozenset[str], now: Nanos) -> list[Effect]:
            latest = self._stated.get(own)
            if missing or latest is None or latest.version != version:
                return []
            latest.is_taken = True
            taken = StatementTaken(level, arc.lo, arc.hi, version)
            self._taken[own] = version
            told = self._units.spread.tell(Kind.STATEMENT_TAKEN, taken, now, arc=arc)
            return [*told, *self._look_active(self._waiting)]

        context = self._context_of(level)()
        return self._shared[level].tell(statement, now, on_done, arc=context, whole=True)

    def _next(self, level: int, held: UnitStatement | None) -> RowVersion:
        """Return a version that counts, whatever has been said of the unit before."""
        table = self._table(level)
        assert table is not None, "it says which unit is the own one"
        epoch, count = table.epoch, 1
        if held is not None and not is_after(epoch, held.version.epoch):
            epoch, count = held.version.epoch, following(held.version.count)
        return RowVersion(epoch, count, self._uid)

    def _content(self, level: int, *, was_crowded: bool) -> Content:
        """Return what is to be said of this broker's own unit of a level.

        ``was_crowded``: the statement before said that brokers in the unit wait for slots. This one
        repeats it until each unit inside has stated whether brokers wait there: units form anew
        just while brokers wait.
        """
        if level == 1:
            members = self._units.members
            index = self._profiles.index
            wanted = {each for uid in members for each in index.asks_of(uid)}
            if index.unknown:  # of a member that has come from another unit with subscriptions
                wanted |= {*self._before()} if self._gateways.is_at_rest else {everything()}
            edges = cluster_edges(self._gateways.states, members)
            return Content(stated(wanted, level), edges, self.health(1), self._units.is_crowded)
        found = self._parts(level)
        if found is None:
            inner = self._content(level - 1, was_crowded=was_crowded)
            edges = edges_above(inner.edges, level)
            return inner._replace(wanted=stated(inner.wanted, level), edges=edges)
        known = [each for each in found.values() if each is not None]
        edges = edges_above((edge for part in known for edge in part.edges), level)
        wanted = {each for part in known for each in part.asks}
        is_crowded = any(each.is_crowded for each in known)
        if len(known) < len(found):
            wanted = {everything()}
            is_crowded |= was_crowded
        return Content(stated(wanted, level), edges, self.health(level), is_crowded)

    def _before(self) -> Collection[Ask]:
        """Return what was stated of this broker's cluster before: it may hold still."""
        own = self._own(1)
        held = self.statements.get(own) if own is not None else None
        return held.asks if held is not None else ()

    def _parts(self, level: int) -> dict[int, UnitStatement | None] | None:
        """Return what is said of the units in the own one, by node; None: there is only one."""
        table = self._table(level - 1)
        if table is None or len(table.rows) == 1:
            return None
        return {
            node_at(level - 1, row.number): self.statements.get((level - 1, arc))
            for row, arc in unit_arcs(table)
        }

    def _has_others(self, level: int) -> bool:
        """Say whether there are other units, of a level or above."""
        return bool(from_level(self._units.nodes.others, level))

    def _follow_active(self) -> list[Effect]:
        """Subscriptions are active in the cluster: follow them further up."""
        active = self._profiles.take_active()
        if not active:
            return []
        asks = self._profiles.exchange.asks_by_key
        fresh = {key: _Waiting(asks[key]) for key in active if key in asks}
        self._waiting |= fresh
        return self._look_active(fresh)

    def _look_active(self, waiting: Mapping[Hashable, _Waiting]) -> list[Effect]:
        """Say how far these subscriptions are active now, and forget those that end."""
        if not waiting:
            return []
        own = {level: self._own(level) for level in UNIT_LEVELS}
        asks = self._profiles.exchange.asks_by_key
        reached: dict[Level, list[Hashable]] = {}
        over: list[Hashable] = []
        for key, each in waiting.items():
            if key not in asks:
                over.append(key)
            elif (level := self._active_in(own, each.ask)) > each.level:
                each.level = level
                reached.setdefault(level, []).append(key)
        for key in (*over, *reached.get(Level.SYSTEM, ())):
            del self._waiting[key]
        return [Notify(ActiveIn(level, tuple(keys))) for level, keys in sorted(reached.items())]

    def _active_in(self, own: Mapping[int, Unit | None], ask: Ask) -> Level:
        """Return how far one is active that all of the cluster have acknowledged.

        ``own``: the units that this broker is in, by level, where there are others beside them.
        """
        for level in UNIT_LEVELS[: ask.realm - 1]:
            unit = own[level]
            if unit is not None and not self._is_covered(unit, ask):
                return Level(level)
        return Level.SYSTEM

    def _is_covered(self, unit: Unit, ask: Ask) -> bool:
        """Say whether all of the context know that something is wanted in a unit."""
        held = self.statements.get(unit)
        if held is None or self._taken.get(unit) != held.version:
            return False
        version, tree = self._covering.get(unit, (None, CoverTree()))
        if version != held.version:
            tree = tree_of(held.asks)
            self._covering[unit] = held.version, tree
        if ask in tree or next(tree.covering(ask), None) is not None:
            return True
        # A group that a full statement has no room for is active: it gets what is published inside.
        return ask.group is not None and is_full(held.asks, ask)

    # ── what others say ───────────────────────────────────────────────────────────────────────

    def _on_news(self, statement: UnitStatement, before: UnitStatement | None, now: Nanos) -> None:
        if self.statements.note(statement, before):
            self._changes.mark(Change.OUTER)
        self._changes.mark(Change.SAID)

    def _on_taken(self, taken: StatementTaken, uid: str, now: Nanos) -> tuple[bool, list[Effect]]:
        self._taken[unit_of(taken)] = taken.version
        while len(self._taken) > 4 * len(UNIT_LEVELS):
            del self._taken[next(iter(self._taken))]
        return True, self._look_active(self._waiting)
