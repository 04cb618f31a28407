"""Which units a broker can name, and by which nodes."""

from __future__ import annotations

from ges.telling.arcs import Arc
from ges.units.address import Address
from ges.units.nodes import Nodes, from_level, level_of, node_at, nodes_of
from ges.wire.unit_messages import UnitRow, UnitTable

STEWARD = "0" * 32
#: Two super-clusters: 0 from place 0, with clusters 0 and 3; and 1 from place 1000.
SUPER_CLUSTERS = UnitTable(2, 1, STEWARD, (UnitRow(0, 0), UnitRow(1, 1000)), 0, 0, 64)
CLUSTERS = UnitTable(1, 1, STEWARD, (UnitRow(0, 0), UnitRow(3, 400)), 0, 1000, 64)
TOP = UnitTable(3, 1, STEWARD, (UnitRow(0, 0),), 0, 0, 64)
HERE = 500  #: in cluster 0.0.3


def here() -> Nodes:
    return nodes_of((TOP, SUPER_CLUSTERS, CLUSTERS), HERE)


def test_own_units_and_those_beside_them() -> None:
    nodes = here()
    assert nodes.own == {3: node_at(3, 0), 2: node_at(2, 0), 1: node_at(1, 3)}
    assert nodes.arcs == {node_at(2, 1): Arc(1000, 0), node_at(1, 0): Arc(0, 400)}
    assert nodes.is_known
    assert nodes.others == 1 << 64 | 1 << 129
    assert nodes.own_units == 1 << 67 | 1 << 128 | 1 << 192


def test_each_place_lies_in_one_unit_that_can_be_named_or_in_the_own_cluster() -> None:
    nodes = here()
    assert [nodes.at(place) for place in (0, 399, 400, 999, 1000, 2**32 - 1)] == [
        64,
        64,
        None,
        None,
        129,
        129,
    ]


def test_an_address_lies_at_the_highest_unit_that_is_another() -> None:
    nodes, slot = here(), 7
    assert nodes.towards(Address((0, 1, 5, 2)).packed, slot) == 1 << 129
    assert nodes.towards(Address((0, 0, 0, 2)).packed, slot) == 1 << 64
    assert nodes.towards(Address((0, 0, 3, 2)).packed, slot) == 1 << 2
    assert nodes.towards(Address((0, 0, 3, 7)).packed, slot) == 0, "it is here"
    assert nodes.towards(Address((0, 2, 0, 0)).packed, slot) == 0, "there is no such unit"


def test_without_a_place_or_tables_nothing_can_be_named() -> None:
    assert nodes_of((TOP, SUPER_CLUSTERS, CLUSTERS), None) == Nodes()
    assert not nodes_of((TOP,), HERE).is_known


def test_levels_of_nodes() -> None:
    assert [level_of(node) for node in (0, 63, 64, 191, 192)] == [0, 0, 1, 2, 3]
    assert from_level(0b11 | 1 << 64 | 1 << 130, 1) == 1 << 64 | 1 << 130
    assert from_level(0b11 | 1 << 64 | 1 << 130, 2) == 1 << 130
