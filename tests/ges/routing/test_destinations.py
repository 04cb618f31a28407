"""Events that name the brokers they are for: broker ``a`` on a bench, with others behind it."""

from __future__ import annotations

from ges.order.recalls import Answer, Outbound
from ges.routing.holding import HOLD_NS
from ges.routing.stuck import TRACED_NS, WAIT_NS
from ges.wire.events import Duty, pack_event, read_head
from ges.wire.recall_messages import FlowTail, RangeQuery, Tails, WantedRange
from overlay.ids import LinkClass, nanos
from tests.helpers.router_bench import NORMAL, PUBLISHER, RING, SECURE, Bench, delivered, event
from tests.helpers.runs import under_way

A, B, C, D = (name * 32 for name in "abcd")
#: Slots go by the order: a has 0, b 1, c 2, d 3. Broker d is behind c.
PLACES = {A: 0, B: 10, C: 20, D: 30}
LINKS = [(A, B), (A, C), (C, D)]


def clustered(*secure: str) -> Bench:
    bench = Bench(*secure)
    bench.cluster.found(A, PLACES)
    bench.cluster.link(LINKS)
    return bench


def destinations(bench: Bench, name: str, link_class: LinkClass = NORMAL) -> list[int]:
    return [head.duty.destinations for head in bench.sent(name, link_class)]


def come(bench: Bench, sequence: int, duty: Duty, *, via: int = 7, flags: int = 0) -> None:
    """Let an event come over the link to c."""
    body = under_way(event(sequence)[1], duty, via=via, source=PLACES[C], flags=flags)
    bench.relay(read_head(body), body)


async def test_nobody_gets_what_nobody_wants() -> None:
    bench = clustered()
    bench.publish(*event())
    assert bench.sent("b") == bench.sent("c") == []
    assert bench.counters["events_published"] == 1


async def test_it_goes_to_whoever_wants_it_and_those_on_the_way() -> None:
    """As the destination vectors of the long report: bits of all who want it, split on the way."""
    bench = clustered()
    bench.cluster.wanted[b"t"] = 0b1010
    bench.publish(*event())
    assert destinations(bench, "b") == [0b0010]
    assert destinations(bench, "c") == [0b1000], "for d, and c passes it on"
    (head,) = bench.sent("c")
    assert (head.duty.shape, head.duty.trace, head.hops, head.source) == (1, 0b1, 1, 0)


async def test_a_relay_delivers_if_its_own_bit_is_set() -> None:
    bench = clustered()
    here = bench.session("t")
    come(bench, 1, Duty(1, 0, 0b0010, 0b0100))
    assert delivered(here) == []
    come(bench, 2, Duty(1, 0, 0b0011, 0b0100))
    assert [payload for _, payload in delivered(here)] == [b"2"]
    assert destinations(bench, "b") == [0b0010, 0b0010]
    assert [head.duty.trace for head in bench.sent("b")] == [0b0101] * 2


async def test_what_is_between_two_events_of_one_way_was_for_others() -> None:
    bench = clustered()
    here = bench.session("t")
    for sequence in (1, 5, 9):
        come(bench, sequence, Duty(1, 0, 0b1, 0b100))
    assert [payload for _, payload in delivered(here)] == [b"1", b"5", b"9"]
    assert not bench.parts.recalls.ordering.has_questions


async def test_on_another_way_the_source_is_asked() -> None:
    bench = clustered()
    here = bench.session("t")
    come(bench, 1, Duty(1, 0, 0b1, 0b100))
    come(bench, 5, Duty(1, 0, 0b1, 0b100), via=8)
    assert len(delivered(here)) == 1
    (mail,) = bench.parts.recalls.questions(0).mail
    assert mail.uid == C, "where it was published"
    assert isinstance(mail.message, RangeQuery)
    (wanted,) = mail.message.ranges
    assert (wanted.first, wanted.last) == (2, 4)


async def test_a_source_answers_with_what_was_for_the_one_that_asks() -> None:
    bench = clustered()
    for sequence, wanted in ((1, 0b010), (2, 0b110), (3, 0b100)):
        bench.cluster.wanted[b"t"] = wanted
        bench.publish(*event(sequence))
    before = len(bench.sent("b"))
    query = RangeQuery(1, (WantedRange(9, PUBLISHER, 1, NORMAL, 1, 3),))
    out = bench.parts.recalls.on_message(B, query, 0)
    bench.parts.answers.send_answers(out, 0)
    answers = bench.sent("b")[before:]
    assert [(head.sequence, head.recalled) for head in answers] == [(1, True), (2, True)]
    assert [mail.uid for mail in out.mail] == [B]
    forged = bench.parts.recalls.on_message(C, query, 0)
    assert (forged.events, forged.mail) == ([], []), "only for oneself"


