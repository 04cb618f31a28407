"""Large overlays whose units are there from the beginning, instead of by one split after another.

Brokers that stand on the ring (:mod:`sims.world.warm`) are told tables in which each has a slot in
a cluster of 5/8 of the limit, as if a neighbour had answered them. All that follows from tables
(links told, statements, paths) comes about by the protocol itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

from ges.node import BrokerNode
from ges.wire.unit_messages import MemberRow, Members, MemberTable, UnitRow, UnitTable
from overlay.ids import Nanos
from overlay.machine import Input, MessageReceived
from overlay.wire.frames import PROTOCOL_VERSION
from ring.wire.messages import Member

EPOCH = 1000  #: later than what brokers have made of their own since they stand on the ring
SHARE = 5 / 8  #: of the limit: neither split nor folded

T = TypeVar("T")


class Tables(NamedTuple):
    """What a broker is to know."""

    uid: str
    units: tuple[UnitTable, ...]  #: of its contexts, from the top
    cluster: MemberTable


def laid_out(members: Sequence[Member], limit: int) -> Iterator[Tables]:
    """Yield for each broker the tables that it is to know.

    Args:
        members: of the ring, by their places.
        limit: how many sub-units a unit may have.
    """
    most = max(1, int(limit * SHARE))
    clusters = _divided(members, most)
    supers = _divided(clusters, most)
    tops = _divided(supers, most)
    highest = _table(3, [(top[0][0][0], len(top)) for top in tops], 0, 0, limit)
    for top, top_lo, top_hi in _arcs(tops, [top[0][0][0] for top in tops], 0, 0):
        upper = _table(2, [(each[0][0], len(each)) for each in top], top_lo, top_hi, limit)
        for middle, lo, hi in _arcs(top, [each[0][0] for each in top], top_lo, top_hi):
            lower = _table(1, [(each[0], len(each)) for each in middle], lo, hi, limit)
            units = highest, upper, lower
            for cluster, own_lo, own_hi in _arcs(middle, [each[0] for each in middle], lo, hi):
                rows = tuple(
                    MemberRow(slot, member, PROTOCOL_VERSION) for slot, member in enumerate(cluster)
                )
                first = cluster[0].uid
                table = MemberTable(EPOCH, first, rows, lo=own_lo, hi=own_hi)
                for member in cluster:
                    yield Tables(member.uid, units, table)


def settle_in(node: BrokerNode, tables: Tables, now: Nanos) -> Input:
    """Let a broker know the units around it; returns what it is to be told then.

    Where it stands first in a unit it would have its cluster folded, as small as that is until it
    knows the members. So nothing is folded for a while.
    """
    node.units.units_above.settle_in(tables.units, now)
    return MessageReceived(node.ring.right[0].uid, Members(tables.cluster))


def _divided(parts: Sequence[T], most: int) -> list[Sequence[T]]:
    count = math.ceil(len(parts) / most)
    edges = [at * len(parts) // count for at in range(count + 1)]
    return [parts[a:b] for a, b in pairwise(edges)]


def _arcs(
    parts: Sequence[T], firsts: Sequence[Member], lo: int, hi: int
) -> Iterator[tuple[T, int, int]]:
    """Yield each part with its arc; the first one begins where the context does."""
    ends = [*(first.ring_id for first in firsts[1:]), hi]
    begins = [lo, *ends[:-1]]
    yield from zip(parts, begins, ends, strict=True)


def _table(
    level: int, units: Sequence[tuple[Member, int]], lo: int, hi: int, limit: int
) -> UnitTable:
    """Return the table of a context; ``units``: the first broker of each, and its sub-units."""
    rows = tuple(
        UnitRow(number, first.ring_id if number else lo, size)
        for number, (first, size) in enumerate(units)
    )
    return UnitTable(level, EPOCH, units[0][0].uid, rows, lo, hi, limit)
