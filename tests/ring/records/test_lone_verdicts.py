"""Verdicts to which nobody bears witness: who was cut off itself may have made them."""

from __future__ import annotations

import pytest

from overlay.machine import Closed
from ring.detection.witness import MAX_TESTS
from ring.facts import Confirmed, Reincarnated, Rejoining, Suspected
from ring.wire.messages import Failed, HeldDead, Meet, Member, Ping, Place, View
from ring.wire.messages import Tested as Answer
from ring.wire.messages import TestNeighbour as Question
from tests.helpers.bench import Bench, closed, member, opened, sent, told, view_of

RING = [100, 200, 300, 400, 500, 600, 700]
A, B, C = member(200), member(400), member(500)
AROUND = [member(at) for at in (100, 200, 400, 500)]
CHORD = member(9000)


def bench() -> Bench:
    """The broker 300 in the ring of RING, with a chord."""
    node = Bench.on_ring(RING, 300)
    node.up(CHORD)
    node.receive(CHORD, View(1, CHORD, (), ()))
    return node


def alone() -> Bench:
    """300 finds B silent, and no witness answers."""
    node = bench()
    heard: list[Confirmed] = []
    for _ in range(100):
        heard += told(node.wait(0.1), Confirmed)
        if any(fact.subject == B for fact in heard):
            break
    assert Confirmed(B, ()) in heard
    return node


@pytest.mark.parametrize("subject", [B, CHORD])
def test_who_is_linked_to_the_subject_of_a_notice_tests_it_first(subject: Member) -> None:
    node = bench()
    effects = node.receive(A, Failed(subject, (), None))
    assert [to for to, _ in sent(effects, Ping)] == [subject.uid]
    assert sent(effects, Failed) == []
    assert closed(effects) == []
    effects = node.receive(subject, Ping(1)) + node.wait(1, [*AROUND, CHORD])
    assert told(effects, Suspected) == []
    assert sent(effects, Failed) == []
    assert closed(effects) == []


def test_who_told_it_hears_that_the_subject_lives() -> None:
    node = bench()
    node.receive(A, Failed(B, (), None))
    effects = node.receive(B, Ping(1))
    assert (A.uid, Answer(B, alive=True)) in sent(effects, Answer)


def test_a_neighbour_that_fails_the_test_is_suspected() -> None:
    node = bench()
    node.receive(A, Failed(B, (), None))
    effects = node.wait(5, [A, C, member(100), CHORD])
    assert [fact.subject for fact in told(effects, Suspected)] == [B]


def test_a_chord_that_fails_the_test_is_dead() -> None:
    node = bench()
    node.receive(A, Failed(CHORD, (), None))
    effects = node.wait(2, AROUND)
    assert (CHORD.uid, Closed.DECLARED_DEAD) in closed(effects), "we bear witness to it now"


def test_whom_we_suspect_ourselves_we_hear_of_by_our_own_witnesses() -> None:
    node = bench()
    asked = [to for to, _ in sent(node.down(B), Question)]
    assert asked != []
    effects = node.receive(A, Failed(B, (), None))
    assert told(effects, Confirmed) == []
    assert sent(effects, Failed) == []
    witness = next(other for other in AROUND if other.uid == asked[0])
    node.receive(witness, Answer(B, alive=True))
    assert told(node.receive(A, Failed(B, (), None)), Confirmed) == []
    assert B in node.node.right


def test_that_the_link_goes_down_during_the_test_is_no_proof_of_death() -> None:
    node = bench()
    node.receive(A, Failed(CHORD, (), None))
    effects = node.down(CHORD)
    assert CHORD.peer.url in opened(effects)
    effects += node.wait(0.3, AROUND)
    assert told(effects, Confirmed) == []
    assert sent(node.up(CHORD), HeldDead) == []


def test_of_whom_others_bear_witness_meanwhile_nothing_is_told_twice() -> None:
    node = bench()
    node.receive(A, Failed(CHORD, (), None))
    node.receive(C, Failed(CHORD, (C.uid,), None))
    node.wait(2, AROUND)
    assert [ruling.witnesses for ruling in node.node.verdicts] == [(C.uid,)]


def test_a_notice_that_cannot_be_tested_now_is_not_believed_of_one_that_is_linked() -> None:
    node = bench()
    for number in range(MAX_TESTS):
        node.receive(A, Question(member(20_000 + number)))
    assert closed(node.receive(A, Failed(CHORD, (), None))) == []


def test_a_notice_about_one_that_is_not_linked_is_believed() -> None:
    node = bench()
    node.down(CHORD)
    assert sent(node.receive(A, Failed(CHORD, (), None)), Ping) == []
    assert sent(node.up(CHORD), HeldDead) == [(CHORD.uid, HeldDead(1, witnessed=False))]


def test_the_link_to_one_that_we_alone_hold_for_dead_does_not_say_so() -> None:
    node = bench()
    ends: list[tuple[str, Closed]] = []
    while not any(uid == B.uid for uid, _ in ends):
        ends += closed(node.wait(0.1))
    assert (B.uid, Closed.LOST) in ends
    assert (B.uid, Closed.DECLARED_DEAD) not in ends


