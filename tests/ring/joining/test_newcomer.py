"""Joining the ring: the newcomer's way, and the gap owner's rules (paper 004, section 3.3)."""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush

import pytest

from overlay.ids import NANOS_PER_SECOND, Peer
from overlay.machine import Effect, LinkRefused, MessageReceived, OpenLink, Refused, Send
from ring import geometry
from ring.config import LAN, GapRule, RingConfig
from ring.facts import Found, Join, JoinDelayed, Joined, JoinRejected, Reseed
from ring.geometry import SECOND_ID, clockwise
from ring.joining.newcomer import PINGS, UNANSWERED
from ring.wire.messages import (
    ChordAnswer,
    JoinAccept,
    JoinRefuse,
    JoinRequest,
    Member,
    Peers,
    PeersRequest,
    Ping,
    Place,
    Pong,
    Stance,
    View,
)
from tests.helpers.bench import Bench, member, opened, peer, sent, told, uid, view_of

#: A sixteenth of the circle. The gap from 4 to 10 is the widest of the ring below.
U = 2**28
RING = [0, 2 * U, 4 * U, 10 * U, 12 * U, 14 * U]
NEW, OTHER = peer(5001), peer(5002)

PUBLISHED = replace(LAN, gap_rule=GapRule.PUBLISHED)


def ask(bench: Bench, newcomer: Peer, hops: int = 0, *, insert: bool = False) -> list[Effect]:
    """The newcomer, linked, sends its request itself."""
    bench.up(newcomer)
    return bench.give(MessageReceived(newcomer.uid, JoinRequest(newcomer, hops, insert=insert)))


def place(effects: list[Effect], newcomer: Peer) -> int:
    """Return the one id that the effects offer to the newcomer."""
    [(receiver, accept)] = sent(effects, JoinAccept)
    assert receiver == newcomer.uid
    return accept.ring_id


# The owner of a gap


def test_a_chord_to_a_life_that_is_over_leads_nowhere_though_a_later_life_is_linked() -> None:
    """The broker that held the chord is back and asks for a place: it would be sent to itself."""
    bench = Bench.on_ring([100, 200, 300, 400, 500, 600, 700], 300)
    second, gone = bench.node.right[1], member(15 * U)
    bench.receive(second, ChordAnswer(0, gone, 2))
    assert gone in bench.node.chords
    effects = ask(bench, peer(15 * U, 2))
    assert [request.newcomer.uid for _, request in sent(effects, JoinRequest)] == []
    assert member(700).peer.url in opened(effects), "it owns the widest gap"
    assert gone not in bench.node.chords


def test_a_chord_is_not_made_of_a_life_that_is_over() -> None:
    bench = Bench.on_ring(RING, 4 * U)
    second, back = bench.node.right[1], peer(15 * U, 2)
    bench.up(back)
    bench.receive(second, ChordAnswer(0, member(15 * U), 2))
    assert bench.node.chords == (second,)


def test_the_id_is_midway_in_the_owners_gap() -> None:
    """Section 3.3: the new node gets the id midway between its neighbours."""
    effects = ask(Bench.on_ring(RING, 4 * U), NEW)
    [(receiver, accept)] = sent(effects, JoinAccept)
    assert (receiver, accept.ring_id, accept.owner) == (NEW.uid, 7 * U, member(4 * U))
    assert set(accept.neighbours) == {member(i) for i in RING if i != 4 * U}


def test_the_contact_passes_the_request_to_the_owner_of_the_widest_gap() -> None:
    effects = ask(Bench.on_ring(RING, 2 * U), NEW)
    assert sent(effects, JoinRequest) == [(uid(4 * U), JoinRequest(NEW, 1, insert=True))]
    assert sent(effects, JoinAccept) == []


