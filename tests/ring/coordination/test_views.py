"""What brokers show each other: places, views, and several changes at once."""

from __future__ import annotations

from ring.config import LAN
from ring.wire.messages import Backup, Failed, Intent, Ping, Place, Purpose, View
from tests.helpers.bench import Bench, member, opened, peer, sent, uid, view_of

RING = [100, 200, 300, 400, 500, 600, 700]
SURVIVORS = [100, 200, 300, 500, 600, 700]
AROUND = [member(i) for i in (100, 200, 500)]
B, C, D = member(400), member(500), member(600)


def bench() -> Bench:
    return Bench.on_ring(RING, 300)


def test_a_new_link_is_told_our_place() -> None:
    effects = bench().up(member(9001))
    assert sent(effects, Place) == [(uid(9001), Place(member(300)))]
    assert sent(effects, View) == []


def test_a_neighbour_that_is_back_is_shown_our_view_once_and_no_place() -> None:
    node = bench()
    node.down(B)
    effects = node.up(B)
    assert [name for name, _ in sent(effects, View)] == [B.uid]
    assert sent(effects, Place) == []


def test_the_heir_of_a_dead_broker_tells_its_place_with_the_notice() -> None:
    """Holders of links to the dead hear it over links made for that."""
    bench = Bench.on_ring(RING, 300)
    holder = peer(9002)  # in the half of the left neighbour
    bench.receive(B, Backup(1, (holder,)))
    bench.receive(C, Failed(B, (C.uid,), None))
    told = bench.up(holder)
    assert [(name, notice.heir) for name, notice in sent(told, Failed)] == [
        (holder.uid, member(300))
    ]
    assert sent(told, Place) == []


def test_the_place_of_an_heir_is_taken_from_its_notice() -> None:
    node = bench()
    heir = member(350)
    node.up(heir)
    node.receive(heir, Failed(member(9001), ("0" * 32,), heir))
    assert node.node.right == (heir, B)


def test_a_place_that_somebody_else_tells_with_a_notice_is_not_taken() -> None:
    node = bench()
    node.up(member(350))
    node.receive(C, Failed(member(9001), ("0" * 32,), member(350)))
    assert node.node.right == (B, C)


def test_the_view_follows_if_it_becomes_a_ring_link() -> None:
    node = bench()
    node.up(member(9001))
    assert [name for name, _ in sent(node.receive(member(9001), Intent(Purpose.RING)), View)] == [
        uid(9001)
    ]


def test_a_place_makes_a_neighbour() -> None:
    node = bench()
    node.up(member(350))
    node.receive(member(350), Place(member(350)))
    assert node.node.right == (member(350), B)


def test_a_place_of_another_broker_is_not_believed() -> None:
    node = bench()
    node.up(member(350))
    node.receive(member(350), Place(member(360)))
    assert node.node.right == (B, C)


def test_two_changes_of_one_repair_are_shown_as_one() -> None:
    node = bench()
    effects = node.receive(C, Failed(B, (C.uid,), None))
    effects += node.receive(C, view_of(500, SURVIVORS, version=2))
    assert opened(effects) == [D.peer.url]
    assert sent(effects, View) == [], "600 is still to come"
    node.up(D)
    shown = sent(node.receive(D, Place(D)), View)
    assert {name for name, _ in shown} >= {m.uid for m in AROUND}
    assert {view.right for _, view in shown} == {(C, D)}


def test_a_change_is_shown_soon_whatever_becomes_of_the_next() -> None:
    node = bench()
    node.receive(C, Failed(B, (C.uid,), None))
    node.receive(C, view_of(500, SURVIVORS, version=2))
    shown = sent(node.wait(LAN.answer_ns / 1e9, alive=AROUND), View)
    assert {name for name, _ in shown} >= {m.uid for m in AROUND}


def test_a_neighbour_that_another_does_not_see_is_asked_for_a_sign_of_life() -> None:
    """It may have died as it came: nobody but us may ever have seen it."""
    node = bench()
    effects = node.receive(C, view_of(500, SURVIVORS, version=2))
    assert [name for name, _ in sent(effects, Ping)] == [B.uid]
