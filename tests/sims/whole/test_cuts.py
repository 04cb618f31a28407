"""Pairs of hosts that are cut off from each other, as the machines see it."""

from __future__ import annotations

import pytest

from overlay.ids import nanos
from overlay.machine import (
    Closed,
    LinkDown,
    LinkRefused,
    LinkUp,
    MessageReceived,
    OpenLink,
    Refused,
    Send,
)
from ring.wire.messages import Heartbeat
from sims.world.cuts import Cut
from sims.world.world import CONNECT_TIMEOUT_NS
from tests.sims.world.test_world import A, B, Pair

BEAT = Heartbeat(1)


@pytest.fixture
def linked() -> Pair:
    pair = Pair()
    pair.link()
    return pair


def test_what_is_under_way_when_a_pair_is_cut_is_lost(linked: Pair) -> None:
    linked.a_does(Send(B.uid, BEAT))
    linked.world.cut(A.uid, B.uid)
    linked.b_does(Send(A.uid, BEAT))
    linked.run()
    assert (linked.a.inputs, linked.b.inputs) == ([], []), "and the link still looks up"


def test_a_silent_link_stays_silent_when_the_pair_is_mended(linked: Pair) -> None:
    """Some of what was sent is lost, and messages on one link come in order or not at all."""
    linked.world.cut(A.uid, B.uid)
    linked.world.mend(A.uid, B.uid)
    linked.a_does(Send(B.uid, BEAT))
    linked.run()
    assert linked.b.inputs == []
    linked.a_does(OpenLink(B.url, B.uid))
    linked.run()
    assert linked.a.inputs == [LinkRefused(B.url, B.uid, Refused.DUPLICATE)]


def test_one_way_only_what_one_end_sends_is_lost(linked: Pair) -> None:
    linked.world.cut(A.uid, B.uid, one_way=True)
    linked.a_does(Send(B.uid, BEAT))
    linked.b_does(Send(A.uid, BEAT))
    linked.run()
    assert (linked.a.inputs, linked.b.inputs) == ([MessageReceived(B.uid, BEAT)], [])


def test_a_broken_link_closes_at_both_ends(linked: Pair) -> None:
    linked.world.cut(A.uid, B.uid, Cut.BROKEN)
    linked.run()
    assert linked.a.inputs == [LinkDown(B.uid, Closed.LOST)]
    assert linked.b.inputs == [LinkDown(A.uid, Closed.LOST)]


@pytest.mark.parametrize("one_way", [False, True])
@pytest.mark.parametrize("caller", [A, B])
def test_no_call_gets_through_until_the_pair_is_mended(caller: object, one_way: bool) -> None:
    pair = Pair()
    pair.world.cut(A.uid, B.uid, one_way=one_way)
    call, seen, other = (pair.a_does, pair.a, B) if caller is A else (pair.b_does, pair.b, A)
    call(OpenLink(other.url, other.uid))
    pair.run(3)
    assert seen.seen == [(CONNECT_TIMEOUT_NS, LinkRefused(other.url, other.uid, Refused.TIMEOUT))]
    pair.world.mend(A.uid, B.uid)
    call(OpenLink(other.url, other.uid))
    pair.run()
    assert seen.inputs[1:] == [LinkUp(other, other.url)]


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.2, 0.3])
def test_a_call_under_way_when_the_pair_is_cut_fails_or_goes_silent(after_s: float) -> None:
    pair = Pair()
    pair.a_does(OpenLink(B.url, B.uid))
    pair.run(after_s)
    pair.world.cut(A.uid, B.uid)
    pair.run(5)
    assert pair.a.inputs in ([LinkRefused(B.url, B.uid, Refused.TIMEOUT)], [LinkUp(B, B.url)])
    pair.a.seen.clear()
    pair.b.seen.clear()
    pair.a_does(Send(B.uid, BEAT))
    pair.b_does(Send(A.uid, BEAT))
    pair.run()
    assert (pair.a.inputs, pair.b.inputs) == ([], [])


def test_all_others_reach_both(linked: Pair) -> None:
    linked.world.cut(A.uid, "c" * 32)
    linked.a_does(Send(B.uid, BEAT))
    linked.run()
    assert linked.b.seen[-1][0] > nanos(1)
    assert linked.b.inputs == [MessageReceived(A.uid, BEAT)]
