"""A broker leaves the ring: by turns, and with nothing left that it owns."""

from __future__ import annotations

import pytest

from overlay.ids import NANOS_PER_SECOND, nanos
from overlay.machine import Closed, Notify, Refused
from ring.config import LAN
from ring.coordination.membership import TURNS
from ring.facts import (
    Confirmed,
    Departed,
    DropRecord,
    Found,
    Leave,
    Left,
    PutRecord,
    Suspected,
)
from ring.wire.messages import ChordAnswer, Failed, Leaving, Member, Place
from ring.wire.record_messages import Answer, Entry, Fence, Offer, OfferAnswer
from tests.helpers.bench import Bench, closed, member, opened, sent, told, view_of

RING = [100, 200, 300, 400, 500, 600, 700]
B, C = member(400), member(500)
OTHERS = [member(i) for i in (100, 200, 400, 500)]
RING_LINKS = [member(i) for i in (200, 400, 500, 100)]


def bench() -> Bench:
    """The broker 300 in the ring of RING."""
    return Bench.on_ring(RING, 300)


def test_who_leaves_says_so_and_does_nothing_more() -> None:
    node = bench()
    effects = node.give(Leave())
    assert sent(effects, Leaving) == [], "its turn comes"
    assert node.node.admit(B.peer) is None
    effects = node.wait(LAN.leave_ns / TURNS / NANOS_PER_SECOND, OTHERS)
    assert sent(effects, Leaving) == [(m.uid, Leaving(member(300))) for m in RING_LINKS]
    assert {reason for _, reason in closed(effects)} == {Closed.LEAVING}
    assert told(effects, Left) == [Left()]
    assert node.node.next_deadline() is None
    assert node.receive(B, view_of(400, RING, 9)) == []
    assert node.node.admit(B.peer) is Refused.LEAVING


def test_who_has_left_makes_no_link_anew() -> None:
    """Nobody takes its record, so it goes when its time is up, in the middle of a timer's turn."""
    node = bench()
    node.up(chord := member(700))
    node.receive(chord, Place(chord))
    node.receive(C, ChordAnswer(0, chord))
    node.give(PutRecord("key", b"body"))
    effects = node.give(Leave(turn=0)) + node.wait(LAN.leave_ns / NANOS_PER_SECOND, OTHERS)
    since = effects[effects.index(Notify(Left())) :]
    assert (opened(since), node.node.next_deadline()) == ([], None)


def test_turns_differ_from_broker_to_broker_and_a_second_word_changes_none() -> None:
    turns = set()
    for here in RING:
        node = Bench.on_ring(RING, here)
        node.give(Leave())
        for _ in range(100):
            others = [member(at) for at in RING if at != here]
            if told(node.wait(0.005, others) + node.give(Leave()), Left):
                break
        turns.add(node.now)
        assert node.node.next_deadline() is None
    assert len(turns) > len(RING) // 2


def test_who_has_waited_for_its_turn_already_goes_at_once() -> None:
    node = bench()
    assert 0 <= node.node.draw_turn() < LAN.leave_ns // TURNS
    assert told(node.give(Leave(turn=0)), Left) == [Left()]


def test_who_has_no_neighbours_waits_for_nobody() -> None:
    node = Bench(300)
    node.give(Found())
    assert node.node.draw_turn() == 0
    assert told(node.give(Leave()), Left) == [Left()]


def leaver(turn_s: float) -> tuple[Bench, Member, Entry]:
    """Return one that owns a record and leaves, to whom it offers that, and the claim."""
    node = bench()
    node.give(PutRecord("key", b"body"))
    node.wait(0.1, OTHERS)
    ((heir, offer),) = sent(node.give(Leave(turn=nanos(turn_s))), Offer)
    return node, next(other for other in OTHERS if other.uid == heir), offer.entry


def test_who_has_handed_all_over_still_waits_for_its_turn() -> None:
    node, heir, claim = leaver(0.2)
    effects = node.receive(heir, OfferAnswer("key", claim.epoch, Answer.TAKEN))
    effects += node.wait(0.19, OTHERS)
    assert node.node.records == {}
    assert told(effects, Left) == []
    assert told(node.wait(0.02, OTHERS), Left) == [Left()]


@pytest.mark.parametrize("how", ["handed over", "dropped", "another's"])
def test_who_has_nothing_left_after_its_turn_goes_at_once(how: str) -> None:
    node, heir, claim = leaver(0)
    assert told(node.wait(0.1, OTHERS), Left) == []
    if how == "handed over":
        effects = node.receive(heir, OfferAnswer("key", claim.epoch, Answer.TAKEN))
    elif how == "dropped":
        effects = node.give(DropRecord("key"))
    else:
        later = Entry("key", claim.epoch + 1, claim.place, claim.version, claim.content)
        effects = node.receive(heir, Fence((later,)))
    assert told(effects, Left) == [Left()]


def test_who_stands_still_when_its_turn_comes_hands_over_when_it_wakes() -> None:
    node, heir, claim = leaver(0.2)
    effects = node.oversleep(LAN.leave_ns / NANOS_PER_SECOND + 0.1) + node.wait(0.25, OTHERS)
    assert told(effects, Left) == []
    effects = node.receive(heir, OfferAnswer("key", claim.epoch, Answer.TAKEN))
    assert told(effects, Left) == [Left()]


def test_records_are_offered_to_brokers_that_are_linked() -> None:
    """Of others only views of before say that they are there: they may have left as well."""
    node = bench()
    for number in range(20):
        node.give(PutRecord(f"{number}", b"body"))
    for gone in (member(200), member(100)):
        node.receive(gone, Leaving(gone))
    assert node.node.left != (member(700),), "it is not linked yet"
    effects = node.give(Leave())
    assert len(sent(effects, Offer)) == 20
    assert {to for to, _ in sent(effects, Offer)} <= {B.uid, member(500).uid}


def test_a_neighbour_that_leaves_is_gone_without_suspicion() -> None:
    node = bench()
    effects = node.receive(B, Leaving(B))
    assert told(effects, Departed) == [Departed(B)]
    assert (told(effects, Suspected), told(effects, Confirmed)) == ([], [])
    assert sent(effects, Failed) == []
    assert node.node.right[0] == C


def test_nobody_can_say_goodbye_for_another() -> None:
    node = bench()
    assert told(node.receive(C, Leaving(B)), Departed) == []
    assert node.node.right == (B, C)