def test_a_gap_belongs_to_the_broker_at_its_left_end() -> None:
    """Departs from the published listing, where either end inserts: so no two race for a gap."""
    effects = ask(Bench.on_ring(RING, 10 * U), NEW)
    assert sent(effects, JoinRequest) == [(uid(4 * U), JoinRequest(NEW, 1, insert=True))]


def test_the_chosen_owner_inserts_even_if_it_knows_wider_gaps() -> None:
    assert place(ask(Bench.on_ring(RING, 2 * U), NEW, 1, insert=True), NEW) == 3 * U


@pytest.mark.parametrize(
    ("contact", "owner"), [(10 * U, 4 * U), (4 * U, None), (12 * U, 10 * U), (2 * U, 0)]
)
def test_the_published_rule_offers_the_wider_of_the_contacts_own_gaps(
    contact: int, owner: int | None
) -> None:
    """Section 3.3: joined left or right depending on which side has more id space, else left."""
    effects = ask(Bench.on_ring(RING, contact, PUBLISHED), NEW)
    if owner is None:
        assert clockwise(contact, place(effects, NEW)) == 3 * U
    else:
        assert sent(effects, JoinRequest) == [(uid(owner), JoinRequest(NEW, 1, insert=True))]


def test_the_widest_rule_offers_gaps_that_only_views_show() -> None:
    effects = ask(Bench.on_ring(RING, 12 * U), NEW)
    assert sent(effects, JoinRequest) == [(uid(4 * U), JoinRequest(NEW, 1, insert=True))]


def test_the_second_broker_gets_the_published_id() -> None:
    """Section 3.2: the first two brokers have the ids 0 and 2^16 - 1."""
    bench = Bench(0)
    assert told(bench.give(Found()), Joined) == [Joined(member(0), None, None)]
    assert place(ask(bench, NEW), NEW) == SECOND_ID


def test_the_third_broker_goes_into_the_wider_gap() -> None:
    bench = Bench.on_ring([0, SECOND_ID], SECOND_ID)
    assert place(ask(bench, NEW), NEW) == 2**31 + SECOND_ID // 2


# Joins that race