async def test_the_way_has_another_digest_once_a_destination_has_moved_onto_it() -> None:
    bench = clustered()
    bench.cluster.wanted[b"t"] = 0b1000
    bench.publish(*event(1))
    bench.publish(*event(2))
    bench.cluster.link([*LINKS, (B, D)])  # d is by b now, as that way is cheaper
    bench.cluster.link([(A, B), (A, C), (B, D)])
    bench.publish(*event(3))
    bench.cluster.link(LINKS)
    bench.publish(*event(4))
    first, second, fourth = (head.via for head in bench.sent("c"))
    assert first == second != fourth
    assert [head.sequence for head in bench.sent("b")] == [3]


async def test_a_copy_does_not_go_back_to_where_it_has_been() -> None:
    bench = clustered()
    come(bench, 1, Duty(1, 0, 0b1000, 0b0100))  # c has sent what is for d here, where d is by c
    assert bench.sent("c") == bench.sent("b") == []
    assert bench.counters["events_stuck"] == 1
    assert bench.keeps_events
    bench.cluster.link([*LINKS, (B, D)])
    bench.now += nanos(0.1)
    bench.update(RING["a"], {B: RING["b"], C: RING["c"]})
    assert destinations(bench, "b") == [0b1000]
    assert bench.sent("b")[0].again, "it may come behind later ones"
    assert not bench.keeps_events


async def test_when_all_have_the_same_tables_it_may_go_back() -> None:
    bench = clustered()
    come(bench, 1, Duty(1, 0, 0b1000, 0b0100))
    bench.now += TRACED_NS
    bench.expire()
    assert destinations(bench, "c") == [0b1000]


async def test_what_finds_no_way_is_given_up_in_time_and_counted() -> None:
    bench = clustered()
    bench.cluster.link([(A, B), (A, C)])
    bench.cluster.wanted[b"t"] = 0b1000
    bench.publish(*event())
    bench.now += WAIT_NS
    bench.expire()
    assert not bench.keeps_events
    assert bench.counters["events_without_link"] == 1


def behind_a_cut_link(*secure: str) -> Bench:
    """An event for c waits, as the link there is cut; b is linked to c as well."""
    link_class = SECURE if secure else NORMAL
    bench = clustered(*secure)
    bench.cluster.link([*LINKS, (B, C)])
    bench.acknowledged("c", link_class)
    bench.cluster.wanted[b"t"] = 0b0100
    bench.cut("c", link_class)
    bench.publish(*event(secure=bool(secure)))
    assert bench.keeps_events
    return bench


async def test_events_behind_a_failed_link_wait_until_next_hops_lead_round_it() -> None:
    bench = behind_a_cut_link()
    linked = {B: RING["b"], C: RING["c"]}
    bench.failed.add("c")
    bench.update(RING["a"], linked)
    assert bench.sent("b") == []
    assert bench.keeps_events, "next hops lead over the link still"
    bench.cluster.link([(A, B), (B, C), (C, D)])
    bench.publish(*event(2))
    assert [(head.sequence, head.again) for head in bench.sent("b")] == [(1, True), (2, False)]
    assert destinations(bench, "b") == [0b0100, 0b0100]
    assert not bench.keeps_events
    assert bench.counters["events_without_link"] == 0


async def test_an_event_that_comes_before_next_hops_have_moved_waits_for_that() -> None:
    bench = clustered()
    bench.cluster.wanted[b"t"] = 0b0100
    del bench.links[C, NORMAL]
    bench.failed.add("c")
    bench.publish(*event())
    assert bench.keeps_events
    bench.cluster.link([(A, B), (B, C), (C, D)])
    bench.update(RING["a"], {B: RING["b"], C: RING["c"]})
    assert destinations(bench, "b") == [0b0100]
    assert not bench.keeps_events


async def test_secure_events_wait_a_moment_for_their_link_and_then_take_other_secure_ones() -> None:
    bench = behind_a_cut_link("b", "c")
    bench.cluster.link([(A, B), (B, C), (C, D)], [SECURE])
    bench.expire()
    assert bench.sent("b", SECURE) == []
    bench.now = HOLD_NS
    bench.expire()
    assert destinations(bench, "b", SECURE) == [0b0100]
    assert bench.sent("b") == bench.sent("c") == []
    assert not bench.keeps_events


