"""Coming back: declared dead by mistake, restarted, or left alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from overlay.ids import NANOS_PER_SECOND, Peer
from overlay.machine import Closed, Effect, LinkRefused, LinkUp, Refused
from ring.config import LAN
from ring.coordination.membership import SEEKS_IN_VAIN
from ring.facts import (
    Alone,
    Departed,
    DutyTaken,
    Found,
    Join,
    Joined,
    PutRecord,
    Rejoining,
    Suspected,
)
from ring.wire.messages import (
    Failed,
    HeldDead,
    JoinAccept,
    Meet,
    Member,
    PeersRequest,
    Place,
    Stance,
    View,
)
from ring.wire.record_messages import Reclaim, ReclaimAnswer
from tests.helpers.bench import Bench, closed, member, opened, peer, sent, told, uid, view_of

RING = [100, 200, 300, 400, 500, 600, 700]
B, C = member(400), member(500)
OTHERS = [member(i) for i in (100, 200, 400, 500)]
RING_LINKS = [member(i) for i in (200, 400, 500, 100)]


def bench(here: int = 300) -> Bench:
    return Bench.on_ring(RING, here)


def seen_alone() -> Bench:
    """The survivor of a ring of two."""
    node = Bench.on_ring([100, 300], 300)
    effects = node.down(member(100))
    while node.now < LAN.alone_ns:
        assert told(effects, Alone) == []
        node.refused(member(100))
        effects = node.wait(0.1)
    assert told(effects, Alone) == [Alone()]
    return node


def unreachable(
    node: Bench, urls: Sequence[str], seconds: int, alive: Sequence[Member] = ()
) -> list[Effect]:
    """Let time pass in which no attempt at a link succeeds; ``urls`` are under way already."""
    effects: list[Effect] = []
    for _ in range(seconds):
        new: list[Effect] = []
        for url in urls:
            new += node.give(LinkRefused(url, None, Refused.UNREACHABLE))
        new += node.wait(1, alive)
        urls = opened(new)
        effects += new
    return effects


# Declared dead by mistake


def test_who_hears_of_its_own_death_comes_back_with_a_larger_incarnation() -> None:
    node = bench()
    effects = node.receive(B, Failed(member(300), (C.uid,), None))
    [rejoining] = told(effects, Rejoining)
    assert rejoining.incarnation == node.node.peer.incarnation == 2
    assert node.node.peer.uid == peer(300).uid
    assert node.node.member is None
    assert {reason for _, reason in closed(effects)} == {Closed.LEAVING}


def test_who_is_closed_as_dead_comes_back_and_asks_the_one_who_said_so() -> None:
    """Whoever declares others dead is on the ring."""
    node = bench()
    effects = node.down(B, Closed.DECLARED_DEAD)
    assert [fact.incarnation for fact in told(effects, Rejoining)] == [2]
    assert B.peer.url in opened(effects)
    assert sent(node.up(B), PeersRequest) == [(B.uid, PeersRequest(stance=Stance.JOINS))]


@pytest.mark.parametrize("expected", [None, B.uid])
def test_who_only_answers_a_call_cannot_declare_us_dead(expected: str | None) -> None:
    node = bench()
    effects = node.give(LinkRefused("chordal://x:1", expected, Refused.DECLARED_DEAD))
    assert told(effects, Rejoining) == []
    assert node.node.member == member(300)


def test_an_answer_about_no_record_is_not_asked_again_at_once() -> None:
    node = bench()
    node.give(PutRecord("key", b"body"))
    node.receive(B, Failed(member(300), (B.uid,), None))
    node.join(B)
    [(asked, request)] = sent(node.receive(B, JoinAccept(300, B, ())), Reclaim)
    assert (asked, [entry.key for entry in request.entries]) == (B.uid, ["key"])
    assert sent(node.receive(B, ReclaimAnswer((), (), ())), Reclaim) == []
    node.receive(B, ReclaimAnswer((), ("key",), ()))
    effects = node.wait(3 * LAN.silence_ns / 1e9, [B])  # the others do not answer
    assert [fact.key for fact in told(effects, DutyTaken)] == ["key"]


def test_old_news_of_ones_own_death_is_ignored() -> None:
    node = bench()
    node.receive(B, Failed(member(300), ("0" * 32,), None))
    node.up(B)
    effects = node.receive(B, Failed(member(300), ("0" * 32,), None))
    assert told(effects, Rejoining) == []
    assert node.node.peer.incarnation == 2


def test_the_way_back_is_a_join_like_any_other() -> None:
    node = bench()
    node.receive(B, Failed(member(300), ("0" * 32,), None))
    node.join(C)
    effects = node.receive(C, JoinAccept(777, C, ()))
    [joined] = told(effects, Joined)
    assert (joined.member.ring_id, joined.member.incarnation) == (777, 2)


# A neighbour that came back


def restarted() -> Bench:
    """B's machine was restarted so fast that nobody has noticed."""
    node = bench()
    effects = node.up(peer(400, incarnation=2))
    assert told(effects, Departed) == [Departed(B)]
    assert told(effects, Suspected) == []
    assert closed(effects) == [], "its new link must not be closed for the old life's sake"
    return node


