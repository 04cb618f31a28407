"""Links to other units: which of them events take."""

from __future__ import annotations

from ges.gateways.gates import Gates
from ges.gateways.lasting import LASTED_NS, Lasting
from overlay.ids import LinkClass
from overlay.multigraph.weights import LinkKey

NORMAL = LinkClass.NORMAL
COSTS = {"a": 5, "b": 3, "c": 4}


def bucket_of(key: LinkKey, before: int | None) -> int:
    return COSTS[key[0]]


def links(*uids: str) -> list[tuple[int, LinkKey]]:
    return [(71, (uid, NORMAL)) for uid in uids]


def test_events_take_the_cheapest_link() -> None:
    gates = Gates()
    gates.update(links("a", "b", "c"), bucket_of)
    assert gates.first(71, NORMAL) == "b"
    assert gates.first(71, NORMAL, without="b") == "c"
    assert [(gate.bucket, gate.count) for gate in gates.told] == [(3, 3)]


def test_a_fresh_link_is_taken_only_where_there_is_no_other() -> None:
    """A newcomer may have no slot yet, and what goes over it to its unit would wait there."""
    gates = Gates()
    gates.update(links("a", "b"), bucket_of, fresh={"b"})
    assert gates.first(71, NORMAL) == "a"
    assert gates.told[0].bucket == 5, "others count with the one that events take"
    gates.update(links("b"), bucket_of, fresh={"b"})
    assert gates.first(71, NORMAL) == "b"
    moved = gates.update(links("a", "b"), bucket_of)
    assert gates.first(71, NORMAL) == "b"
    assert moved[NORMAL] == 0


def test_a_link_is_fresh_until_it_has_lasted() -> None:
    lasting = Lasting()
    assert lasting.look({"near", "far"}, {"near"}, 0, lambda uid: False) == {"near"}
    assert lasting.fresh == {"near"}
    assert lasting.look_at == LASTED_NS
    assert lasting.look({"near", "far"}, {"near"}, LASTED_NS, lambda uid: False) == {"near", "far"}
    assert lasting.fresh == frozenset()
