"""Notices of deaths from brokers that there is no reason to trust: tested, counted, ignored."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from overlay.machine import Closed, Effect
from ring.config import LAN
from ring.core import Core
from ring.detection.tellers import IGNORED, MAX_TELLERS, REFUTED_OFTEN, Tellers
from ring.facts import Confirmed, Reincarnated, Rejoining, Suspected
from ring.wire.messages import (
    Failed,
    HeldDead,
    Intent,
    JoinAccept,
    Member,
    Ping,
    Place,
    Purpose,
    View,
)
from ring.wire.messages import Tested as Answer
from ring.wire.messages import TestNeighbour as Question
from tests.helpers.bench import Bench, closed, member, peer, sent, told, view_of

RING = [100, 200, 300, 400, 500, 600, 700]
A, B, C = member(200), member(400), member(500)
AROUND = [member(at) for at in (100, 200, 400, 500)]
CHORD, LIAR = member(9000), member(6666)


def bench() -> Bench:
    """The broker 300 in the ring of RING, with a chord, and linked by a stranger."""
    node = Bench.on_ring(RING, 300)
    node.up(CHORD)
    node.receive(CHORD, View(1, CHORD, (), ()))
    node.up(LIAR)
    return node


def claimed(
    node: Bench, place: int, version: int = 1, right: tuple[Member, ...] = (B, C)
) -> list[Effect]:
    """The liar says that it stands at ``place``, and shows a view that fits."""
    me = Member(LIAR.peer, place)
    effects = node.receive(LIAR, Intent(Purpose.RING)) + node.receive(LIAR, Place(me))
    return effects + node.receive(LIAR, View(version, me, (member(300), A), right[:2]))


def takes_place_of(node: Bench, number: int) -> list[Effect]:
    """A stranger with a small uid links, and says that it stands where the broker does."""
    mine = node.node.member
    assert mine is not None
    stranger = Member(peer(number + 1), mine.ring_id)
    return node.up(stranger) + node.receive(stranger, Place(stranger))


def come_back(node: Bench) -> None:
    """The broker that has lost its place gets it again."""
    node.up(A)
    node.measure(A)
    node.receive(A, JoinAccept(300, A, (B,)))
    node.up(B)
    for other in (A, B):
        node.receive(other, view_of(other.ring_id, RING))


def forged(subject: Member) -> Failed:
    return Failed(subject, (LIAR.uid, A.uid), None)


@pytest.mark.parametrize("subject", [B, CHORD])
def test_what_a_stranger_tells_is_tested_and_the_living_keep_their_place(subject: Member) -> None:
    node = bench()
    effects = node.receive(LIAR, forged(subject))
    assert [to for to, _ in sent(effects, Ping)] == [subject.uid]
    effects += node.receive(subject, Ping(1)) + node.wait(1, [*AROUND, CHORD])
    assert closed(effects) == []
    assert sent(effects, Failed) == []
    assert told(effects, Confirmed) == []


def test_a_neighbour_of_ours_is_believed_at_once() -> None:
    node = bench()
    effects = node.receive(C, Failed(B, (C.uid,), None))
    assert [fact.subject for fact in told(effects, Confirmed)] == [B]
    assert B.uid not in [to for to, _ in sent(effects, Ping)]


@pytest.mark.parametrize("place", [301, 399, 401, 499, 299, 201, 199, 400])
@pytest.mark.parametrize("subject", [A, B])
def test_who_says_itself_that_it_stands_beside_the_subject_is_a_stranger(
    place: int, subject: Member
) -> None:
    node = bench()
    effects = claimed(node, place) + node.receive(LIAR, forged(subject))
    assert subject.uid in [to for to, _ in sent(effects, Ping)]
    effects += node.receive(subject, Ping(1)) + node.wait(1, [*AROUND, CHORD, LIAR])
    assert [uid for uid, _ in closed(effects) if uid == subject.uid] == []
    assert told(effects, Confirmed) == []


def test_two_that_show_each_other_beside_the_subject_are_strangers() -> None:
    node, other = bench(), member(7777)
    node.up(other)
    claimed(node, 398)
    second = Member(other.peer, 399)
    node.receive(other, View(1, second, (Member(LIAR.peer, 398), member(300)), (B, C)))
    claimed(node, 398, version=2, right=(second, B))
    assert told(node.receive(LIAR, forged(B)), Confirmed) == []
    assert told(node.receive(other, forged(B)), Confirmed) == []


def test_the_heir_in_the_notice_itself_is_no_reason_to_believe_it() -> None:
    node = bench()
    effects: list[Effect] = []
    for _ in range(2):
        effects += node.receive(LIAR, Failed(B, (LIAR.uid, A.uid), Member(LIAR.peer, 350)))
    assert told(effects, Confirmed) == []


def test_a_neighbour_that_the_dead_has_shown_beside_itself_is_believed_after_its_link_is_gone() -> (
    None
):
    """B showed C beside itself, and C tells that B is dead; nobody else has shown C yet."""
    node = bench()
    node.down(B)
    effects = node.receive(C, Failed(B, (C.uid,), None))
    assert [fact.subject for fact in told(effects, Confirmed)] == [B]


@pytest.mark.parametrize("place", [301, 299, 399])
def test_who_says_itself_that_it_stands_beside_us_does_not_take_our_place(place: int) -> None:
    node = bench()
    effects = claimed(node, place)
    for _ in range(10):
        mine = node.node.member
        assert mine is not None
        effects += node.receive(LIAR, forged(mine))
    assert told(effects, Rejoining) == []
    assert told(effects, Reincarnated) == [], "no honest broker of another ring says it so"
    effects = node.receive(LIAR, HeldDead(99, witnessed=True))
    effects += node.down(LIAR, Closed.DECLARED_DEAD)
    assert told(effects, Rejoining) == []
    assert node.node.peer.incarnation == 1


def test_a_neighbour_that_others_show_takes_our_place_as_its_ring_has_closed_over_us() -> None:
    node = bench()
    assert len(told(node.receive(B, HeldDead(1, witnessed=True)), Rejoining)) == 1


def test_a_test_at_an_address_that_the_question_names_is_none_of_a_broker_known_elsewhere() -> None:
    """X is called where the liar says; then X is to be a neighbour, and stands at its own place."""
    node, new = bench(), member(350)
    false = Member(replace(peer(350), url="chordal://nowhere:1"), 350)
    node.receive(LIAR, Question(false))
    node.refused(false)
    node.receive(B, View(2, B, (new, member(300)), (C, member(600))))
    assert new in node.node.expected
    node.receive(LIAR, forged(false))
    assert new in node.node.expected


def test_a_newcomer_that_is_held_for_dead_again_and_again_goes_on_joining() -> None:
    node = Bench(300)
    node.join(A)
    node.up(LIAR)
    lives: list[Rejoining] = []
    for _ in range(10):
        lives += told(node.receive(LIAR, HeldDead(99, witnessed=True)), Rejoining)
        node.up(LIAR)
    assert len(lives) == REFUTED_OFTEN


def test_a_place_that_is_ours_is_given_up_a_few_times_a_minute_whoever_says_so() -> None:
    """Two rings that meet may have a place in common; a stranger says so again and again."""
    node = Bench.on_ring(RING, 300)
    lives = 0
    for number in range(10):
        lives += len(told(takes_place_of(node, number), Rejoining))
        if node.node.member is None:
            come_back(node)
    assert lives == REFUTED_OFTEN
    assert node.node.member is not None


def test_a_chord_that_a_stranger_tells_of_and_that_fails_the_test_is_dead() -> None:
    """The neighbours of the dead tell all that hold a link to it, strangers to most of them."""
    node = bench()
    node.receive(LIAR, forged(CHORD))
    effects = node.wait(2, AROUND)
    assert (CHORD.uid, Closed.DECLARED_DEAD) in closed(effects)


def test_a_test_of_a_death_that_was_told_asks_nobody_but_its_subject() -> None:
    """It stands anywhere: who is between us and it has no part in that."""
    node = bench()
    node.wait(1.5, [A, B])
    effects = node.receive(LIAR, forged(CHORD)) + node.wait(2 * LAN.answer_ns / 1e9, [A, B])
    assert {to for to, _ in sent(effects, Ping)} == {CHORD.uid}


def test_whose_later_life_is_linked_is_dead_in_the_earlier_one() -> None:
    node = bench()
    node.up(peer(400, 2))
    effects = node.receive(A, Question(B))
    assert sent(effects, Answer) == [(A.uid, Answer(B, alive=False))]


def test_a_neighbour_that_fails_the_test_is_looked_into_by_witnesses() -> None:
    node = bench()
    node.receive(LIAR, forged(B))
    effects = node.wait(5, [A, C, member(100), CHORD])
    assert [fact.subject for fact in told(effects, Suspected)] == [B]


def test_whom_we_have_found_dead_ourselves_is_not_tested_again() -> None:
    node = bench()
    node.receive(LIAR, Question(CHORD))
    node.wait(1, AROUND)
    effects = node.receive(LIAR, forged(CHORD))
    assert (CHORD.uid, Closed.DECLARED_DEAD) in closed(effects)
    assert sent(effects, Ping) == []


def test_whom_we_found_dead_and_have_heard_since_is_tested() -> None:
    node = bench()
    node.receive(LIAR, Question(CHORD))
    node.wait(1, AROUND)
    node.receive(CHORD, Ping(1))
    assert closed(node.receive(LIAR, forged(CHORD))) == []


def test_a_suspect_whose_link_only_broke_is_not_dead_because_a_stranger_says_so() -> None:
    node = bench()
    node.down(B)
    assert told(node.receive(LIAR, forged(B)), Confirmed) == []


def test_a_suspect_that_refuses_our_call_is_dead_if_a_stranger_says_so() -> None:
    """As where the dead stand in a row, and those that know of it beyond."""
    node = bench()
    node.down(B)
    node.refused(B)
    assert [fact.subject for fact in told(node.receive(LIAR, forged(B)), Confirmed)] == [B]


def test_one_that_is_to_be_a_neighbour_is_called_whatever_a_stranger_says() -> None:
    node = bench()
    new = member(350)
    node.receive(B, View(2, B, (new, member(300)), (C, member(600))))
    assert new in node.node.expected
    node.receive(LIAR, forged(new))
    assert new in node.node.expected


def test_who_was_refuted_often_is_ignored_for_a_while() -> None:
    node = bench()
    for _ in range(REFUTED_OFTEN):
        assert sent(node.receive(LIAR, forged(CHORD)), Ping) != []
        node.receive(CHORD, Ping(1))
    assert sent(node.receive(LIAR, forged(CHORD)), Ping) == []
    assert sent(node.receive(LIAR, Failed(CHORD, (), None)), Ping) == []
    node.wait(IGNORED * LAN.silence_ns / 1e9 + 1, [*AROUND, CHORD, LIAR])
    assert node.node.is_whole
    node.up(LIAR)
    node.up(CHORD)
    assert sent(node.receive(LIAR, forged(CHORD)), Ping) != []


def test_who_holds_us_for_dead_again_and_again_is_no_other_ring() -> None:
    node = bench()
    lives: list[Reincarnated] = []
    for _ in range(10):
        effects = node.receive(LIAR, HeldDead(99, witnessed=True))
        assert told(effects, Rejoining) == []
        lives += told(effects, Reincarnated)
    assert len(lives) == REFUTED_OFTEN


def test_the_table_of_tellers_is_bounded() -> None:
    core = Core(LAN, peer(1), bench().node.parts.core.rng)
    tellers = Tellers(core)
    for _ in range(REFUTED_OFTEN):
        tellers.on_refuted("first")
    assert tellers.is_ignored("first")
    for number in range(MAX_TELLERS):
        tellers.on_refuted(str(number))
    assert not tellers.is_ignored("first")
    assert len(tellers._records) == MAX_TELLERS
