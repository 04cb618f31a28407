"""Numbers that peers tell and this broker counts on from: no peer can drive one to its end.

Whatever a broker says after it was told the highest number there is, its peers can decode; else
they would cut its links.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.machine import Effect, Send
from overlay.wire.codec import MessageCodec
from overlay.wire.frames import HEADER
from ring.config import LAN
from ring.facts import DutyTaken, Leave, Locate, PutRecord, Rejoining, ReportLoad
from ring.geometry import RING_SIZE
from ring.records.claims import content_of, outranks
from ring.wire.messages import (
    Backup,
    BackupRequest,
    Failed,
    Heartbeat,
    HeldDead,
    Intent,
    JoinAccept,
    Leaving,
    Peers,
    Pong,
    Purpose,
    Route,
    View,
    ViewRequest,
)
from ring.wire.record_messages import (
    MAX_LOAD,
    Answer,
    Entry,
    Fence,
    Offer,
    OfferAnswer,
    RecordSummary,
    Replicate,
    SummaryAgreed,
)
from ring.wire.registry import RING_MESSAGES
from tests.helpers.bench import Bench, member, peer, sent, told, view_of
from tests.helpers.examples import examples

HIGHEST = 2**63 - 1
RING = [100, 200, 300, 400, 500, 600, 700]
LEFT, RIGHT = member(200), member(400)
AROUND = [member(100), LEFT, RIGHT, member(500)]
BODY = b"what is in it"
CODEC = MessageCodec(*RING_MESSAGES)


def decodable(effects: list[Effect]) -> list[Effect]:
    """Return the effects if a peer can decode all that is sent."""
    for effect in effects:
        if isinstance(effect, Send):
            assert CODEC.decode(CODEC.encode(effect.message)[HEADER.size :]) == effect.message
    return effects


def entry(epoch: int = HIGHEST, version: int = HIGHEST) -> Entry:
    return Entry("key", epoch, 400, version, content_of(BODY))


def with_replica() -> Bench:
    """A broker that keeps the copy of a record under the highest numbers for its neighbour."""
    node = Bench.on_ring(RING, 300)
    holders = (node.node.peer.uid,)
    node.receive(RIGHT, RecordSummary(1, 1, 1, holders, holder=True, load=0, leaving=False))
    node.receive(RIGHT, Replicate(entry(), BODY))
    return node


def with_duty() -> Bench:
    """A broker that has taken over a record under the highest numbers."""
    node = Bench.on_ring(RING, 300)
    effects = node.receive(RIGHT, Offer(entry(), BODY, 1, must=False))
    assert [fact.epoch for fact in told(decodable(effects), DutyTaken)] == [HIGHEST]
    return node


# ── counting on ───────────────────────────────────────────────────────────────────────────────


def test_the_record_of_a_dead_neighbour_is_taken_over() -> None:
    node = with_replica()
    effects = decodable(node.receive(member(500), Failed(RIGHT, ("0" * 32,), None)))
    assert [fact.key for fact in told(effects, DutyTaken)] == ["key"]
    claims = {message.entry for _, message in sent(effects, Replicate)}
    assert claims
    assert all(outranks(claim, "f", entry(), RIGHT.uid) for claim in claims)


def test_a_record_of_another_is_written() -> None:
    node = with_replica()
    effects = decodable(node.give(PutRecord("key", b"new")))
    ((to, fence),) = sent(effects, Fence)
    assert to == RIGHT.uid
    assert outranks(fence.entries[0], "f", entry(), RIGHT.uid)
    assert fence.entries[0].version > 0, "0 stands for a claim without contents"


def test_a_record_is_handed_on_and_taken_back() -> None:
    node = with_duty()
    node.give(PutRecord("another", BODY))
    effects = decodable(node.give(ReportLoad(900)))
    ((heir, offer),) = sent(effects, Offer)
    assert outranks(offer.entry, heir, entry(), node.node.peer.uid)
    back = decodable(node.wait(2 * LAN.silence_ns / 1e9 + 0.1, AROUND))
    claims = [m.entry for _, m in sent(back, Replicate) if m.entry.key == "key"]
    assert claims
    assert outranks(claims[-1], "f", offer.entry, heir)


@pytest.mark.parametrize("permille", [-60, 10**9])
def test_a_load_beyond_all_measure_is_announced_as_the_nearest_there_is(permille: int) -> None:
    node = with_duty()
    for load in (500, permille):
        effects = decodable(node.give(ReportLoad(load)))
    loads = {summary.load for _, summary in sent(effects, RecordSummary)}
    assert loads == {min(max(permille, 0), MAX_LOAD)}


@pytest.mark.parametrize("target", [-1, 2**32, 10**20])
def test_a_place_beyond_the_ring_is_looked_for_where_it_is_modulo_its_size(target: int) -> None:
    routes = sent(decodable(with_duty().give(Locate(target))), Route)
    assert [route.target for _, route in routes] == [target % RING_SIZE]


def test_a_record_that_was_ours_is_claimed_anew_after_a_false_verdict() -> None:
    node = with_duty()
    effects = decodable(node.receive(RIGHT, HeldDead(1, witnessed=True)))
    assert told(effects, Rejoining)
    effects += node.up(LEFT)
    effects += node.receive(LEFT, Peers((LEFT,)))
    for token in range(1, 40):
        effects += node.receive(LEFT, Pong(token))
    effects += node.receive(LEFT, JoinAccept(300, LEFT, ()))
    effects += node.receive(LEFT, Intent(Purpose.RING))
    effects += node.receive(LEFT, view_of(200, [200, 300]))
    effects += node.wait(5 * LAN.silence_ns / 1e9, AROUND)
    decodable(effects)
    assert [to for to, copy in sent(effects, Replicate) if copy.body == BODY] == [LEFT.uid]
    (fact,) = told(effects, DutyTaken)
    assert fact.key == "key"
    assert outranks(node.node.parts.duties.backups.own["key"].entry, "f", entry(), "0")


def test_an_offer_under_the_next_number_is_taken_by_one_that_owns_the_record() -> None:
    """A claim after the highest is the newer one, for who takes it as for who gives it."""
    node = with_duty()
    effects = node.receive(LEFT, Offer(entry(epoch=1), BODY, 1, must=False))
    assert [fact.epoch for fact in told(effects, DutyTaken)] == [1]
    effects = node.receive(LEFT, Offer(entry(), BODY, 1, must=False))
    assert told(effects, DutyTaken) == []
    assert [to for to, _ in sent(effects, Fence)] == [LEFT.uid]


# ── adding up ─────────────────────────────────────────────────────────────────────────────────


def test_loads_that_come_with_duties_add_up_to_what_can_be_told() -> None:
    node = Bench.on_ring(RING, 300)
    effects = []
    for number in range(3):
        claim = Entry(f"key {number}", 1, 400, 1, content_of(BODY))
        effects += node.receive(RIGHT, Offer(claim, BODY, 1_000_000, must=True))
    effects += node.wait(2 * LAN.reconcile_ns / 1e9, AROUND)
    loads = [message.load for _, message in sent(decodable(effects), RecordSummary)]
    assert max(loads) == 1_000_000


# ── lives ─────────────────────────────────────────────────────────────────────────────────────


def test_who_is_said_to_have_died_in_its_last_life_comes_back_all_the_same() -> None:
    """It shows the life it is in, and is told of it: the next one counts."""
    node = Bench.on_ring(RING, 300)
    node.receive(member(500), Failed(member(400, HIGHEST), ("0" * 32,), None))
    assert RIGHT not in node.node.right
    (notice,) = sent(node.up(member(400, 2)), HeldDead)
    assert notice == (RIGHT.uid, HeldDead(2, witnessed=True))
    node.down(RIGHT)
    again = member(400, 3)
    assert sent(node.up(again), HeldDead) == []
    node.receive(again, View(1, again, (member(300), LEFT), (member(500), member(600))))
    assert node.node.right[0] == again


# ── versions ────────────────────────────────────────────────────────────────────────────────

# Whoever greeted in a neighbour's name may have told the highest; the next link begins anew.


def test_the_view_on_a_new_link_counts_whatever_its_version() -> None:
    node = Bench.on_ring(RING, 300)
    false = (member(350), member(360))
    node.receive(RIGHT, View(HIGHEST, RIGHT, (member(300), LEFT), false))
    node.up(RIGHT)
    node.receive(RIGHT, Intent(Purpose.RING))
    node.receive(RIGHT, view_of(400, RING, version=2))
    asked = sent(node.receive(RIGHT, Heartbeat(3)), ViewRequest)
    assert [to for to, _ in asked] == [RIGHT.uid]
    node.receive(RIGHT, View(1, RIGHT, (member(300), LEFT), false))
    asked = sent(node.receive(RIGHT, Heartbeat(2)), ViewRequest)
    assert asked == [], "on one link the later one counts"


def test_the_list_of_links_on_a_new_link_counts_whatever_its_version() -> None:
    node = Bench.on_ring(RING, 300)
    node.receive(RIGHT, Backup(HIGHEST, (peer(350),)))
    node.up(RIGHT)
    node.receive(RIGHT, Backup(1, (peer(600),)))
    assert sent(node.receive(RIGHT, Backup(2, (peer(700),), (), 1)), BackupRequest) == []


def test_the_summary_on_a_new_link_counts_whatever_its_number() -> None:
    node = with_replica()
    lie = RecordSummary(HIGHEST, 0, 0, (), holder=True, load=0, leaving=False)
    node.receive(RIGHT, lie)
    node.now += 1_000_000
    node.up(RIGHT)
    effects = node.receive(RIGHT, msgspec.structs.replace(lie, serial=2))
    assert sent(effects, SummaryAgreed) == [(RIGHT.uid, SummaryAgreed(2))]
    effects = node.receive(RIGHT, msgspec.structs.replace(lie, serial=1))
    assert sent(effects, SummaryAgreed) == [], "on one link the later one counts"


# ── anything ──────────────────────────────────────────────────────────────────────────────────

NUMBERS = st.sampled_from([0, 1, 2, 2**62, 2**62 + 1, HIGHEST - 1, HIGHEST])
ENTRIES = st.builds(
    Entry,
    key=st.sampled_from(["a", "b"]),
    epoch=NUMBERS,
    place=st.sampled_from([300, 400, 2**32 - 1]),
    version=NUMBERS,
    content=st.sampled_from([0, content_of(BODY), HIGHEST]),
)
MAYBE_BODY = st.sampled_from([None, BODY])
LOADS = st.sampled_from([0, 500, 1_000_000])
SAID: st.SearchStrategy[Any] = st.one_of(
    st.builds(
        RecordSummary,
        serial=NUMBERS,
        count=NUMBERS,
        digest=NUMBERS,
        holders=st.sampled_from([(), (peer(300).uid,)]),
        holder=st.booleans(),
        load=LOADS,
        leaving=st.booleans(),
    ),
    st.builds(Replicate, entry=ENTRIES, body=MAYBE_BODY),
    st.builds(Offer, entry=ENTRIES, body=MAYBE_BODY, weight=LOADS, must=st.booleans()),
    st.builds(
        OfferAnswer, key=st.sampled_from(["a", "b"]), epoch=NUMBERS, answer=st.sampled_from(Answer)
    ),
    st.builds(Fence, entries=ENTRIES.map(lambda one: (one,))),
    st.sampled_from([Failed(RIGHT, ("0" * 32,), None), Leaving(RIGHT), Failed(LEFT, (), None)]),
    st.builds(PutRecord, key=st.sampled_from(["a", "b"]), body=st.just(b"own")),
)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(AROUND), SAID), max_size=12))
def test_whatever_neighbours_say_of_records_the_answers_can_be_decoded(
    script: list[tuple[Any, Any]],
) -> None:
    node = Bench.on_ring(RING, 300)
    for sender, message in script:
        if isinstance(message, PutRecord):
            decodable(node.give(message))
        elif sender.uid in node.node.linked:
            decodable(node.receive(sender, message))
        node.now += 1_000_000
    decodable(node.wait(2 * LAN.silence_ns / 1e9, AROUND))
    decodable(node.wait(LAN.reconcile_ns / 1e9))
    decodable(node.give(Leave()))
