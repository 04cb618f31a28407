"""The graph of secure links of one broker: who is told of it, and who is taken out of it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ges.topology.secure_part import SecurePart
from ges.wire.broker_messages import SecureState
from overlay.ids import Peer
from overlay.machine import MessageReceived
from ring.wire.messages import Leaving, Member
from tests.helpers.node_bench import SECURE, Bench, peer, state, told


@dataclass
class StillRing:
    """A ring in which nothing moves."""

    peer: Peer
    member: Member | None
    left: tuple[Member, ...] = ()
    right: tuple[Member, ...] = ()


def test_a_list_says_whether_all_ring_neighbours_are_linked_securely() -> None:
    neighbour = Member(peer("c"), 9)
    ring = StillRing(peer("b"), Member(peer("b"), 0), (neighbour,), (neighbour,))
    secure: set[str] = set()
    part = SecurePart(ring, {"c" * 32: peer("c")}, secure, lambda uid: False)
    assert [news.complete for _, news in told(part.settle(0))] == [False]
    secure.add("c" * 32)
    assert [news.complete for _, news in told(part.settle(0))] == [True]
    assert part.settle(0) == [], "nothing has changed"


@pytest.mark.parametrize("secure", [True, False])
def test_off_the_ring_or_without_an_identity_there_is_no_own_list(secure: bool) -> None:
    own = peer("b", secure=secure)
    ring = StillRing(own, None if secure else Member(own, 0))
    part = SecurePart(ring, {"c" * 32: peer("c")}, {"c" * 32}, lambda uid: False)
    assert part.settle(0) == []
    assert part.graph.states == ()


def test_a_change_of_secure_links_is_told_to_all_neighbours() -> None:
    bench = Bench()
    bench.up("c")
    bench.up("a", secure=False)
    effects = bench.up("c", SECURE)
    assert {name for name, _ in told(effects)} == {"a", "c"}
    assert {news.linked for _, news in told(effects)} == {("c" * 32,)}
    gone = bench.down("c", SECURE)
    assert {name for name, _ in told(gone)} == {"a", "c"}
    assert {news.linked for _, news in told(gone)} == {()}


def test_a_newcomer_is_told_everything() -> None:
    bench = Bench()
    bench.up("c")
    bench.hear("c", state("d", "c"))
    bench.hear("c", state("c", "d"))
    assert {news.origin[0] for name, news in told(bench.up("a")) if name == "a"} == set("bcd")


def test_news_is_passed_on_once_and_not_back() -> None:
    bench = Bench()
    for name in "acd":
        bench.up(name)
    news = state("e", "d")
    assert told(bench.hear("d", news)) == [("a", news), ("c", news)]
    assert told(bench.hear("c", news)) == []


def test_a_broker_without_an_identity_passes_news_on_and_tells_none_of_itself() -> None:
    bench = Bench(secure=False)
    bench.up("a")
    bench.up("c")
    news = state("e", "d")
    assert told(bench.hear("a", news)) == [("c", news)]
    assert [n.origin for n in bench.node.secure_graph.states] == [news.origin]


def test_a_rumour_of_ones_own_death_is_answered() -> None:
    bench = Bench()
    bench.up("a")
    (own,) = bench.node.secure_graph.states
    rumour = SecureState(own.origin, own.incarnation, own.version + 5, own.ring_id, (), True)
    answers = [news for _, news in told(bench.hear("a", rumour)) if news.origin == own.origin]
    assert answers[-1].version > rumour.version
    assert not answers[-1].withdrawn


def test_a_broker_that_leaves_is_taken_out_of_the_graph() -> None:
    bench = Bench()
    bench.up("a")
    bench.neighbour("c", 9)
    bench.hear("c", state("c", "b", ring_id=9))
    effects = bench.give(MessageReceived("c" * 32, Leaving(Member(peer("c"), 9))))
    withdrawn = [(name, news.origin[0]) for name, news in told(effects) if news.withdrawn]
    assert withdrawn == [("a", "c")]


def test_the_dead_beyond_the_neighbours_are_taken_out_too() -> None:
    """Of a row of brokers that died at once, the middle ones were nobody's neighbours."""
    bench = Bench()
    bench.up("a")
    bench.hear("a", state("d", ring_id=5))
    bench.hear("a", state("e", ring_id=500))
    effects = bench.neighbour("c", 9)
    assert {news.origin[0] for _, news in told(effects) if news.withdrawn} == {"d"}
