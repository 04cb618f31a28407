"""How the secure part of a unit is, from what its members and its units tell."""

from __future__ import annotations

import pytest

from ges.gateways.link_state import LinkStates
from ges.matching.asks import ask_for
from ges.statements.health import cluster_health, unit_health
from ges.statements.held import Statements
from ges.telling.arcs import Arc
from ges.units.nodes import Nodes, node_at
from ges.wire.gateway_messages import LinkState, StateGate, StateLink
from ges.wire.matter import Matter
from ges.wire.statement_messages import SecureHealth, UnitEdge, UnitStatement
from ges.wire.telling_messages import RowVersion
from overlay.ids import LinkClass

NONE, WHOLE, BROKEN = SecureHealth.NONE, SecureHealth.WHOLE, SecureHealth.BROKEN
NORMAL, SECURE = LinkClass.NORMAL, LinkClass.SECURE
FAR = node_at(1, 5)


def cluster(
    links: str, gates: str, *, wanting: str, holders: str = "abcd", has_others: bool = True
) -> SecureHealth:
    """``links``: pairs of members with secure links, such as ``ab bc``; all have normal ones."""
    states = LinkStates("nobody")
    pairs = [set(pair) for pair in links.split()]
    for slot, uid in enumerate("abcd"):
        secure = [o for o in "abcd" if {uid, o} in pairs and o != uid]
        told = [StateLink(o, NORMAL, 0) for o in "abcd" if o != uid]
        told += [StateLink(o, SECURE, 0) for o in secure]
        open_to = [StateGate(FAR, NORMAL, 0)]
        open_to += [StateGate(FAR, SECURE, 0)] if uid in gates else []
        states.table.take_row(LinkState(uid, slot, 1, 1, tuple(told), tuple(open_to)))
    members = dict(zip("abcd", range(4), strict=True))
    return cluster_health(states, members, {*holders}, {*wanting}, has_others=has_others)


@pytest.mark.parametrize(
    ("health", "links", "gates", "wanting", "holders"),
    [
        (NONE, "", "", "", ""),
        (WHOLE, "ab bc cd", "a", "abcd", "abcd"),
        (WHOLE, "ab bc cd", "ad", "bc", "abcd"),
        (BROKEN, "ab cd", "a", "abcd", "abcd"),
        (WHOLE, "ab cd", "a", "b", "abcd"),  # nobody beyond the gap wants any
        (BROKEN, "ab cd", "ac", "b", "abcd"),  # what comes in by c does not get to b
        (BROKEN, "ab bc", "", "a", "abcd"),  # no secure gate leads out
        (WHOLE, "ab bc", "", "", "abcd"),
        (WHOLE, "", "a", "a", "abcd"),
        (BROKEN, "ab bc cd", "a", "ad", "abd"),  # who holds no identity passes nothing on
        (WHOLE, "ab", "a", "abcd", "ab"),  # nor does it get any
    ],
)
def test_a_cluster(
    health: SecureHealth, links: str, gates: str, wanting: str, holders: str
) -> None:
    assert cluster(links, gates, wanting=wanting, holders=holders) is health


def test_a_cluster_that_is_all_of_the_overlay_needs_no_gate() -> None:
    assert cluster("ab bc cd", "", wanting="abcd", has_others=False) is WHOLE
    assert cluster("ab cd", "", wanting="ac", has_others=False) is BROKEN


def part(
    number: int, health: SecureHealth, *to: int, wants: bool = True, link_class: LinkClass = SECURE
) -> tuple[int, UnitStatement]:
    asks = (ask_for("t", None if wants else NORMAL),)
    edges = tuple(UnitEdge(node, link_class, 0, 1) for node in to)
    version = RowVersion(1, 1, "a" * 32)
    lo = 100 * number
    statement = UnitStatement(1, lo, lo + 100, version, asks, edges, health)
    return node_at(1, number), statement


UP = node_at(2, 7)
A, B, C = (node_at(1, number) for number in range(3))


@pytest.mark.parametrize(
    ("health", "parts"),
    [
        (NONE, [part(0, NONE, B), part(1, NONE)]),
        (WHOLE, [part(0, WHOLE, B, UP), part(1, WHOLE, A)]),
        (WHOLE, [part(0, WHOLE, B, UP), part(1, WHOLE, A), part(2, NONE)]),
        (BROKEN, [part(0, WHOLE, B, UP), part(1, BROKEN, A)]),
        (WHOLE, [part(0, WHOLE, B, UP), part(1, BROKEN, A, wants=False)]),
        (BROKEN, [part(0, WHOLE, UP), part(1, WHOLE)]),
        (BROKEN, [part(0, WHOLE, B), part(1, WHOLE, A)]),
        (BROKEN, [part(0, WHOLE, B, UP), part(1, BROKEN, A, C, wants=False), part(2, WHOLE, B)]),
        (WHOLE, [part(0, WHOLE, B, UP), part(1, WHOLE, A, C, wants=False), part(2, WHOLE, B)]),
        (BROKEN, [part(0, WHOLE, UP), part(1, WHOLE, A, link_class=NORMAL)]),
    ],
)
def test_a_super_cluster(health: SecureHealth, parts: list[tuple[int, UnitStatement]]) -> None:
    assert unit_health(dict(parts), 2, has_others=True) is health


def test_a_unit_that_holds_no_identity_wants_no_secure_event() -> None:
    statements = Statements()
    arcs = {node_at(1, number): Arc(100 * number, 100 * number + 100) for number in (1, 2, 3)}
    statements.set_nodes(Nodes({1: 64, 2: 128, 3: 192}, arcs), ())
    for each in (part(1, NONE), part(2, WHOLE), part(3, BROKEN)):
        assert statements.take(each[1])
    assert statements.mask_of(Matter(SECURE, b"t")) == 1 << node_at(1, 2) | 1 << node_at(1, 3)
    assert statements.mask_of(Matter(NORMAL, b"t")) == sum(1 << node for node in arcs)
    assert statements.in_health(BROKEN) == 1 << node_at(1, 3)
    changes = statements.health_changes
    later = RowVersion(1, 2, "a" * 32)
    _, again = part(3, WHOLE)
    assert statements.take(UnitStatement(1, 300, 400, later, again.asks, (), WHOLE))
    assert statements.in_health(BROKEN) == 0
    assert statements.health_changes == changes + 1
