"""Meeting members of another ring, seen from one broker: 300 in the ring of RING."""

from __future__ import annotations

import pytest

from overlay.machine import Closed, Effect, LinkRefused, Refused
from ring.circle.neighbourhood import SETTLED
from ring.config import LAN
from ring.facts import Alone, Reincarnated, Rejoining, Reseed
from ring.joining.merge import ALONE_KNOCKS, FAN_OUT
from ring.wire.messages import (
    MAX_ROUTE_HOPS,
    Failed,
    HeldDead,
    Intent,
    Meet,
    Member,
    Purpose,
    View,
)
from tests.helpers.bench import Bench, closed, member, opened, sent, told, uid, view_of

RING = [100, 200, 300, 400, 500, 600, 700]
A, B, C = member(200), member(400), member(500)
AROUND = [member(at) for at in (100, 200, 400, 500)]
ENTRY = uid(9000)


def bench(here: int = 300) -> Bench:
    return Bench.on_ring(RING, here)


def without(dead: int) -> Bench:
    """A ring of which ``dead``, a neighbour, was confirmed dead, and that has closed over it."""
    node = bench()
    node.receive(C, Failed(member(dead), (C.uid,), None))
    rest = [at for at in RING if at != dead]
    for at in (100, 200, 400, 500, 600):
        if at != dead:
            node.up(member(at))
            node.receive(member(at), Intent(Purpose.RING))
            node.receive(member(at), view_of(at, rest, 2))
    return node


# Meeting


def test_a_question_goes_on_towards_its_subjects_place() -> None:
    stranger = member(480)
    effects = bench().receive(A, Meet(stranger, ENTRY, 3))
    assert sent(effects, Meet) == [(C.uid, Meet(stranger, ENTRY, 4))]
    assert opened(effects) == []


def test_a_question_goes_to_its_subject_if_that_is_a_neighbour() -> None:
    effects = bench().receive(A, Meet(C, ENTRY, 3))
    assert sent(effects, Meet) == [(C.uid, Meet(C, ENTRY, 4))]


def test_who_gave_us_a_question_does_not_get_it_back() -> None:
    """It wants to know of our ring; it can be its own subject, or be linked to it."""
    effects = bench().receive(C, Meet(C, B.uid, 0))
    assert sent(effects, Meet) == [(B.uid, Meet(C, B.uid, 1))]


def test_a_question_that_wanders_is_dropped() -> None:
    assert sent(bench().receive(A, Meet(member(480), ENTRY, MAX_ROUTE_HOPS)), Meet) == []


def test_a_stranger_whose_place_is_beside_us_is_met_and_asked_to_find_ours() -> None:
    node = bench()
    chord = member(700)
    node.up(chord)
    node.receive(chord, Intent(Purpose.CHORD))
    node.receive(chord, view_of(700, RING))
    stranger = member(320)
    effects = node.receive(A, Meet(stranger, ENTRY, 3))
    assert opened(effects) == [stranger.peer.url]
    asked = sent(node.up(stranger), Meet)
    assert asked == [
        (stranger.uid, Meet(who, stranger.uid, 0)) for who in (member(300), B, chord)
    ], "our place, that of its neighbour on the other side, and a chord's"
    assert len(asked) == 2 + FAN_OUT
    assert stranger not in node.node.right, "no pointer is adopted unchecked"
    node.receive(stranger, View(1, stranger, (), ()))
    assert node.node.right == (stranger, B)


def test_a_stranger_is_met_once() -> None:
    node = bench()
    node.receive(A, Meet(member(320), ENTRY, 3))
    effects = node.receive(B, Meet(member(320), ENTRY, 5))
    assert (opened(effects), sent(effects, Meet)) == ([], [])
    assert len(sent(node.up(member(320)), Meet)) == 2


def test_one_that_cannot_be_linked_gets_no_questions() -> None:
    node = bench()
    stranger = member(320)
    node.receive(A, Meet(stranger, ENTRY, 3))
    node.refused(stranger)
    assert sent(node.up(stranger), Meet) == []


def test_a_newcomer_knows_no_places() -> None:
    node = Bench(5001)
    node.join(member(0))
    assert node.receive(member(0), Meet(member(5000), ENTRY, 0)) == []


# Knocking


def knocked() -> tuple[Bench, Member]:
    """A member that has knocked at 400, which it holds for dead, and was answered."""
    node = without(400)
    effects: list[Effect] = []
    while B.peer.url not in opened(effects):
        effects = node.wait(1, [*AROUND, member(600)])
    return node, B


def test_who_answers_a_knock_is_asked_to_find_our_place() -> None:
    node, lost = knocked()
    assert sent(node.up(lost), Meet) == [(lost.uid, Meet(member(300), lost.uid, 0))]


def test_other_links_cause_no_questions() -> None:
    assert sent(bench().up(member(9000)), Meet) == []


def test_who_is_found_in_our_ring_is_no_longer_knocked_at() -> None:
    node, lost = knocked()
    node.up(lost)
    node.receive(C, Meet(member(300), lost.uid, 4))
    node.down(lost, Closed.UNWANTED)
    assert B.peer.url not in opened(node.wait(600, [*AROUND, member(600)]))


def test_no_failure_ends_the_knocking() -> None:
    node, lost = knocked()
    knocks = 1
    for _ in range(1200):
        effects = node.give(LinkRefused(lost.peer.url, None, Refused.UNREACHABLE))
        knocks += opened(effects + node.wait(1, [*AROUND, member(600)])).count(lost.peer.url)
    assert 20 <= knocks <= 80


