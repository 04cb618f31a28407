"""Large overlays whose units are there from the beginning, instead of by one split after another.

Brokers that stand on the ring (:mod:`sims.world.warm`) are told tables in which each has a slot in
a cluster of 5/8 of the limit, as if a neighbour had answered them. All that follows from tables
(links told, statements, paths) comes about by the protocol itself. There may also be a number of
levels, or units with names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple, TypeVar

from ges.node import BrokerNode
from ges.telling.shared import pack_rows
from ges.units.steward import SMALL_LIMIT
from ges.units.unit_names import UnitNames, at_level
from ges.wire.telling_messages import Kind
from ges.wire.unit_messages import MemberRow, MemberTable, UnitRow, UnitTable
from overlay.ids import Nanos
from overlay.machine import Input, MessageReceived
from overlay.wire.frames import PROTOCOL_VERSION
from ring.wire.messages import Member

EPOCH = 1000  #: later than what brokers have made of their own since they stand on the ring
SHARE = 5 / 8  #: of the limit: neither split nor folded
TOP = 3  #: level of the units in the context that is all of the overlay

T = TypeVar("T")


class Tables(NamedTuple):
    """What a broker is to know."""

    uid: str
    units: tuple[UnitTable, ...]  #: of its contexts, from the top
    cluster: MemberTable


class Sizes(NamedTuple):
    """How many brokers there may be."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class _Unit:
    """A unit, and what is in it."""

    name: str
    members: Sequence[Member]  #: by their places
    inside: Sequence[_Unit] = ()  #: nothing in a cluster

    @property
    def size(self) -> int:
        """Return the number of its sub-units."""
        return len(self.inside) or len(self.members)


def laid_out(
    members: Sequence[Member],
    limit: int,
    *,
    levels: int | None = None,
    named: Sequence[UnitNames] = (),
) -> Iterator[Tables]:
    """Yield for each broker the tables that it is to know.

    Args:
        members: of the ring, by their places.
        limit: how many sub-units a unit may have.
        levels: on so many there are several units; None: on as few as there need to be. There must
            be as many members as :func:`sizes_of` says.
        named: names of units, over which brokers were :func:`dealt`.
    """
    if named:
        tops = _named([*zip(members, dealt(len(members), named), strict=True)], TOP, limit)
    elif levels is not None:
        tops = _levelled(members, TOP, levels, _bounds(limit))
    else:
        tops = _nameless(members, TOP, limit)
    yield from _told(tops, TOP, 0, 0, limit, ())


def dealt(n: int, named: Sequence[UnitNames]) -> list[UnitNames]:
    """Return the unit that each of ``n`` brokers is to be in, by their places: as many in each."""
    order = sorted(set(named))
    return [order[at * len(order) // n] for at in range(n)]


def sizes_of(limit: int, levels: int) -> Sizes:
    """Return how many brokers can be in so many levels of units, none to be split or folded."""
    few, many = _bounds(limit)
    return Sizes(2 * few * max(2, few) ** (levels - 1), many ** (levels + 1))


def settle_in(node: BrokerNode, tables: Tables, now: Nanos) -> Input:
    """Let a broker know the units around it, as all do; returns what it is to be told then.

    Where it stands first in a unit it would have its cluster folded, as small as that is until it
    knows the members. So nothing is folded for a while.
    """
    contexts = node.units.units_above
    contexts.settle_in(tables.units, now)
    for planner in contexts.planners.values():
        planner.held.note_taken(planner.held.digest)
    [rows] = pack_rows([(Kind.MEMBER_TABLE, tables.cluster)])
    return MessageReceived(node.ring.right[0].uid, rows)


def _bounds(limit: int) -> Sizes:
    """Return how many sub-units a unit has, at least and at most, that is to stay as it is."""
    return Sizes(int(limit * SHARE / 2) + 1, limit * 7 // 8 - 1 if limit >= SMALL_LIMIT else limit)


def _nameless(members: Sequence[Member], level: int, limit: int) -> Sequence[_Unit]:
    """Return units of a level: as few as there need to be of the levels below."""
    most = max(1, int(limit * SHARE))
    units: Sequence[_Unit] = [_Unit("", each) for each in _divided(members, most)]
    for _ in range(1, level):
        units = [_around("", inside) for inside in _divided(units, most)]
    return units


def _levelled(members: Sequence[Member], level: int, levels: int, each: Sizes) -> list[_Unit]:
    """Return units of a level; there are several from ``levels`` downwards."""
    count = 1
    if level <= levels:
        n = len(members)
        few = max(2, each.least)
        # Neighbours of few sub-units are folded; there are none of the highest units there are.
        least = max(2 if level == levels else few, math.ceil(n / each.most**level))
        most = min(each.most, n // (each.least * few ** (level - 1)))
        count = min(most, max(least, round(n ** (1 / (level + 1)))))
    parts = _parted(members, count)
    if level == 1:
        return [_Unit("", part) for part in parts]
    return [_around("", _levelled(part, level - 1, levels, each)) for part in parts]


def _named(members: Sequence[tuple[Member, UnitNames]], level: int, limit: int) -> Sequence[_Unit]:
    """Return the units of a level by their names; brokers without one are divided as ever."""
    found: list[_Unit] = []
    for name, each in groupby(members, key=lambda pair: at_level(pair[1], level)):
        inside = [*each]
        here = [member for member, _ in inside]
        if not name:
            found += _nameless(here, level, limit)
        elif level == 1:
            found.append(_Unit(name, here))
        else:
            found.append(_around(name, _named(inside, level - 1, limit)))
    return found


def _around(name: str, inside: Sequence[_Unit]) -> _Unit:
    return _Unit(name, [member for unit in inside for member in unit.members], inside)


def _divided(parts: Sequence[T], most: int) -> list[Sequence[T]]:
    return _parted(parts, math.ceil(len(parts) / most))


def _parted(parts: Sequence[T], count: int) -> list[Sequence[T]]:
    edges = [at * len(parts) // count for at in range(count + 1)]
    return [parts[a:b] for a, b in pairwise(edges)]


def _told(
    units: Sequence[_Unit], level: int, lo: int, hi: int, limit: int, above: tuple[UnitTable, ...]
) -> Iterator[Tables]:
    """Yield the tables of the brokers of one context, which begins where its first unit does."""
    firsts = [unit.members[0] for unit in units]
    begins = [lo, *(first.ring_id for first in firsts[1:])]
    rows = tuple(
        UnitRow(number, begin, unit.size, unit.name)
        for number, (unit, begin) in enumerate(zip(units, begins, strict=True))
    )
    tables = (*above, UnitTable(level, EPOCH, firsts[0].uid, rows, lo, hi, limit))
    for unit, own_lo, own_hi in zip(units, begins, [*begins[1:], hi], strict=True):
        if level > 1:
            yield from _told(unit.inside, level - 1, own_lo, own_hi, limit, tables)
            continue
        slots = tuple(
            MemberRow(slot, member, PROTOCOL_VERSION) for slot, member in enumerate(unit.members)
        )
        cluster = MemberTable(EPOCH, unit.members[0].uid, slots, lo=own_lo, hi=own_hi)
        yield from (Tables(member.uid, tables, cluster) for member in unit.members)