def test_a_neighbour_that_restarted_has_left_its_place() -> None:
    assert restarted().node.right[0] == C


def test_a_neighbour_that_restarted_may_come_back_to_another_place() -> None:
    node = restarted()
    reborn = View(1, member(400, incarnation=2), (member(300),), (C,))
    node.receive(B, reborn)
    assert node.node.right == (member(400, incarnation=2), C)


def test_an_earlier_life_is_not_let_in() -> None:
    node = restarted()
    assert node.node.admit(B.peer) is Refused.UID_IN_USE
    assert node.node.admit(peer(400, incarnation=2)) is None


@pytest.mark.parametrize(
    ("other", "answer"),
    [
        (peer(300), Refused.SELF),
        (peer(400), None),
        (peer(9000), None),
    ],
)
def test_who_may_link(other: Peer, answer: Refused | None) -> None:
    assert bench().node.admit(other) is answer


def test_a_second_process_under_a_uid_that_is_linked_is_not_let_in() -> None:
    node = bench()
    assert node.node.admit(replace(B.peer, url="chordal://elsewhere:1")) is Refused.UID_IN_USE
    assert node.node.admit(replace(B.peer, incarnation=0)) is Refused.UID_IN_USE
    ours = replace(node.node.peer, url="chordal://elsewhere:1")
    assert node.node.admit(ours) is Refused.UID_IN_USE


# Alone


def test_who_has_lost_everybody_goes_on_as_a_ring_of_one_and_knocks() -> None:
    node = seen_alone()
    assert node.node.member == member(300)
    assert (node.node.left, node.node.right) == ((), ())
    effects = node.wait(1.5 * LAN.knock_ns / 1e9)
    assert opened(effects) == [member(100).peer.url]


def test_verdicts_of_who_was_cut_off_do_not_count() -> None:
    """Who seems to be the last is more likely to have been cut off, and tells nobody off."""
    node, other = seen_alone(), member(100)
    assert sent(node.up(other), HeldDead) == []
    node.receive(other, Place(other))
    assert node.node.right == (other,)


def test_a_founder_that_nobody_has_joined_does_not_knock() -> None:
    node = Bench(0)
    assert told(node.give(Found()), Alone) == []
    assert opened(node.wait(300)) == []


def test_of_two_that_have_lost_each_other_neither_moves_when_they_meet_again() -> None:
    node, other = seen_alone(), member(100)
    [url] = opened(node.wait(1.5 * LAN.knock_ns / 1e9))
    effects = node.up(other)
    assert url == other.peer.url
    assert sent(effects, Meet) == [(other.uid, Meet(member(300), other.uid, 0))]
    effects = node.receive(other, Meet(other, uid(300), 0))
    effects += node.receive(other, Place(other))
    assert told(effects, Rejoining) == []
    assert (node.node.left, node.node.right) == ((other,), (other,))


def test_a_member_tries_its_lost_peers_now_and_then() -> None:
    """They may be back, or belong to another ring: after a cut, for example."""
    node = bench()
    node.receive(C, Failed(B, (C.uid,), None))
    node.up(member(600))
    rest = [i for i in RING if i != 400]
    for at in (100, 200, 500, 600):
        node.receive(member(at), view_of(at, rest, 2))
    effects = unreachable(node, [], 300, alive=[*OTHERS, member(600)])
    assert opened(effects).count(B.peer.url) in range(5, 20)


def test_who_finds_no_ring_any_more_founds_one() -> None:
    """Else brokers that lost their places together would wait for one another forever."""
    node = bench()
    effects = node.receive(B, Failed(member(300), ("0" * 32,), None))
    effects += unreachable(node, opened(effects), 4 * LAN.retry_max_ns // NANOS_PER_SECOND)
    [joined] = told(effects, Joined)
    assert joined.member.incarnation == 2
    assert told(effects, Alone) == [Alone()]


def test_a_newcomer_that_finds_no_ring_founds_none() -> None:
    """It was given addresses of a ring; that nobody answers there yet makes it no founder."""
    node, seed = Bench(5001), member(0).peer.url
    calls = node.give(Join((seed,)))
    effects = unreachable(node, opened(calls), 4 * LAN.retry_max_ns // NANOS_PER_SECOND)
    assert opened(effects).count(seed) > SEEKS_IN_VAIN
    assert told(effects, Joined) == []
    assert node.node.member is None


def test_a_link_replaced_by_one_of_the_same_life_changes_nothing() -> None:
    node = bench()
    effects = node.give(LinkUp(B.peer, B.peer.url))
    assert (told(effects, Departed), told(effects, Suspected)) == ([], [])
    node.receive(B, view_of(400, RING, 2))
    assert node.node.right == (B, C)