def test_who_is_told_by_a_neighbour_that_was_cut_off_stays_where_it_is() -> None:
    for notice in (HeldDead(1, witnessed=False), Failed(member(300), (), None)):
        node = bench()
        effects = node.receive(B, notice)
        assert told(effects, Rejoining) == []
        assert told(effects, Reincarnated) == [Reincarnated(member(300, incarnation=2), B.uid)]
        assert B in node.node.right


def test_lone_verdicts_fall_when_others_show_that_it_was_we_who_were_cut_off() -> None:
    node = alone()
    node.up(CHORD)
    effects = node.receive(CHORD, HeldDead(1, witnessed=True))
    assert told(effects, Reincarnated) != []
    assert sent(node.up(B), HeldDead) == []


def test_whom_we_held_for_dead_alone_is_looked_for_at_once() -> None:
    """In the place it had: the views of its neighbours still name it."""
    node = alone()
    node.up(CHORD)
    assert B.peer.url not in opened(node.wait(0.01))
    effects = node.receive(CHORD, HeldDead(1, witnessed=True))
    assert told(effects, Rejoining) == []
    assert B.peer.url in opened(effects)


def test_who_was_cut_off_asks_neighbours_that_see_others_there_at_once() -> None:
    node = alone()
    node.receive(A, view_of(200, [at for at in RING if at != 300], 9))
    node.up(CHORD)
    effects = node.receive(CHORD, HeldDead(1, witnessed=True))
    assert (A.uid, Meet(member(300, incarnation=2), A.uid, 0)) in sent(effects, Meet)


def test_lone_verdicts_stand_where_it_is_a_lone_broker_that_held_us_for_dead() -> None:
    node = alone()
    node.up(CHORD)
    node.receive(CHORD, HeldDead(1, witnessed=False))
    assert sent(node.up(B), HeldDead) == [(B.uid, HeldDead(1, witnessed=False))]


def test_verdicts_with_witnesses_stand() -> None:
    node = bench()
    node.receive(C, Failed(B, (C.uid,), None))
    node.up(member(600))
    node.receive(member(600), view_of(600, [at for at in RING if at != 400], 2))
    node.receive(CHORD, HeldDead(1, witnessed=True))
    assert sent(node.up(B), HeldDead) == [(B.uid, HeldDead(1, witnessed=True))]
    node.receive(B, view_of(400, RING, 2))
    assert B not in node.node.right


def test_who_only_heard_of_a_death_tests_before_it_bears_witness() -> None:
    node, far = bench(), member(9500)
    node.receive(A, Failed(far, (), None))
    effects = node.receive(C, Question(far))
    assert sent(effects, Answer) == []
    assert far.peer.url in opened(effects)
    node.receive(A, Failed(far, (A.uid,), None))
    assert sent(node.receive(C, Question(far)), Answer) == [(C.uid, Answer(far, alive=False))]


def test_who_gives_its_link_up_during_the_test_calls_before_it_says_failed() -> None:
    node = Bench.on_ring(RING, 300)
    node.up(CHORD)
    node.receive(CHORD, Place(CHORD))
    node.wait(1.999, [*AROUND, CHORD])  # nobody wants the link: in a moment it is closed
    node.receive(A, Question(CHORD))
    effects = node.wait(0.3, AROUND)
    assert (CHORD.uid, Closed.UNWANTED) in closed(effects)
    assert sent(effects, Answer) == []
    assert CHORD.peer.url in opened(effects)
    assert sent(node.up(CHORD), Answer) == [(A.uid, Answer(CHORD, alive=True))]


@pytest.mark.parametrize("teller", [A, C])
def test_witnesses_are_asked_as_soon_as_the_test_failed_whoever_told(teller: Member) -> None:
    node = bench()
    node.receive(teller, Failed(B, (), None))
    assert sent(node.wait(0.5, [A, C, member(100), CHORD]), Question) != []


def test_who_waits_for_the_word_of_another_asks_when_that_one_knows_no_more() -> None:
    node = bench()
    node.receive(C, Question(B))
    assert sent(node.wait(0.5, [A, C, member(100), CHORD]), Question) == [], "C asks"
    effects = node.receive(C, Failed(B, (), None))
    assert told(effects, Confirmed) == []
    assert sent(effects, Question) != []


def test_witnesses_that_are_heard_of_later_count() -> None:
    node = alone()
    effects = node.receive(C, Failed(B, (C.uid, A.uid), None))
    assert told(effects, Confirmed) == []
    assert sent(node.up(B), HeldDead) == [(B.uid, HeldDead(1, witnessed=True))]


def test_a_lone_verdict_does_not_take_away_the_witnesses_of_another() -> None:
    node = bench()
    node.receive(C, Failed(B, (C.uid,), None))
    node.up(member(600))
    node.receive(member(600), view_of(600, [at for at in RING if at != 400], 2))
    node.wait(5, [A, C, member(100), CHORD, member(600)])
    node.receive(A, Failed(B, (), None))
    assert sent(node.up(B), HeldDead) == [(B.uid, HeldDead(1, witnessed=True))]