def test_racing_newcomers_get_different_ids() -> None:
    bench = Bench.on_ring(RING, 4 * U)
    first = place(ask(bench, NEW, insert=True), NEW)
    second = place(ask(bench, OTHER, insert=True), OTHER)
    assert (first, second) == (7 * U, 4 * U + 3 * U // 2)


def test_what_is_reserved_makes_a_gap_narrower() -> None:
    """From 2 to 8 is the widest gap until somebody is on the way into it."""
    bench = Bench.on_ring([0, 2 * U, 8 * U, 12 * U], 2 * U)
    assert place(ask(bench, NEW), NEW) == 5 * U
    onward = JoinRequest(OTHER, 1, insert=True)
    assert sent(ask(bench, OTHER), JoinRequest) == [(uid(8 * U), onward)]


def test_a_repeated_request_gets_the_same_id() -> None:
    bench = Bench.on_ring(RING, 4 * U)
    assert place(ask(bench, NEW), NEW) == place(ask(bench, NEW), NEW) == 7 * U


def test_an_id_is_free_again_if_its_newcomer_does_not_come() -> None:
    bench = Bench.on_ring(RING, 4 * U)
    neighbours = [member(i) for i in RING]
    ask(bench, NEW, insert=True)
    bench.wait(3 * LAN.join_ns / NANOS_PER_SECOND, alive=neighbours)
    assert place(ask(bench, OTHER, insert=True), OTHER) == 7 * U


def test_a_newcomer_is_told_which_ids_to_its_right_are_promised() -> None:
    """What lies between it and the next member will be its own gap, but somebody may yet come."""
    bench = Bench.on_ring(RING, 4 * U)
    ask(bench, NEW, insert=True)
    [(_, accept)] = sent(ask(bench, OTHER, insert=True), JoinAccept)
    assert accept.ring_id == 4 * U + 3 * U // 2
    assert accept.reserved == (Member(NEW, 7 * U),)
    [(_, first)] = sent(ask(bench, NEW, insert=True), JoinAccept)
    assert first.reserved == ()


def heir(config: RingConfig = LAN) -> tuple[Bench, Member]:
    """A broker that joined at 4U while somebody else was promised 7U, to its right."""
    bench, owner, right, promised = Bench(4 * U, config), member(0), member(10 * U), member(7 * U)
    bench.join(owner)
    bench.receive(owner, JoinAccept(4 * U, owner, (right,), (promised,)))
    bench.up(right)
    bench.receive(owner, view_of(0, [0, 4 * U, 10 * U]))
    bench.receive(right, view_of(10 * U, [0, 4 * U, 10 * U]))
    assert bench.node.member == member(4 * U)
    return bench, promised


def test_an_inherited_promise_is_kept() -> None:
    """Else both would have been given 7U."""
    bench, promised = heir()
    assert place(ask(bench, NEW, insert=True), NEW) == 4 * U + 3 * U // 2
    bench.up(promised)
    bench.receive(promised, view_of(7 * U, [0, 4 * U, 7 * U, 10 * U]))
    assert bench.node.right[0] == promised


def test_an_inherited_promise_ends() -> None:
    bench, _ = heir()
    bench.wait(3 * LAN.join_ns / NANOS_PER_SECOND, alive=[member(0), member(10 * U)])
    assert place(ask(bench, NEW, insert=True), NEW) == 7 * U


def test_another_broker_with_our_own_id_does_not_make_the_gap_the_whole_circle() -> None:
    """As when we were given the id of a broker whose death not everybody has seen."""
    bench = Bench.on_ring(RING, 4 * U)
    twin = Member(peer(4 * U + 1), 4 * U)
    bench.up(twin)
    bench.receive(twin, View(1, twin, (), ()))
    assert bench.node.right[0] == twin
    assert place(ask(bench, NEW, insert=True), NEW) == 7 * U


# No room


def crowd(config: RingConfig = LAN) -> Bench:
    """The middle one of 13 brokers with adjacent ids: it sees four on each side, no free id."""
    return Bench.on_ring(range(1000, 1013), 1006, config)


@pytest.mark.parametrize("insert", [False, True])
def test_where_all_is_full_the_request_moves_on_to_the_right(insert: bool) -> None:
    """Section 3.3: there is no id space, hence request the right-right neighbour."""
    bench = crowd()
    effects = ask(bench, NEW, insert=insert)
    assert sent(effects, JoinAccept) == []
    onward = JoinRequest(NEW, 1, insert=False)
    [right_right] = bench.node.chords
    assert sent(effects, JoinRequest) == [(right_right.uid, onward)]


def test_a_request_passed_on_too_often_is_refused() -> None:
    effects = ask(crowd(), NEW, LAN.join_hops)
    assert sent(effects, JoinRefuse) == [(NEW.uid, JoinRefuse(full=True))]


def test_a_ring_known_to_be_full_all_round_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(geometry, "RING_SIZE", 6)
    assert sent(ask(Bench.on_ring(range(6), 3), NEW), JoinRefuse) == [
        (NEW.uid, JoinRefuse(full=True))
    ]


def test_a_request_passed_on_too_often_takes_whatever_fits() -> None:
    effects = ask(Bench.on_ring(RING, 4 * U, replace(LAN, join_hops=0)), NEW)
    assert place(effects, NEW) == 7 * U


def test_who_finds_all_room_promised_to_others_is_to_ask_again() -> None:
    """More come to a lone broker at once than have room before the second one."""
    bench = Bench(0)
    bench.give(Found())
    answers = [ask(bench, peer(5000 + number)) for number in range(40)]
    accepted = [
        place(a, peer(5000 + number)) for number, a in enumerate(answers) if sent(a, JoinAccept)
    ]
    assert accepted[0] == SECOND_ID
    refused = [refuse for a in answers for _, refuse in sent(a, JoinRefuse)]
    assert len(accepted) + len(refused) == 40
    assert len(refused) > 0
    assert set(refused) == {JoinRefuse(full=False)}


def test_a_newcomer_refused_for_lack_of_room_gives_up_and_says_why() -> None:
    bench = Bench(5001)
    bench.join(member(0))
    [rejected] = told(bench.receive(member(0), JoinRefuse(full=True)), JoinRejected)
    assert "full" in rejected.reason
    assert bench.node.member is None
    assert opened(bench.wait(60)) == []


def test_a_newcomer_is_told_of_a_full_ring_however_many_requests_were_lost_before() -> None:
    """That a contact asked for room beside it has none says nothing of the ring; the next may."""
    bench, contact = Bench(5001), member(0)
    bench.join(contact)
    for _ in range(UNANSWERED):
        [delayed] = told(bench.wait(LAN.join_ns / 1e9, [contact]), JoinDelayed)
        bench.wait(delayed.retry_ns / 1e9, [contact])
        effects = bench.measure(contact)
    beside_it = JoinRequest(peer(5001), LAN.join_hops, insert=True)
    assert sent(effects, JoinRequest) == [(contact.uid, beside_it)]
    [delayed] = told(bench.receive(contact, JoinRefuse(full=True)), JoinDelayed)
    bench.wait(delayed.retry_ns / 1e9, [contact])
    anywhere = JoinRequest(peer(5001), 0, insert=False)
    assert sent(bench.measure(contact), JoinRequest) == [(contact.uid, anywhere)]
    assert told(bench.receive(contact, JoinRefuse(full=True)), JoinRejected) != []


def test_who_is_no_member_itself_refuses_and_the_newcomer_tries_again() -> None:
    effects = ask(Bench(1), NEW)
    assert sent(effects, JoinRefuse) == [(NEW.uid, JoinRefuse(full=False))]
    bench = Bench(5001)
    bench.join(member(0))
    [delayed] = told(bench.receive(member(0), JoinRefuse(full=False)), JoinDelayed)
    assert sent(bench.wait(delayed.retry_ns / 1e9), PeersRequest) == [
        (uid(0), PeersRequest(named=True, stance=Stance.JOINS))
    ]


# The newcomer's way


def test_a_newcomer_asks_measures_and_requests() -> None:
    """Section 3.3: ping brokers, select y among the closest, send-join-request."""
    bench, seed = Bench(5001), member(0)
    assert bench.give(Join((seed.peer.url,))) == [OpenLink(seed.peer.url)]
    assert bench.up(seed) == [Send(seed.uid, PeersRequest(named=True))]
    assert sent(bench.receive(seed, Peers((seed,))), Ping) == [(seed.uid, Ping(1))]
    for token in range(1, PINGS):
        assert sent(bench.receive(seed, Pong(token)), Ping) == [(seed.uid, Ping(token + 1))]
    effects = bench.receive(seed, Pong(PINGS))
    assert sent(effects, JoinRequest) == [(seed.uid, JoinRequest(peer(5001), 0, insert=False))]


def test_a_newcomer_is_on_the_ring_once_its_neighbours_are_linked() -> None:
    bench, owner, right = Bench(5001), member(0), member(8 * U)
    bench.join(owner)
    effects = bench.receive(owner, JoinAccept(4 * U, owner, (right,)))
    assert (opened(effects), told(effects, Joined)) == ([right.peer.url], [])
    assert bench.node.member is None
    [joined] = told(bench.up(right), Joined)
    assert (joined.member.ring_id, joined.contact) == (4 * U, owner.uid)
    assert joined.round_trip_ns == 0


@pytest.mark.parametrize("says_so_itself", [True, False])
def test_a_newcomer_whose_id_another_has_come_to_hold_asks_for_another(
    says_so_itself: bool,
) -> None:
    """The owner that promised it has died, and the next one knew nothing of that."""
    bench, owner, right = Bench(5001), member(0), member(8 * U)
    other = Member(peer(5002), 4 * U)
    bench.join(owner)
    bench.receive(owner, JoinAccept(4 * U, owner, (right,)))
    if says_so_itself:
        bench.up(other)
        effects = bench.receive(other, Place(other)) + bench.up(right)
    else:  # its link is up before its word is there
        bench.receive(owner, View(2, owner, (right,), (other, right)))
        assert told(bench.up(right), Joined) == []
        effects = bench.up(other)
    [delayed] = told(effects, JoinDelayed)
    assert "taken" in delayed.reason
    assert told(effects, Joined) == []
    assert sent(bench.wait(delayed.retry_ns / 1e9), PeersRequest) != []


def test_a_newcomer_takes_a_place_where_only_the_dead_are_said_to_stand() -> None:
    bench, owner, right = Bench(5001), member(0), member(8 * U)
    dead = Member(peer(5002), 4 * U)
    bench.join(owner)
    bench.receive(owner, JoinAccept(4 * U, owner, (right,)))
    bench.receive(owner, View(2, owner, (right,), (dead, right)))
    assert told(bench.up(right), Joined) == []
    [joined] = told(bench.refused(dead), Joined)
    assert joined.member.ring_id == 4 * U


def test_a_neighbour_that_cannot_be_linked_does_not_keep_a_newcomer_out() -> None:
    bench, owner, dead = Bench(5001), member(0), member(8 * U)
    bench.join(owner)
    bench.receive(owner, JoinAccept(4 * U, owner, (dead,)))
    assert told(bench.refused(dead), Joined) != []


def test_the_contact_is_one_of_the_nearest() -> None:
    """Section 3.3: random select y from the list of closest neighbours."""
    contacts = {contact_among(name, delays_ms=[5, 1, 9, 2, 3, 7]) for name in range(6001, 6025)}
    assert contacts == {member(i) for i in (1, 3, 4)}


def contact_among(name: int, delays_ms: list[int]) -> Member:
    """Return whom the newcomer ``name`` asks if the brokers 0, 1, ... answer with these delays."""
    bench, brokers = Bench(name), [member(i) for i in range(len(delays_ms))]
    delays = {m.uid: delay * 1_000_000 for m, delay in zip(brokers, delays_ms, strict=True)}
    bench.give(Join((brokers[0].peer.url,)))
    bench.up(brokers[0])
    effects = bench.receive(brokers[0], Peers(tuple(brokers)))
    for broker in brokers[1:]:
        effects += bench.up(broker)
    answers: list[tuple[int, str, int]] = []
    while not sent(effects, JoinRequest):
        for asked, ping in sent(effects, Ping):
            heappush(answers, (bench.now + delays[asked], asked, ping.token))
        bench.now, answering, token = heappop(answers)
        effects = bench.give(MessageReceived(answering, Pong(token)))
    [(contact, _)] = sent(effects, JoinRequest)
    return next(broker for broker in brokers if broker.uid == contact)


def test_who_does_not_answer_in_time_is_not_chosen() -> None:
    bench, near, mute = Bench(5001), member(1), member(2)
    bench.give(Join((near.peer.url,)))
    bench.up(near)
    bench.receive(near, Peers((near, mute)))
    bench.up(mute)
    for token in range(1, PINGS + 1):
        assert sent(bench.receive(near, Pong(token)), JoinRequest) == []
    assert [to for to, _ in sent(bench.wait(LAN.measure_ns / 1e9), JoinRequest)] == [near.uid]


def test_a_lost_answer_is_asked_for_again() -> None:
    bench, seed = Bench(5001), member(0)
    bench.join(seed)
    effects = bench.wait(LAN.join_ns / 1e9)
    [delayed] = told(effects, JoinDelayed)
    assert "asking" in delayed.reason
    assert sent(bench.wait(delayed.retry_ns / 1e9), PeersRequest) == [
        (seed.uid, PeersRequest(named=True, stance=Stance.JOINS))
    ]


def test_seeds_that_are_down_are_tried_again_with_growing_pauses() -> None:
    bench, seed = Bench(5001), member(0)
    bench.give(Join((seed.peer.url,)))
    pauses = []
    for _ in range(8):
        effects = bench.give(LinkRefused(seed.peer.url, None, Refused.UNREACHABLE))
        [delayed] = told(effects, JoinDelayed)
        assert seed.peer.url in delayed.reason
        pauses.append(delayed.retry_ns)
        assert opened(bench.wait(delayed.retry_ns / 1e9)) == [seed.peer.url]
    assert pauses[-1] > 8 * pauses[0]
    assert max(pauses) <= 1.5 * LAN.retry_max_ns


@pytest.mark.parametrize("patient", [False, True])
def test_a_seed_of_another_overlay_ends_the_join_only_if_somebody_has_named_it(
    patient: bool,
) -> None:
    bench, seed = Bench(5001), member(0)
    bench.give(Join((seed.peer.url,), patient=patient))
    refused = bench.give(LinkRefused(seed.peer.url, None, Refused.OTHER_OVERLAY))
    assert bool(told(refused, JoinRejected)) is not patient
    again = seed.peer.url in opened(bench.wait(10))
    assert again is patient, "it may be another one's by then"


def test_a_newcomer_goes_by_a_list_that_has_changed() -> None:
    bench, seed, other = Bench(5001), member(0), member(8 * U)
    assert opened(bench.give(Join((seed.peer.url,)))) == [seed.peer.url]
    assert opened(bench.give(Reseed((other.peer.url,)))) == [other.peer.url]
    assert sent(bench.up(other), PeersRequest) != []
    bench.refused(other)
    assert called(bench) == [other.peer.url]


def test_who_measures_already_goes_on_with_that_when_the_list_changes() -> None:
    bench, seed = Bench(5001), member(0)
    bench.give(Join((seed.peer.url,)))
    bench.up(seed)
    bench.receive(seed, Peers((seed,)))
    assert opened(bench.give(Reseed((member(8 * U).peer.url,)))) == []


def orphaned() -> tuple[Bench, Member, Member]:
    """A newcomer whose only seed died, having named another, before either was measured."""
    bench, seed, other = Bench(5001), member(0), member(8 * U)
    bench.give(Join((seed.peer.url,)))
    bench.up(seed)
    bench.receive(seed, Peers((seed, other)))
    bench.down(seed)
    bench.refused(other, Refused.TIMEOUT)
    bench.refused(seed, Refused.UNREACHABLE)
    return bench, seed, other


def called(bench: Bench) -> list[str]:
    """Return whom it calls next, after that long a pause as it takes."""
    while not (urls := opened(bench.wait(0.1))):
        pass
    return urls


def test_where_no_seed_answers_any_more_those_that_it_named_are_called_too() -> None:
    """Who dies while a newcomer measures has told it of others."""
    bench, seed, other = orphaned()
    assert called(bench) == [seed.peer.url]
    bench.give(LinkRefused(seed.peer.url, None, Refused.UNREACHABLE))
    assert called(bench) == [seed.peer.url, other.peer.url]
    assert sent(bench.up(other), PeersRequest) == [(other.uid, PeersRequest(stance=Stance.JOINS))]


def test_a_stranger_where_a_member_was_said_to_be_does_not_end_a_join() -> None:
    """It was not the user who gave that address."""
    bench, seed, other = orphaned()
    called(bench)
    bench.give(LinkRefused(seed.peer.url, None, Refused.UNREACHABLE))
    called(bench)
    effects = bench.give(LinkRefused(other.peer.url, None, Refused.NOT_CHORDAL))
    assert told(effects, JoinRejected) == []
    effects = bench.give(LinkRefused(seed.peer.url, None, Refused.NOT_CHORDAL))
    assert told(effects, JoinRejected) != []
