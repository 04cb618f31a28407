"""What a statement says: made from the brokers of a cluster, or from the units of a larger unit.

For example, in a cluster of three somebody wants ``a/b``, somebody ``a/#`` and somebody ``c``. The
statement has ``a/#`` and ``c``. A super-cluster's is made in the same way, from the statements of
its clusters. So a subscription changes statements only as far up as nothing covers it yet (Grid
Event Service protocols, section 3.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ges.gateways.link_state import LinkStates
from ges.matching.asks import order, size_of
from ges.profiles.covering import CoverTree
from ges.profiles.merging import merge
from ges.units.nodes import level_of
from ges.wire.asked import Ask
from ges.wire.statement_messages import (
    MAX_EDGES,
    MAX_STATED,
    MAX_STATED_BYTES,
    MAX_STATED_GROUPS,
    MAX_STATED_GROUPS_BYTES,
    SecureHealth,
    UnitEdge,
)
from overlay.ids import LinkClass

#: Numbers of links that are told apart. One more than eight concerns nobody outside, and each
#: change of a statement is told to all brokers of the context.
COUNTS: tuple[int, ...] = (*range(1, 9), *(1 << power for power in range(4, 17)))


class Content(NamedTuple):
    """What is said of a unit."""

    wanted: tuple[Ask, ...]
    edges: tuple[UnitEdge, ...]  #: its links to others
    secure: SecureHealth
    is_crowded: bool = False  #: brokers in it wait for slots


def stated(asks: Iterable[Ask], level: int) -> tuple[Ask, ...]:
    """Return the fewest asks that cover these; wider ones where that is still too much.

    ``level``: of the unit that states them. Those that are kept to such a unit are told nobody.

    Queue groups are stated as they are, since one that covers another is another one.
    """
    found = minimal({each for each in asks if each.realm > level})
    groups = sorted((each for each in found if each.group is not None), key=order)
    found.difference_update(groups)
    found.update(_first_groups(groups))
    size = sum(map(size_of, found))
    if len(found) > MAX_STATED or size > MAX_STATED_BYTES:
        wider = merge(found, MAX_STATED * 3 // 4, MAX_STATED_BYTES * 3 // 4)
        found = minimal(found | wider)
    return tuple(sorted(found, key=order))


def _first_groups(groups: Iterable[Ask]) -> Iterator[Ask]:
    """Yield as many as a statement may have."""
    size = 0
    for number, group in enumerate(groups):
        size += size_of(group)
        if number == MAX_STATED_GROUPS or size > MAX_STATED_GROUPS_BYTES:
            return
        yield group


def is_full(asks: Iterable[Ask], group: Ask) -> bool:
    """Say whether a statement of these has no room for one more queue group."""
    sizes = [size_of(each) for each in asks if each.group is not None]
    too_many = len(sizes) >= MAX_STATED_GROUPS
    return too_many or sum(sizes) + size_of(group) > MAX_STATED_GROUPS_BYTES


def tree_of(asks: Iterable[Ask]) -> CoverTree:
    """Return asks as a tree that knows what covers what."""
    tree = CoverTree()
    for ask in asks:
        tree.add(ask)
    return tree


def minimal(asks: set[Ask]) -> set[Ask]:
    """Return those that no other one covers."""
    tree = tree_of(asks)
    return {each for each in asks if next(tree.covering(each), None) is None}


def cluster_edges(states: LinkStates, members: Iterable[str]) -> tuple[UnitEdge, ...]:
    """Return the links that the members of a cluster have to other units."""
    found = (states.get(uid) for uid in members)
    return _edges(
        UnitEdge(gate.node, gate.link_class, gate.bucket, gate.count)
        for state in found
        if state is not None
        for gate in state.gates
    )


def edges_above(edges: Iterable[UnitEdge], level: int) -> tuple[UnitEdge, ...]:
    """Return the links of a unit of a level to others, from those of its parts."""
    return _edges(edge for edge in edges if level_of(edge.node) >= level)


def _edges(edges: Iterable[UnitEdge]) -> tuple[UnitEdge, ...]:
    buckets: dict[tuple[int, LinkClass], int] = {}
    counts: Counter[tuple[int, LinkClass]] = Counter()
    for edge in edges:
        key = edge.node, edge.link_class
        buckets[key] = min(edge.bucket, buckets.get(key, edge.bucket))
        counts[key] += edge.count
    found = (UnitEdge(*key, buckets[key], told_count(counts[key])) for key in sorted(buckets))
    return tuple(found)[:MAX_EDGES]


def told_count(count: int) -> int:
    """Return the number of links that is told: the largest of :data:`COUNTS` that there are."""
    return max(each for each in COUNTS if each <= count)
