"""The statements of the units that one broker can name, and which of the units want a topic.

For example, cluster 0.0.2 has said that ``a/#`` is wanted there, and of cluster 0.0.3 nothing is
known: an event on ``a/x`` that is published in cluster 0.0.1 is for both. A statement is about an
arc. Once a unit is split or folded, what was said of it counts no more, and in doubt it wants all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ges.profiles.group_index import Group
from ges.profiles.index import ProfileIndex
from ges.telling.arcs import Arc
from ges.telling.shared import Table
from ges.units.address import LEVELS
from ges.units.nodes import Nodes, level_of
from ges.wire.matter import Matter
from ges.wire.statement_messages import (
    SecureHealth,
    StatementTaken,
    UnitEdge,
    UnitStatement,
)
from overlay.ids import LinkClass

UNIT_LEVELS = range(1, LEVELS)
MAX_EARLY = 16  #: statements of units of one level that are in no table here yet

#: The level and the arc of a unit.
Unit = tuple[int, Arc]


def unit_of(statement: UnitStatement | StatementTaken) -> Unit:
    """Return which unit a statement is about."""
    return statement.level, Arc(statement.lo, statement.hi)


class Statements:
    """What one broker holds."""

    def __init__(self) -> None:
        self.nodes = Nodes()
        self._health_changes = 0
        self._by_health = dict.fromkeys(SecureHealth, 0)
        #: By level of the units; a row of each unit.
        self.tables: Mapping[int, Table[UnitStatement]] = {
            level: Table(_key_of, lambda row: row.version, MAX_EARLY) for level in UNIT_LEVELS
        }
        self._indices = {level: ProfileIndex() for level in UNIT_LEVELS}
        self._current: dict[Unit, int] = {}  #: other units, and their nodes

    @property
    def health_changes(self) -> int:
        """A number that grows when the secure part of a unit is in another state than before."""
        return self._health_changes

    def in_health(self, health: SecureHealth) -> int:
        """Return the other units whose secure part is in a state, as a mask."""
        return self._by_health[health]

    def get(self, unit: Unit) -> UnitStatement | None:
        """Return what is said of a unit; None: nothing is known."""
        return self.tables[unit[0]].get(_key(unit))

    def mask_of(self, matter: Matter) -> int:
        """Return the other units that want an event, as far as it goes, as a mask."""
        found = 0
        if self._current:
            for level in range(1, matter.below):
                found |= self._indices[level].mask_of(_from_beyond(matter, level)) << 64 * level
        return self._able(matter.link_class, found)

    def groups_of(self, matter: Matter) -> Iterator[Group]:
        """Yield the queue groups in other units that want an event, as far as it goes."""
        if self._current:
            for level in range(1, matter.below):
                yield from self._indices[level].groups.of(_from_beyond(matter, level))

    def group_mask(self, link_class: LinkClass, key: int, below: int = LEVELS) -> int:
        """Return the other units of these levels that have members of a group, as a mask."""
        found = 0
        if self._current:
            for level in range(1, below):
                found |= self._indices[level].groups.mask(link_class, key) << 64 * level
        return self._able(link_class, found)

    def _able(self, link_class: LinkClass, found: int) -> int:
        """Leave out the units in which nobody can take events of a class."""
        if link_class.is_secret:
            found &= ~self._by_health[SecureHealth.NONE]
        return found

    @property
    def unknown(self) -> int:
        """Other units of which nothing is known, as a mask."""
        return sum(1 << node for unit, node in self._current.items() if self.get(unit) is None)

    @property
    def is_crowded(self) -> bool:
        """In another unit brokers wait for slots."""
        held = (self.get(unit) for unit in self._current)
        return any(each.is_crowded for each in held if each is not None)

    @property
    def edges(self) -> Iterator[tuple[int, UnitEdge]]:
        """The links between other units, with the unit that has told of each."""
        for unit, node in self._current.items():
            statement = self.get(unit)
            for edge in statement.edges if statement is not None else ():
                yield node, edge

    def set_nodes(self, nodes: Nodes, own: Collection[Unit]) -> None:
        """These are the units that this broker can name now, and its ``own`` ones.

        What was said of units that are no more is forgotten: there may be one with that arc again.
        """
        self.nodes = nodes
        before = self._current
        self._current = {(level_of(node), arc): node for node, arc in nodes.arcs.items()}
        for level, table in self.tables.items():
            table.follow(_key(unit) for unit in (*self._current, *own) if unit[0] == level)
        for unit in before.keys() - self._current.keys():
            self._hide(unit)
        for level, index in self._indices.items():
            slots = {
                _key(unit): node - 64 * level
                for unit, node in self._current.items()
                if unit[0] == level
            }
            index.set_slots(slots)
        for unit in self._current:
            self._show(unit)
        self._reckon_health()

    def take(self, statement: UnitStatement) -> bool:
        """Hold a statement if it is later than what is held; says whether it is."""
        before = self.get(unit_of(statement))
        is_later = self.tables[statement.level].take_row(statement)
        if is_later:
            self.note(statement, before)
        return is_later

    def note(self, statement: UnitStatement, held: UnitStatement | None) -> bool:
        """A statement counts from now on, in place of what was ``held``.

        Returns whether the links of another unit have changed, or whether brokers wait there.
        """
        unit = unit_of(statement)
        if unit in self._current:
            self._show(unit)
        if held is None or held.secure != statement.secure:
            self._reckon_health()
        told = statement.edges, statement.is_crowded
        is_other = held is None or (held.edges, held.is_crowded) != told
        return is_other and unit in self._current

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _reckon_health(self) -> None:
        found = dict.fromkeys(SecureHealth, 0)
        for unit, node in self._current.items():
            if (held := self.get(unit)) is not None:
                found[held.secure] |= 1 << node
        if found != self._by_health:
            self._by_health = found
            self._health_changes += 1

    def _show(self, unit: Unit) -> None:
        index, held = self._indices[unit[0]], self.get(unit)
        index.replace(_key(unit), held.asks if held is not None else ())
        index.set_behind(_key(unit), held is None)

    def _hide(self, unit: Unit) -> None:
        index = self._indices[unit[0]]
        index.replace(_key(unit), ())
        index.set_behind(_key(unit), is_behind=False)


def _key(unit: Unit) -> str:
    return f"{unit[1].lo}-{unit[1].hi}"


def _from_beyond(matter: Matter, level: int) -> Matter:
    """Return an event as another unit of a level sees it: it comes from beyond that unit."""
    return matter if matter.common > level else matter._replace(common=level + 1)


def _key_of(statement: UnitStatement) -> str:
    return _key(unit_of(statement))
