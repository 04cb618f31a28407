"""The statements that one broker holds."""

from __future__ import annotations

from msgspec.structs import replace

from ges.matching.asks import ask_for
from ges.statements.content import edges_above, minimal, stated
from ges.statements.held import MAX_EARLY, Statements
from ges.telling.arcs import Arc
from ges.units.nodes import Nodes, node_at
from ges.wire.matter import Matter
from ges.wire.realms import Realm
from ges.wire.statement_messages import (
    MAX_STATED,
    MAX_STATED_GROUPS,
    UnitEdge,
    UnitStatement,
)
from ges.wire.telling_messages import RowVersion
from overlay.ids import LinkClass

NORMAL, SECURE = LinkClass.NORMAL, LinkClass.SECURE
NEXT, FAR = node_at(1, 2), node_at(2, 5)
NODES = Nodes({1: 64, 2: 128, 3: 192}, {NEXT: Arc(100, 200), FAR: Arc(1000, 0)})


def said(lo: int, hi: int, *filters: str, level: int = 1, version: int = 1) -> UnitStatement:
    asks = tuple(ask_for(text) for text in filters)
    return UnitStatement(level, lo, hi, RowVersion(1, version, "a" * 32), asks, ())


def known() -> Statements:
    statements = Statements()
    statements.set_nodes(NODES, ())
    return statements


def test_a_unit_of_which_nothing_is_known_may_want_all() -> None:
    statements = known()
    assert statements.mask_of(Matter(NORMAL, b"t")) == 1 << NEXT | 1 << FAR
    assert statements.unknown == 1 << NEXT | 1 << FAR
    assert statements.take(said(100, 200, "a/#"))
    assert statements.mask_of(Matter(NORMAL, b"t")) == 1 << FAR
    assert statements.mask_of(Matter(NORMAL, b"a/b")) == 1 << NEXT | 1 << FAR


def test_only_levels_below_are_asked_where_an_event_comes_in() -> None:
    statements = known()
    assert statements.mask_of(Matter(NORMAL, b"t", 2)) == 1 << NEXT
    assert statements.mask_of(Matter(NORMAL, b"t", 1)) == 0


def test_the_later_statement_counts() -> None:
    statements = known()
    assert statements.take(said(100, 200, "a", version=2))
    assert not statements.take(said(100, 200, "b", version=1))
    assert statements.mask_of(Matter(NORMAL, b"b", 2)) == 0


def test_a_unit_says_that_brokers_wait_for_slots_in_it() -> None:
    statements = known()
    statements.take(said(100, 200, "a"))
    assert not statements.is_crowded
    calm, crowded = statements.get((1, Arc(100, 200))), said(100, 200, "a", version=2)
    assert not statements.note(crowded, calm), "links and slots are as they were"
    crowded = replace(crowded, is_crowded=True)
    assert statements.take(crowded)
    assert statements.is_crowded
    assert statements.note(crowded, calm), "parts that follow other units are to look again"
    statements.set_nodes(Nodes(), ())
    assert not statements.is_crowded


def test_a_statement_may_come_before_the_table_and_ends_with_its_unit() -> None:
    statements = Statements()
    statements.take(said(100, 200, "a"))
    statements.set_nodes(NODES, ())
    assert statements.mask_of(Matter(NORMAL, b"b", 2)) == 0
    split = Nodes(NODES.own, {NEXT: Arc(100, 150), node_at(1, 3): Arc(150, 200)})
    statements.set_nodes(split, ())
    assert statements.mask_of(Matter(NORMAL, b"b", 2)) == 1 << NEXT | 1 << node_at(1, 3)
    statements.set_nodes(NODES, ())
    assert statements.mask_of(Matter(NORMAL, b"b", 2)) == 1 << NEXT, (
        "what was said before is forgotten"
    )


def test_statements_of_units_that_are_in_no_table_are_few() -> None:
    statements = known()
    statements.take(said(100, 200, "a"))
    for lo in range(10_000, 10_100):
        statements.take(said(lo, lo + 1, "a"))
    kept = [lo for lo in range(10_000, 10_100) if statements.get((1, Arc(lo, lo + 1)))]
    assert kept == list(range(10_100 - MAX_EARLY, 10_100))
    assert statements.get((1, Arc(100, 200))) is not None


def test_what_is_stated_covers_all_and_is_bounded() -> None:
    assert minimal({ask_for("a/b"), ask_for("a/#"), ask_for("c")}) == {
        ask_for("a/#"),
        ask_for("c"),
    }
    many = [ask_for(f"a/{n}/b") for n in range(2 * MAX_STATED)]
    assert len(stated(many, 1)) <= MAX_STATED
    groups = [ask_for("a/b", group="g"), ask_for("a/b", group="h")]
    assert stated(groups, 1) == tuple(groups), "the source chooses a unit for each group"
    many = [ask_for("a/b", group=f"g{n:04}") for n in range(2 * MAX_STATED_GROUPS)]
    assert len(stated(many, 1)) == MAX_STATED_GROUPS
    assert stated([ask_for("a", realm=Realm.CLUSTER)], 1) == (), "it is told nobody"
    near = ask_for("a", realm=Realm.SUPER_CLUSTER)
    assert (stated([near], 1), stated([near], 2)) == ((near,), ())


def test_links_of_a_larger_unit_are_those_that_lead_out_of_it() -> None:
    edges = [
        UnitEdge(NEXT, NORMAL, 3, 1),
        UnitEdge(FAR, NORMAL, 5, 2),
        UnitEdge(FAR, NORMAL, 4, 1),
        UnitEdge(FAR, SECURE, 6, 1),
    ]
    assert edges_above(edges, 2) == (UnitEdge(FAR, NORMAL, 4, 3), UnitEdge(FAR, SECURE, 6, 1))