async def test_secure_events_wait_on_where_no_secure_links_lead_round_theirs() -> None:
    bench = behind_a_cut_link("b", "c")
    bench.cluster.link([(A, B), (C, D)], [SECURE])
    bench.failed.add("c")
    bench.now = HOLD_NS
    bench.expire()
    assert bench.keeps_events
    assert bench.sent("b", SECURE) == bench.sent("b") == bench.sent("c") == []


async def test_whoever_has_died_is_no_destination_any_more() -> None:
    bench = clustered()
    bench.acknowledged("c")
    bench.cluster.wanted[b"t"] = 0b1100
    bench.publish(*event())
    bench.cut("c", NORMAL)
    bench.dead.add("c")
    bench.cluster.drop(C)
    bench.cluster.link([(A, B), (B, D)])
    bench.update(RING["a"], {B: RING["b"]}, [RING["b"]])
    bench.now += nanos(1)
    bench.expire()
    assert destinations(bench, "b") == [0b1000], "d gets it another way, c never"


async def test_after_a_death_destinations_are_told_what_they_should_have() -> None:
    bench = clustered()
    bench.parts.recalls.follow(0)
    bench.cluster.wanted[b"t"] = 0b1010
    for sequence in (1, 2):
        bench.publish(*event(sequence))
    bench.cluster.drop(C)
    bench.parts.recalls.follow(bench.now)
    bench.now += nanos(1)
    mail = bench.parts.recalls.expire(bench.now).mail
    assert {each.uid for each in mail} == {B, D}
    assert {each.message for each in mail} == {Tails(0, (FlowTail(PUBLISHER, 1, NORMAL, 1, 2),))}


async def test_who_lacks_the_last_event_asks_for_it() -> None:
    bench = clustered()
    come(bench, 1, Duty(1, 0, 0b1, 0b100))
    told = Tails(PLACES[C], (FlowTail(PUBLISHER, 1, NORMAL, 1, 3),))
    bench.parts.recalls.on_message(C, told, bench.now)
    (mail,) = bench.parts.recalls.questions(bench.now).mail
    assert isinstance(mail.message, RangeQuery)
    assert [(each.first, each.last) for each in mail.message.ranges] == [(2, 3)]


async def test_a_secure_event_is_refused_if_one_who_wants_it_cannot_be_reached() -> None:
    bench = clustered("b")
    bench.cluster.link([(A, B)], [SECURE])
    bench.cluster.wanted[b"t"] = 0b0010
    secured = bench.session(secure=True)
    head, _ = event(secure=True)
    assert bench.why_not(secured, head) is None
    bench.publish(*event(secure=True))
    assert destinations(bench, "b", SECURE) == [0b0010]
    bench.cluster.wanted[b"t"] = 0b0110
    assert "cccccccc (ring id 20)" in (bench.why_not(secured, head) or "")
    assert bench.why_not(secured, event(secure=True, topic=b"u")[0]) is None, "others do not want u"


async def test_a_hop_count_ends_an_event() -> None:
    bench = clustered()
    bench.cluster.wanted[b"t"] = 0b1010
    for sequence, max_hops in ((1, 1), (2, 2)):
        body = pack_event(False, PUBLISHER, 1, sequence, 0, b"t", b"", b"", max_hops=max_hops)
        bench.publish(read_head(body), body)
    assert len(bench.sent("b")) == 2
    far = pack_event(False, PUBLISHER, 1, 3, 0, b"t", b"", b"", max_hops=1)
    body = under_way(far, Duty(1, 0, 0b10, 0b100), hops=1)
    bench.relay(read_head(body), body)
    assert len(bench.sent("b")) == 2
    assert bench.counters["events_max_hops_ended"] == 1


async def test_what_is_fetched_for_a_client_that_has_moved_keeps_its_age() -> None:
    bench = clustered()
    bench.publish(*event())
    run = next(iter(bench.parts.recalls.log.since(0, 0)))[0]
    bench.parts.answers.send_answers(Outbound([Answer(3, run, age_ms=251)]), 0)
    (head,) = bench.sent("c")
    assert (head.recalled, head.duty.millis, head.duty.destinations) == (True, 251, 0b1000)
