"""The statements of the units that one broker can name, and which of the units want a topic.

For example, cluster 0.0.2 has said that ``a/#`` is wanted there, and of cluster 0.0.3 nothing is
known: an event on ``a/x`` that is published in cluster 0.0.1 is for both. A statement is about an
arc. Once a unit is split or folded, what was said of it counts no more, and in doubt it wants all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator

import msgspec

from ges.profiles.group_index import Group
from ges.profiles.index import ProfileIndex
from ges.telling.arcs import Arc
from ges.units.address import LEVELS
from ges.units.nodes import Nodes, level_of
from ges.wire.matter import Matter
from ges.wire.statement_messages import (
    SecureHealth,
    StatementTaken,
    StatementVersion,
    UnitEdge,
    UnitStatement,
)
from overlay.circular import is_after
from overlay.ids import LinkClass

UNIT_LEVELS = range(1, LEVELS)
MAX_EARLY = 16  #: statements of units that are in no table here yet

_encode = msgspec.msgpack.Encoder().encode

#: The level and the arc of a unit.
Unit = tuple[int, Arc]


def unit_of(statement: UnitStatement | StatementTaken) -> Unit:
    """Return which unit a statement is about."""
    return statement.level, Arc(statement.lo, statement.hi)


def is_later(one: StatementVersion, other: StatementVersion) -> bool:
    """Say whether one of two statements about one unit counts, and not the other."""
    if one.epoch != other.epoch:
        return is_after(one.epoch, other.epoch)
    if one.count != other.count:
        return is_after(one.count, other.count)
    return one.steward > other.steward


class Statements:
    """What one broker holds."""

    def __init__(self) -> None:
        self.nodes = Nodes()
        self._changes = 0
        self._health_changes = 0
        self._by_health = dict.fromkeys(SecureHealth, 0)
        self._held: dict[Unit, UnitStatement] = {}
        self._indices = {level: ProfileIndex() for level in UNIT_LEVELS}
        self._current: dict[Unit, int] = {}  #: other units, and their nodes
        self._own: tuple[Unit, ...] = ()

    @property
    def changes(self) -> int:
        """A number that grows when edges or units change, or brokers wait for slots."""
        return self._changes

    @property
    def health_changes(self) -> int:
        """A number that grows when the secure part of a unit is in another state than before."""
        return self._health_changes

    def in_health(self, health: SecureHealth) -> int:
        """Return the other units whose secure part is in a state, as a mask."""
        return self._by_health[health]

    def get(self, unit: Unit) -> UnitStatement | None:
        """Return what is said of a unit; None: nothing is known."""
        return self._held.get(unit)

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
        return sum(1 << node for unit, node in self._current.items() if unit not in self._held)

    @property
    def is_crowded(self) -> bool:
        """In another unit brokers wait for slots."""
        held = (self._held.get(unit) for unit in self._current)
        return any(each.is_crowded for each in held if each is not None)

    @property
    def edges(self) -> Iterator[tuple[int, UnitEdge]]:
        """The links between other units, with the unit that has told of each."""
        for unit, node in self._current.items():
            statement = self._held.get(unit)
            for edge in statement.edges if statement is not None else ():
                yield node, edge

    def digest(self, level: int, own: Unit | None) -> int:
        """Return 63 bits that are equal where two brokers of a context hold the same of a level."""
        hashed = hashlib.blake2b(digest_size=8)
        for unit in sorted(self._of(level, own), key=lambda unit: unit[1].lo):
            found = self._held.get(unit)
            hashed.update(_encode((unit[1].lo, unit[1].hi, found.version if found else None)))
        return int.from_bytes(hashed.digest()) >> 1

    def of_level(self, level: int, own: Unit | None) -> list[UnitStatement]:
        """Return all that is held of the units of a level, this broker's own among them."""
        found = (self._held.get(unit) for unit in self._of(level, own))
        return [each for each in found if each is not None]

    def set_nodes(self, nodes: Nodes, own: Collection[Unit]) -> None:
        """These are the units that this broker can name now, and its ``own`` ones.

        What was said of units that are no more is forgotten: there may be one with that arc again.
        """
        self.nodes = nodes
        self._changes += 1
        before = {*self._current, *self._own}
        self._own = tuple(own)
        self._current = {(level_of(node), arc): node for node, arc in nodes.arcs.items()}
        for unit in before.difference(self._current, self._own):
            self._held.pop(unit, None)
        for unit in before.difference(self._current):
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
        unit = unit_of(statement)
        held = self._held.get(unit)
        if held is not None and not is_later(statement.version, held.version):
            return False
        self._held.pop(unit, None)
        self._held[unit] = statement
        early = [each for each in self._held if each not in self._current and each not in self._own]
        for each in early[:-MAX_EARLY]:
            del self._held[each]
        if unit in self._current:
            self._show(unit)
        told = statement.edges, statement.is_crowded
        if held is None or (held.edges, held.is_crowded) != told:
            self._changes += 1
        if held is None or held.secure != statement.secure:
            self._reckon_health()
        return True

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _of(self, level: int, own: Unit | None) -> list[Unit]:
        units = [unit for unit in self._current if unit[0] == level]
        return units if own is None else [*units, own]

    def _reckon_health(self) -> None:
        found = dict.fromkeys(SecureHealth, 0)
        for unit, node in self._current.items():
            if (held := self._held.get(unit)) is not None:
                found[held.secure] |= 1 << node
        if found != self._by_health:
            self._by_health = found
            self._health_changes += 1

    def _show(self, unit: Unit) -> None:
        index, held = self._indices[unit[0]], self._held.get(unit)
        index.replace(_key(unit), held.interests if held is not None else ())
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
