"""Newcomers that the layer above the ring leads to an arc."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from overlay.ids import Nanos, Peer
from overlay.machine import Effect, MessageReceived
from ring.facts import JoinDelayed, JoinRejected, Move, Rejoining
from ring.geometry import RING_SIZE, clockwise, gap
from ring.joining.gap_choice import Request, Sight, Verdict
from ring.joining.gap_owner import GUIDED_HOPS
from ring.joining.guide import ANYWHERE, Aim, Lead, Way
from ring.joining.span import Span, choose_inside
from ring.wire.messages import JoinAccept, JoinRefuse, JoinRequest, Peers, Wish
from tests.helpers.bench import Bench, member, opened, peer, sent, told, uid

U = 2**28
RING = [0, 2 * U, 4 * U, 10 * U, 12 * U, 14 * U]
NEW, OTHER = peer(5001), peer(5002)


@dataclass
class Guide:
    """Says the same to everybody."""

    says: Lead = ANYWHERE
    wish: Wish = ()
    judges: Lead | None = None
    aims: Aim | None = None

    def lead(self, newcomer: Peer, wish: Wish, now: Nanos) -> Lead:
        return self.says

    def aim(self, now: Nanos) -> Aim | None:
        return self.aims

    def judge(
        self, newcomer: Peer, place: int, *, is_led: bool, is_aimed: bool = False
    ) -> Lead | None:
        return self.judges


def guided(here: int, says: Lead) -> Bench:
    bench = Bench.on_ring(RING, here)
    bench.node.be_guided(Guide(says))
    return bench


def ask(bench: Bench, newcomer: Peer = NEW, **fields: object) -> list[Effect]:
    bench.up(newcomer)
    request = JoinRequest(newcomer, **{"hops": 0, "insert": False, "wish": ("a",), **fields})  # type: ignore[arg-type]
    return bench.give(MessageReceived(newcomer.uid, request))


def test_the_request_goes_to_who_stands_first_in_the_arc() -> None:
    arc = Lead(Way.ASK, 9 * U, 13 * U)
    [(receiver, onward)] = sent(ask(guided(4 * U, arc)), JoinRequest)
    assert receiver == uid(10 * U), "the right neighbour, as the arc begins before it"
    assert (onward.hops, onward.insert, onward.wish) == (1, False, ("a",))
    assert opened(ask(guided(14 * U, arc))) == [member(4 * U).peer.url], "nearest before the arc"


def test_where_nobody_stands_in_the_arc_the_newcomer_stands_where_it_begins() -> None:
    bench = guided(4 * U, Lead(Way.ASK, 6 * U, 9 * U))
    [(_, accept)] = sent(ask(bench), JoinAccept)
    assert accept.ring_id == 6 * U
    [(_, refuse)] = sent(ask(bench, OTHER), JoinRefuse)
    assert refuse == JoinRefuse(full=False, reason="another broker is about to form that unit")
    [(_, again)] = sent(ask(bench), JoinAccept)
    assert again == accept


def test_who_is_asked_as_the_first_and_does_not_know_refuses_for_the_moment() -> None:
    bench = guided(10 * U, Lead(Way.ASK, 9 * U, 13 * U))
    [(_, refuse)] = sent(ask(bench), JoinRefuse)
    assert (refuse.full, bool(refuse.reason)) == (False, True)


def test_a_request_that_goes_round_and_round_is_refused() -> None:
    bench = guided(4 * U, Lead(Way.ASK, 13 * U, 15 * U))
    assert sent(ask(bench, hops=GUIDED_HOPS - 1), JoinRequest) != []
    [(_, refuse)] = sent(ask(bench, OTHER, hops=GUIDED_HOPS), JoinRefuse)
    assert not refuse.full


def test_the_place_is_midway_in_the_part_of_the_gap_that_lies_in_the_arc() -> None:
    bench = guided(4 * U, Lead(Way.INSIDE, 3 * U, 6 * U))
    [(_, accept)] = sent(ask(bench, insert=True, lo=3 * U, hi=6 * U), JoinAccept)
    assert accept.ring_id == 5 * U


def test_a_newcomer_says_what_it_wishes_and_gives_up_where_that_is_refused_for_good() -> None:
    bench = Bench(5001)
    bench.node.be_guided(Guide(wish=("eu", "fra")))
    contact = member(0)
    [(_, request)] = sent(bench.join(contact), JoinRequest)
    assert request == JoinRequest(peer(5001), 0, insert=False, wish=("eu", "fra"))
    [rejected] = told(bench.receive(contact, JoinRefuse(full=True, reason="full")), JoinRejected)
    assert rejected.reason == "full"


def test_a_newcomer_asks_again_soon_where_it_is_to_wait() -> None:
    bench, contact = Bench(5001), member(0)
    bench.node.be_guided(Guide(wish=("eu",)))
    bench.join(contact)
    pauses = []
    for _ in range(8):
        forming = JoinRefuse(full=False, reason="forming")
        [delayed] = told(bench.receive(contact, forming), JoinDelayed)
        assert delayed.reason == "forming"
        pauses.append(delayed.retry_ns / 1e9)
        bench.wait(pauses[-1], [contact])
        assert sent(bench.measure(contact), JoinRequest) != []
    assert max(pauses) < 2


def test_one_that_moves_and_is_refused_goes_without_its_wish() -> None:
    bench = Bench.on_ring(RING, 4 * U)
    bench.node.be_guided(Guide(wish=("eu",)))
    assert told(bench.give(Move("it stands elsewhere")), Rejoining) != []
    contact = member(2 * U)
    bench.up(contact)
    [(_, request)] = sent(bench.measure(contact), JoinRequest)
    assert request.wish == ("eu",)
    [delayed] = told(bench.receive(contact, JoinRefuse(full=True, reason="full")), JoinDelayed)
    bench.wait(delayed.retry_ns / 1e9, [contact])
    bench.receive(contact, Peers((contact,)))
    [(_, request)] = sent(bench.measure(contact), JoinRequest)
    assert request.wish == ()


def test_one_that_is_alone_or_on_no_ring_does_not_move() -> None:
    assert Bench(1).give(Move("no")) == []


# Places in an arc


@given(
    st.sets(st.integers(0, RING_SIZE - 1), min_size=1, max_size=20),
    st.integers(0, RING_SIZE - 1),
    st.integers(1, RING_SIZE),
    st.integers(0, 2**32),
)
def test_whoever_is_asked_the_place_lies_in_the_arc(
    places: set[int], lo: int, width: int, seed: int
) -> None:
    """The request goes from broker to broker, each of which sees four to each side."""
    span, rng = Span(lo, (lo + width) % RING_SIZE), random.Random(seed)
    ring = sorted(places)
    here, asked = rng.choice(ring), False
    for jumps in range(GUIDED_HOPS + 2):
        at, n = ring.index(here), len(ring)
        rights = [ring[(at + i) % n] for i in range(1, min(5, n))]
        lefts = [ring[(at - i) % n] for i in range(1, min(5, n - len(rights)))]
        room = gap(here, rights[0]) if rights else RING_SIZE
        sight = Sight(here, room, lefts, rights, whole=n < 9)
        choice = choose_inside(sight, Request(f"{seed}", jumps, asked), span, GUIDED_HOPS)
        if choice.verdict is Verdict.INSERT:
            place = span.middle(here, room)
            assert place is not None
            assert span.holds(place)
            assert place not in places
            assert clockwise(here, place) < room
            return
        if choice.verdict is Verdict.FULL:
            free = sum(span.part(a, gap(a, b))[1] for a, b in zip(ring, ring[1:] + ring[:1]))  # noqa: B905
            assert free < 64, "there are a few free places out of sight, at most"
            return
        here, asked = choice.ring_id, choice.verdict is Verdict.ASK
    raise AssertionError("the request has not come to an end")


def test_one_that_is_aimed_asks_for_just_that_place() -> None:
    """Its whole unit moves: it does not say what it wishes, and no guide leads it elsewhere."""
    bench = Bench.on_ring(RING, 4 * U)
    bench.node.be_guided(Guide(wish=("eu",), aims=Aim(11 * U, 11 * U + 1)))
    assert told(bench.give(Move("its unit moves")), Rejoining) != []
    contact = member(2 * U)
    bench.up(contact)
    [(_, request)] = sent(bench.measure(contact), JoinRequest)
    assert (request.lo, request.hi, request.asks) == (11 * U, 11 * U + 1, True)
    assert (request.wish, request.insert) == ((), False)


def test_the_owner_of_the_gap_gives_just_the_place_that_is_asked_for() -> None:
    bench = guided(4 * U, Lead(Way.NEVER, reason="the guide is not asked"))
    place = 7 * U + 5
    [(_, accept)] = sent(ask(bench, wish=(), lo=place, hi=place + 1, asks=True), JoinAccept)
    assert accept.ring_id == place
    other = guided(12 * U, ANYWHERE)
    passed_on = ask(other, wish=(), lo=place, hi=place + 1, asks=True)
    assert sent(passed_on, JoinAccept) == [], "it owns another gap"


def test_a_place_at_which_somebody_stands_is_not_given_twice() -> None:
    bench = guided(4 * U, ANYWHERE)
    aimed = ask(bench, wish=(), lo=4 * U, hi=4 * U + 1, asks=True)
    [(_, refuse)] = sent(aimed, JoinRefuse)
    assert refuse == JoinRefuse(full=False, reason="another broker stands at that place")