def test_who_is_alone_knocks_after_a_second_and_then_ever_more_rarely() -> None:
    lost = member(100)
    node = Bench.on_ring([100, 300], 300)
    node.down(lost)
    while not told(node.wait(0.001), Alone):
        node.refused(lost)
    last = node.now
    for mean_s in (1, 2, 4, 8, 16, 32, 32, 32):
        while lost.peer.url not in opened(node.wait(0.01)):
            assert node.now - last <= 1.5e9 * mean_s
        assert node.now - last >= 0.5e9 * mean_s
        last = node.now
        node.give(LinkRefused(lost.peer.url, None, Refused.UNREACHABLE))


# Held for dead


def test_who_is_linked_and_held_for_dead_is_told_and_not_believed() -> None:
    node = without(400)
    assert sent(node.up(B), HeldDead) == [(B.uid, HeldDead(1, witnessed=True))]
    node.receive(B, view_of(400, RING, 2))
    assert B not in node.node.right
    reborn = member(400, incarnation=2)
    node.receive(B, View(3, reborn, (member(300),), (C,)))
    assert node.node.right == (reborn, C)


def test_a_verdict_of_another_ring_is_answered_in_place_by_a_later_life() -> None:
    node, holder = bench(), member(9000)
    node.up(holder)
    effects = node.receive(holder, HeldDead(1, witnessed=True))
    ours = member(300, incarnation=2)
    assert told(effects, Reincarnated) == [Reincarnated(ours, holder.uid)]
    assert told(effects, Rejoining) == []
    assert closed(effects) == []
    assert node.node.member == ours
    views = dict(sent(effects, View))
    assert {*views} == {holder.uid, *(m.uid for m in AROUND)}, "all around learn of it"
    assert {view.member for view in views.values()} == {ours}


def test_a_verdict_that_was_answered_is_answered_by_our_view() -> None:
    node, holder = bench(), member(9000)
    node.up(holder)
    node.receive(holder, HeldDead(1, witnessed=True))
    effects = node.receive(holder, HeldDead(1, witnessed=True))
    assert told(effects, Reincarnated) == []
    assert [to for to, _ in sent(effects, View)] == [holder.uid]


@pytest.mark.parametrize("holder", AROUND)
def test_a_verdict_of_a_neighbour_means_that_our_ring_has_closed_over_us(holder: Member) -> None:
    node = bench()
    effects = node.receive(holder, HeldDead(1, witnessed=True))
    assert [fact.incarnation for fact in told(effects, Rejoining)] == [2]
    assert node.node.member is None


def test_an_old_verdict_bars_nobody_from_being_tried_again() -> None:
    """Else two rings whose brokers hold each other for dead could not grow together."""
    node = without(400)
    named = View(9, member(200), (member(100), member(700)), (member(300), B))
    assert opened(node.receive(A, named)) == []
    node.wait(SETTLED * LAN.silence_ns / 1e9 + 1, [*AROUND, member(600)])
    assert opened(node.receive(A, named)) == [B.peer.url]


def test_who_is_alone_knocks_at_some_at_a_time_and_each_has_its_turn() -> None:
    """Of those that it remembers most may be dead: one at a time, drawn anew, could take hours."""
    lost = [member(at) for at in (100, *range(1000, 1019))]
    node = Bench.on_ring([100, 300], 300)
    for stranger in lost[1:]:
        node.receive(lost[0], Failed(stranger, (lost[0].uid,), None))
    node.down(lost[0])
    while not told(node.wait(0.001), Alone):
        node.refused(lost[0])
    knocks: list[list[str]] = []
    while len(knocks) < 6:  # there is no end to it
        urls = opened(node.wait(0.01))
        if urls:
            knocks.append(urls)
        for url in urls:
            node.give(LinkRefused(url, None, Refused.UNREACHABLE))
    assert [len(urls) for urls in knocks] == [ALONE_KNOCKS, ALONE_KNOCKS, 20 - 2 * ALONE_KNOCKS] * 2
    everybody = {other.peer.url for other in lost}
    assert {url for urls in knocks[:3] for url in urls} == everybody
    assert {url for urls in knocks[3:] for url in urls} == everybody


def test_who_is_not_alone_knocks_at_one_at_a_time() -> None:
    node = bench()
    for at in range(1000, 1020):
        node.receive(C, Failed(member(at), (C.uid,), None))
    effects = [node.wait(0.01, [*AROUND, member(600)]) for _ in range(20_000)]
    knocks = [len(opened(each)) for each in effects if opened(each)]
    assert knocks == [1] * len(knocks)
    assert len(knocks) > 3


# A list that changes


def test_brokers_that_are_newly_listed_are_called_at_once_and_met() -> None:
    node, stranger = bench(), member(9000)
    effects = node.give(Reseed((stranger.peer.url, A.peer.url)))
    assert opened(effects) == [stranger.peer.url], "the others are linked"
    met = sent(node.up(stranger), Meet)
    assert [(to, meet.subject.ring_id) for to, meet in met] == [(stranger.uid, 300)]
    assert opened(node.give(Reseed((stranger.peer.url,)))) == [], "it is not new any more"


def test_of_many_that_are_newly_listed_a_few_are_called() -> None:
    urls = tuple(member(9000 + at).peer.url for at in range(3 * ALONE_KNOCKS))
    assert len(opened(bench().give(Reseed(urls)))) == ALONE_KNOCKS
