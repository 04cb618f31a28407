"""Who may stand in a pointer, and what may move it (paper 004, section 3.2)."""

from __future__ import annotations

from overlay.machine import Closed, LinkUp, Refused
from overlay.rng import rng_for
from ring.circle.links import RingLinks
from ring.circle.neighbourhood import Neighbourhood
from ring.config import LAN
from ring.core import Core
from ring.facts import Joined, NeighboursChanged, Rejoining
from ring.wire.messages import (
    Heartbeat,
    Intent,
    JoinAccept,
    Member,
    Ping,
    Pong,
    Purpose,
    View,
    ViewRequest,
)
from tests.helpers.bench import Bench, closed, member, opened, peer, sent, told, uid, view_of

RING = [100, 200, 300, 400, 500, 600, 700]
A, B, C = member(200), member(400), member(500)


def bench() -> Bench:
    """The broker 300: left 200 and 100, right 400 and 500."""
    return Bench.on_ring(RING, 300)


def with_newcomer(ring_id: int, of: int, version: int = 2) -> View:
    """The view of the broker ``of`` after a broker has joined at ``ring_id``."""
    return view_of(of, [*RING, ring_id], version)


def test_a_second_neighbour_that_is_shown_in_a_later_life_is_asked_and_linked_anew() -> None:
    """It lost power, and is back at the same place before anybody missed it."""
    node, later = bench(), member(500, 2)
    effects = node.receive(B, View(2, B, (member(300), A), (later, member(600))))
    assert (C.uid, Ping(0)) in sent(effects, Ping)
    effects = node.wait(LAN.test_ns / 1e9, alive=[A, B, member(100)])
    assert (C.uid, Closed.LOST) in closed(effects)
    assert later.peer.url in opened(effects)
    assert C not in node.node.right


def test_one_that_is_shown_in_a_later_life_and_answers_keeps_its_place() -> None:
    node = bench()
    node.receive(B, View(2, B, (member(300), A), (member(500, 9), member(600))))
    node.receive(C, Pong(0))
    assert closed(node.wait(LAN.test_ns / 1e9, alive=[A, B, member(100)])) == []
    assert node.node.right == (B, C)


def test_a_life_that_is_over_is_no_candidate_while_a_later_one_is_linked() -> None:
    node = bench()
    node.up(peer(350, 2))
    node.receive(B, with_newcomer(350, of=400))
    assert member(350) not in node.node.expected


# No pointer without a link


def test_a_broker_seen_in_a_view_is_linked_before_it_stands_in_a_pointer() -> None:
    node = bench()
    effects = node.receive(B, with_newcomer(350, of=400))
    assert opened(effects) == [member(350).peer.url]
    assert node.node.right == (B, C)
    node.up(member(350))
    assert node.node.right == (B, C)
    effects = node.receive(member(350), with_newcomer(350, of=350))
    assert told(effects, NeighboursChanged) == [
        NeighboursChanged((A, member(100)), (member(350), B))
    ]


def test_a_broker_seen_in_a_view_that_is_no_neighbour_of_ours_is_not_linked() -> None:
    node = bench()
    assert opened(node.receive(C, with_newcomer(550, of=500))) == []


def test_a_broker_that_cannot_be_linked_is_not_tried_again_at_every_view() -> None:
    node = bench()
    others = [A, B, C, member(100)]
    node.receive(B, with_newcomer(350, of=400))
    node.refused(member(350), Refused.TIMEOUT)
    assert opened(node.receive(B, with_newcomer(350, of=400, version=3))) == []
    assert node.node.right == (B, C)
    node.wait(2 * LAN.silence_ns / 1e9, alive=others)
    effects = node.receive(B, with_newcomer(350, of=400, version=4))
    assert opened(effects) == [member(350).peer.url]


def test_a_newcomer_announces_itself_and_takes_its_place() -> None:
    node = bench()
    node.up(member(350))
    effects = node.receive(member(350), with_newcomer(350, of=350))
    assert node.node.right == (member(350), B)
    [view] = {message for _, message in sent(effects, View)}
    assert view.right == (member(350), B)
    assert {to for to, _ in sent(effects, View)} >= {uid(i) for i in (200, 400, 350)}


# Views


def test_an_older_view_is_ignored() -> None:
    node = bench()
    node.receive(B, view_of(400, RING, version=5))
    assert opened(node.receive(B, with_newcomer(350, of=400, version=4))) == []
    assert opened(node.receive(B, with_newcomer(350, of=400, version=5))) != []


def test_a_view_of_somebody_else_is_ignored() -> None:
    node = bench()
    assert opened(node.receive(B, with_newcomer(350, of=500))) == []


