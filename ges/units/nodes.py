"""The units that one broker can name: those beside its own, at each level.

For example, broker 0.2.5.9 can name brokers of cluster 0.2.5 by slot, other clusters of 0.2, other
super-clusters of 0, and other super-super-clusters. Each is a *node*: a number, 64 times its level
plus its number in the unit above. Cluster 0.2.7 is node 64 + 7, and super-cluster 0.4 is node
128 + 4. A set of nodes is a mask, as is one of slots (Grid Event Service protocols, section 3.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ges.telling.arcs import Arc
from ges.units.address import LEVELS, UNIT_LIMIT, Address, unpack_address
from ges.units.unit_rows import unit_arcs, unit_at
from ges.wire.unit_messages import UnitTable


def node_at(level: int, number: int) -> int:
    """Return the node of a unit."""
    return UNIT_LIMIT * level + number


def level_of(node: int) -> int:
    """Return the level of a node: 0 is a broker."""
    return node // UNIT_LIMIT


def name_of(node: int, address: Address) -> str:
    """Return a node as it is printed, such as ``0.0.2``; ``address``: of a broker that names it."""
    above = address.numbers[: LEVELS - 1 - level_of(node)]
    return ".".join(map(str, (*above, node % UNIT_LIMIT)))


def from_level(mask: int, level: int) -> int:
    """Return the nodes of a mask of that level and those above."""
    shift = UNIT_LIMIT * level
    return mask >> shift << shift


@dataclass(frozen=True, slots=True)
class Nodes:
    """The units above the cluster, as a broker at one place names them."""

    own: Mapping[int, int] = field(default_factory=dict)  #: by level: the node of its own unit
    arcs: Mapping[int, Arc] = field(default_factory=dict)  #: of all other units, by node

    @property
    def is_known(self) -> bool:
        """The tables of all levels are known."""
        return len(self.own) == LEVELS - 1

    @property
    def others(self) -> int:
        """All other units, as a mask."""
        return sum(1 << node for node in self.arcs)

    @property
    def own_units(self) -> int:
        """The broker's own units, as a mask."""
        return sum(1 << node for node in self.own.values())

    @property
    def above_clusters(self) -> Mapping[int, Arc]:
        """Other units that are larger than a cluster."""
        return {node: arc for node, arc in self.arcs.items() if level_of(node) > 1}

    def at(self, place: int) -> int | None:
        """Return the unit in which a place lies; None: in the broker's own cluster, or unknown."""
        # Arcs of one broker's nodes do not overlap, as each is beside one of its own units.
        return next((node for node, arc in self.arcs.items() if arc.holds(place)), None)

    def common_level(self, place: int) -> int:
        """Return the level of the smallest unit in which both the broker and a place are.

        Where the tables of units are not known yet, it is that of the whole overlay.
        """
        if not self.is_known:
            return LEVELS
        node = self.at(place) if self.arcs else None
        return 1 if node is None else level_of(node) + 1

    def towards(self, address: int, own_slot: int | None) -> int:
        """Return the node at which a packed address lies, as a mask; 0: unknown, or here."""
        found = unpack_address(address)
        for level in range(LEVELS - 1, 0, -1):
            node = node_at(level, found.at(level))
            if self.own.get(level) != node:
                return 1 << node if node in self.arcs else 0
        return 1 << found.slot if found.slot != own_slot else 0


def nodes_of(tables: Iterable[UnitTable], place: int | None) -> Nodes:
    """Return what a broker at a place sees by the tables of its contexts."""
    own: dict[int, int] = {}
    arcs: dict[int, Arc] = {}
    if place is None:
        return Nodes()
    for table in tables:
        found = unit_at(table, place)
        if found is None:
            continue
        own[table.level] = node_at(table.level, found[0].number)
        for row, arc in unit_arcs(table):
            if row.number != found[0].number:
                arcs[node_at(table.level, row.number)] = arc
    return Nodes(own, arcs)
