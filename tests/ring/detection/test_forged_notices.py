"""Notices of deaths from brokers that there is no reason to trust: tested, counted, ignored."""

from __future__ import annotations

import pytest

from overlay.machine import Closed
from ring.config import LAN
from ring.core import Core
from ring.detection.tellers import IGNORED, MAX_TELLERS, REFUTED_OFTEN, Tellers
from ring.facts import Confirmed, Reincarnated, Rejoining, Suspected
from ring.wire.messages import Failed, HeldDead, Member, Ping, View
from ring.wire.messages import TestNeighbour as Question
from tests.helpers.bench import Bench, closed, member, peer, sent, told

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


def test_a_chord_that_a_stranger_tells_of_and_that_fails_the_test_is_dead() -> None:
    """The neighbours of the dead tell all that hold a link to it, strangers to most of them."""
    node = bench()
    node.receive(LIAR, forged(CHORD))
    effects = node.wait(2, AROUND)
    assert (CHORD.uid, Closed.DECLARED_DEAD) in closed(effects)


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
        lives += told(node.receive(LIAR, HeldDead(99, witnessed=True)), Reincarnated)
        mine = node.node.member
        assert mine is not None
        effects = node.receive(LIAR, forged(mine))
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