def test_a_view_of_an_earlier_life_is_ignored() -> None:
    node = Bench.on_ring(RING, 300)
    node.up(peer(400, incarnation=3))
    stale = View(9, member(400, incarnation=2), (member(350),), ())
    assert opened(node.receive(B, stale)) == []


def test_a_broker_that_rejoined_while_its_link_was_made_is_believed() -> None:
    """The handshake named its old incarnation, its first view names the new one."""
    node = bench()
    node.up(peer(350, incarnation=4))
    reborn = View(7, member(350, incarnation=6), (member(300),), (B,))
    node.receive(member(350), reborn)
    assert node.node.right == (member(350, incarnation=6), B)


def test_a_heartbeat_that_names_a_newer_view_makes_us_ask_for_it() -> None:
    node = bench()
    assert node.receive(B, Heartbeat(1)) == []
    assert sent(node.receive(B, Heartbeat(2)), ViewRequest) == [(B.uid, ViewRequest())]


def test_who_asks_for_our_view_gets_it() -> None:
    node = bench()
    [(to, view)] = sent(node.receive(B, ViewRequest()), View)
    assert (to, view.member, view.left, view.right) == (
        B.uid,
        member(300),
        (A, member(100)),
        (B, C),
    )


def test_our_views_grow_in_version() -> None:
    node = bench()
    [(_, before)] = sent(node.receive(B, ViewRequest()), View)
    node.up(member(350))
    node.receive(member(350), with_newcomer(350, of=350))
    [(_, after)] = sent(node.receive(B, ViewRequest()), View)
    assert after.version > before.version


# Two brokers with one id


def clash(name: int) -> tuple[Bench, list[Rejoining]]:
    """Broker ``name`` stands at 300, and learns of another, uid 300, that does too."""
    node = Bench(name)
    node.join(member(100))
    node.receive(member(100), JoinAccept(300, member(100), (B,)))
    node.up(B)
    node.up(member(300))
    effects = node.receive(member(300), view_of(300, RING))
    return node, told(effects, Rejoining)


def test_of_two_brokers_with_one_id_the_larger_uid_joins_anew() -> None:
    node, [rejoining] = clash(999)
    assert rejoining.incarnation == 2
    assert "ring id" in rejoining.reason
    assert node.node.member is None


def test_of_two_brokers_with_one_id_the_smaller_uid_stays() -> None:
    node, rejoining = clash(50)
    assert rejoining == []
    assert node.node.member == Member(peer(50), 300)


# Order


def test_pointers_follow_the_id_and_not_the_order_of_arrival() -> None:
    left, right = member(100), member(900)
    for contact, other in ((left, right), (right, left)):
        node = Bench(500)
        node.join(contact)
        node.receive(contact, JoinAccept(500, contact, (other,)))
        effects = node.up(other)
        assert told(effects, Joined) != []
        node.receive(left, view_of(100, [100, 500, 900]))
        node.receive(right, view_of(900, [100, 500, 900]))
        assert (node.node.left, node.node.right) == ((left, right), (right, left))


def test_another_id_means_another_order() -> None:
    """A join that started again, with the links it had made for the place it did not get."""
    core = Core(LAN, peer(5001), rng_for(1))
    links = RingLinks(core)
    hood = Neighbourhood(core, links)
    for ring_id in (100, 900):
        links.on_up(LinkUp(peer(ring_id), peer(ring_id).url))
        links.place(uid(ring_id), member(ring_id))
    core.ring_id, core.joined = 950, True
    hood.refresh()
    assert hood.right == (member(100), member(900))
    core.ring_id = 500
    hood.refresh()
    assert hood.right == (member(900), member(100))


# Links


def test_a_link_nobody_wants_is_closed_after_a_while() -> None:
    node, stranger = bench(), member(5000)
    node.up(stranger)
    others = [A, B, C, member(100)]
    effects = node.wait(LAN.linger_ns / 1e9, alive=others)
    assert closed(effects) == [(stranger.uid, Closed.UNWANTED)]


def test_a_link_that_the_other_end_wants_stays() -> None:
    node, holder = bench(), member(5000)
    node.up(holder)
    node.receive(holder, Intent(Purpose.CHORD))
    others = [A, B, C, member(100)]
    effects = node.wait(3 * LAN.linger_ns / 1e9, alive=others)
    assert closed(effects) == []


def test_a_link_to_a_neighbour_that_is_not_needed_any_more_may_go() -> None:
    node = bench()
    node.up(member(350))
    effects = node.receive(member(350), with_newcomer(350, of=350))
    assert sent(effects, Intent) == [
        (uid(350), Intent(Purpose.RING)),
        (uid(500), Intent(Purpose.NONE)),
    ]
