"""Copies of records on ring neighbours: who has them, when, and at what cost."""

from __future__ import annotations

import random
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.circular import HIGHEST, is_after
from overlay.errors import ConfigError
from overlay.ids import nanos
from overlay.machine import Effect, Message, OpenLink, Send
from ring.config import LAN, RingConfig
from ring.facts import DropRecord, PutRecord, RecordRefused
from ring.records.backups import ENTRY_BYTES
from ring.records.claims import MAX_RECORDS, add_marks, content_of, mark_of, outranks
from ring.records.holders import BURST_BYTES, holders_among
from ring.wire.messages import Leaving
from ring.wire.record_messages import (
    MAX_ENTRIES,
    MAX_RECORD_BYTES,
    Entry,
    Forget,
    IndexRequest,
    RecordIndex,
    RecordSummary,
    Replicate,
    SummaryAgreed,
)
from sims.experiments.cluster import KILL
from sims.experiments.record_rings import Filter, RecordRing
from sims.world.cuts import Cut
from tests.helpers.bench import Bench, member, sent, told
from tests.helpers.strategies import structs

ENTRIES = structs(Entry)
UIDS = st.sampled_from([f"{n:032x}" for n in range(4)])


def copies(ring: RecordRing, key: str) -> dict[str, bytes]:
    """Brokers that have the bytes of a record they do not own."""
    found = {}
    for uid in ring.alive:
        replica = ring.nodes[uid]._duties.replicas.records.get(key)
        if replica is not None and replica.body is not None:
            found[uid] = replica.body
    return found


# ── claims and digests ────────────────────────────────────────────────────────────────────────


@given(ENTRIES, UIDS, ENTRIES, UIDS)
def test_of_two_claims_exactly_one_is_better(a: Entry, x: str, b: Entry, y: str) -> None:
    same = (a.epoch % HIGHEST, a.place, x) == (b.epoch % HIGHEST, b.place, y)
    assert outranks(a, x, b, y) + outranks(b, y, a, x) == (0 if same else 1)
    if is_after(a.epoch, b.epoch):
        assert outranks(a, x, b, y)


@given(st.lists(ENTRIES, unique=True, max_size=8), st.randoms())
def test_a_sum_of_marks_does_not_depend_on_the_order_and_can_be_undone(
    entries: list[Entry], rng: random.Random
) -> None:
    total = 0
    for entry in entries:
        total = add_marks(total, mark_of(entry))
    rng.shuffle(entries)
    for entry in entries:
        total = add_marks(total, -mark_of(entry))
    assert total == 0


def test_no_content_is_told_from_empty_content() -> None:
    assert content_of(b"") != 0


# ── who has copies ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("backups", "steps"), [(1, {1}), (2, {-1, 1}), (3, {-1, 1, 2}), (4, {-2, -1, 1, 2})]
)
def test_holders_and_owner_stand_in_a_row(backups: int, steps: set[int]) -> None:
    ring = RecordRing.warm(9, 1, backups)
    keys = ring.put_everywhere(1)
    order = ring.in_order
    for at, uid in enumerate(order):
        holders = {order[(at + step) % 9] for step in steps}
        key = next(key for key in keys if key.startswith(uid))
        assert copies(ring, key) == dict.fromkeys(
            sorted(holders, key=ring.alive.index), uid.encode()
        )
        assert {status.uid for status in ring.nodes[uid].backups} == holders


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_in_small_rings_there_are_as_many_holders_as_can_be(n: int) -> None:
    ring = RecordRing.warm(n, 1, backups=4)
    keys = ring.put_everywhere(1)
    assert all(len(copies(ring, key)) == n - 1 for key in keys)


def test_there_are_no_holders_where_there_is_nobody() -> None:
    assert holders_among((), (), 4) == {}


@pytest.mark.parametrize("backups", [0, 5])
def test_a_number_of_backups_that_makes_no_sense_is_refused(backups: int) -> None:
    with pytest.raises(ConfigError):
        RingConfig(backups=backups)


@pytest.mark.parametrize("backups", [1, 2, 3, 4])
def test_copies_follow_the_ring_and_are_never_fewer_on_the_way(backups: int) -> None:
    """Newcomers take their places one after the other; after each event all copies are there."""
    ring = RecordRing.warm(7, 2, backups)
    keys = ring.put_everywhere(2)
    events = 0

    def check(uid: str, effect: Effect) -> None:
        nonlocal events
        events += 1
        if events % 7 == 0:  # often enough to see each step of a filling
            assert all(len(copies(ring, key)) >= backups for key in keys)

    ring.world.on_sent = check
    for _ in range(4):
        ring.start(ring.alive[:3])
        ring.run(4)
    ring.settle()
    assert events > 100
    ring.run(3 * LAN.reconcile_ns / 1e9 + 1)  # time for what is kept for the transition
    assert {len(copies(ring, key)) for key in keys} == {backups}


def test_a_dropped_record_is_dropped_by_all() -> None:
    ring = RecordRing.warm(7, 2, backups=3)
    key = ring.put_everywhere(1)[0]
    ring.world.give(key.split("/")[0], DropRecord(key))
    ring.run(0.5)
    assert copies(ring, key) == {}
    ring.crash(key.split("/")[0], KILL)
    ring.settle()
    assert ring.owners(key) == []


# ── what it costs ─────────────────────────────────────────────────────────────────────────────


def watched(ring: RecordRing, uid: str, *lost: type[Message]) -> Filter:
    """Watch what ``uid`` sends, and lose messages of these kinds."""
    kept: list[Filter] = []

    def wrap(machine: object) -> Filter:
        kept.append(Filter(machine, lambda message: isinstance(message, lost)))  # type: ignore[arg-type]
        return kept[0]

    ring.watch(uid, wrap)
    return kept[0]


def test_a_change_costs_one_copy_and_one_summary_a_holder() -> None:
    ring = RecordRing.warm(7, 2, backups=2)
    ring.put_everywhere(50)
    uid = ring.in_order[0]
    seen = watched(ring, uid)
    ring.put(uid, f"{uid}/7", b"changed")
    ring.run(0.5)
    holders = {status.uid for status in ring.nodes[uid].backups}
    kinds = (Replicate, RecordSummary, RecordIndex)
    sent = [(to, type(m)) for to, m in seen.sent if isinstance(m, kinds) and to in holders]
    assert sorted(sent, key=str) == sorted(
        [(to, kind) for to in holders for kind in (Replicate, RecordSummary)], key=str
    )
    assert set(copies(ring, f"{uid}/7").values()) == {b"changed"}


def test_records_in_a_quiet_ring_cost_summaries_alone() -> None:
    ring = RecordRing.warm(7, 2, backups=2)
    ring.put_everywhere(50)
    seen = watched(ring, ring.in_order[0])
    ring.run(60)
    assert not any(isinstance(m, Replicate | RecordIndex | IndexRequest) for _, m in seen.sent)
    summaries = sum(isinstance(m, RecordSummary) for _, m in seen.sent)
    assert 4 * 3 <= summaries <= 4 * 13  # four neighbours, every 5 to 15 seconds


def test_a_broker_without_records_says_nothing_of_them() -> None:
    ring = RecordRing.warm(7, 2, backups=2)
    seen = watched(ring, ring.in_order[0])
    ring.run(60)
    assert not any(isinstance(m, RecordSummary) for _, m in seen.sent)


def test_copies_to_one_neighbour_keep_to_the_rate() -> None:
    rate = 100_000
    ring = RecordRing.warm(5, 2, backups=1, config=replace(LAN, backup_rate=rate))
    uid = ring.in_order[0]
    seen = watched(ring, uid)
    for number in range(20):
        ring.put(uid, f"big/{number}", b"x" * 40_000)
    start = ring.world.now
    most = 0
    for _ in range(100):
        ring.run(0.1)
        sent = sum(len(m.body or b"") for _, m in seen.sent if isinstance(m, Replicate))
        allowed = BURST_BYTES + rate * (ring.world.now - start) / 1e9 + 40_064
        assert sent <= allowed
        most = max(most, sent)
    assert most == 20 * 40_000
    assert ring.is_backed_up


def test_an_index_asked_for_again_and_again_keeps_to_the_rate() -> None:
    rate = 20_000
    here = [100, 200, 300, 400, 500]
    around = [member(at) for at in here if at != 300]
    bench = Bench.on_ring(here, 300, replace(LAN, backup_rate=rate))
    for number in range(MAX_ENTRIES):
        bench.give(PutRecord(f"{number}", b""))
    start, size = bench.now, 0
    for _ in range(100):
        effects = bench.receive(around[0], IndexRequest("")) + bench.wait(0.1, around)
        indexes = [index for to, index in sent(effects, RecordIndex) if to == around[0].uid]
        size += sum(ENTRY_BYTES * len(index.entries) for index in indexes)
        allowed = BURST_BYTES + rate * (bench.now - start) / 1e9
        assert size <= allowed + ENTRY_BYTES * MAX_ENTRIES
    assert size >= 0.9 * allowed


def test_an_index_goes_through_all_records_in_the_order_of_their_keys() -> None:
    here = [100, 200, 300, 400, 500]
    around = [member(at) for at in here if at != 300]
    bench = Bench.on_ring(here, 300)
    names = [f"{number}" for number in range(3 * MAX_ENTRIES)]
    random.Random(1).shuffle(names)
    for name in (*names, *names[:5]):
        bench.give(PutRecord(name, b""))
    for name in names[5:15]:
        bench.give(DropRecord(name))
    bench.wait(1.0, around)
    seen, after, is_last = list[str](), "", False
    while not is_last:
        effects = bench.receive(around[0], IndexRequest(after))
        [index] = [message for _, message in sent(effects, RecordIndex)]
        keys = [entry.key for entry in index.entries]
        assert len(keys) == MAX_ENTRIES or index.last
        seen += keys
        after, is_last = keys[-1], index.last
    assert seen == sorted({*names[:5], *names[15:]})


@pytest.mark.parametrize("kind", [Replicate, Forget, RecordSummary])
def test_what_gets_lost_is_made_good(kind: type[Message]) -> None:
    """A link loses nothing by itself; should a message go astray all the same, digests show it."""
    ring = RecordRing.warm(6, 2, backups=2)
    ring.put_everywhere(2)
    uid = ring.in_order[0]
    seen = watched(ring, uid, kind)
    ring.put(uid, f"{uid}/0", b"changed")
    ring.world.give(uid, DropRecord(f"{uid}/1"))
    ring.run(0.2)
    seen.loses = lambda message: False
    ring.run(2 * LAN.reconcile_ns / 1e9)
    assert ring.is_backed_up
    assert list(copies(ring, f"{uid}/0").values()) == [b"changed"] * 2
    assert copies(ring, f"{uid}/1") == {}


def test_one_that_writes_all_the_time_is_backed_up_all_the_same() -> None:
    """A write waits for others that come with it, and is not put off by those that follow."""
    here = [100, 200, 300, 400, 500]
    around = [member(at) for at in here if at != 300]
    bench = Bench.on_ring(here, 300)
    effects: list[Effect] = []
    for number in range(5):
        effects += bench.give(PutRecord("k", bytes([number]))) + bench.wait(0.01, around)
    bodies = [message.body for _, message in sent(effects, Replicate)]
    assert bodies[:1] == [b"\x01"]


def test_a_broker_without_a_place_owns_nothing_new() -> None:
    """The place is the record's home: where brokers turn to that do not know its owner."""
    bench = Bench(300)
    bench.join(member(100))
    effects = bench.give(PutRecord("k", b"x"))
    [refused] = told(effects, RecordRefused)
    assert "no place on the ring" in refused.reason
    assert bench.node.records == {}


def test_a_record_beyond_the_limits_is_refused_and_changes_nothing() -> None:
    ring = RecordRing.warm(1, 1, backups=1)
    uid = ring.alive[0]
    ring.put(uid, "key", b"body")
    ring.put(uid, "key", b"x" * (MAX_RECORD_BYTES + 1))
    ring.put(uid, "k" * 65, b"")
    for number in range(MAX_RECORDS):
        ring.put(uid, f"{number}", b"")
    refused = [fact.key for _, fact in ring.told(RecordRefused)]  # type: ignore[attr-defined]
    assert refused == ["key", "k" * 65, f"{MAX_RECORDS - 1}"]
    assert ring.nodes[uid].records["key"] == b"body"


def test_a_link_that_breaks_while_an_index_is_gone_through_holds_nothing_up() -> None:
    ring = RecordRing.warm(8, 1, backups=2)
    owner, dead, holder = ring.in_order[3:6]
    for number in range(300):
        ring.put(owner, f"k{number}", b"x" * 1000)
    ring.run(2)
    cut_at: list[int] = []

    def on_sent(uid: str, effect: Send | OpenLink) -> None:
        is_index = isinstance(effect, Send) and isinstance(effect.message, IndexRequest)
        if is_index and uid == holder and not cut_at:
            cut_at.append(ring.world.now)
            ring.cut(holder, owner, Cut.BROKEN)
            ring.world.at(ring.world.now + nanos(0.001), ring.mend, holder, owner)

    ring.world.on_sent = on_sent
    ring.crash(dead, KILL)
    ring.run(2)
    assert cut_at
    assert ring.is_backed_up


def test_a_neighbour_that_becomes_a_holder_while_it_goes_through_claims_begins_anew() -> None:
    """Two deaths 3 ms apart: an index of several messages is under way at the second."""
    ring = RecordRing.warm(10, 1, backups=2)
    owner, first, second = ring.in_order[3:6]
    for number in range(600):
        ring.put(owner, f"k{number:04}", b"x" * 100)
    ring.run(30)
    assert ring.is_backed_up
    ring.crash(first, KILL)
    ring.run(0.003)
    ring.crash(second, KILL)
    ring.rest()
    ring.run(2)
    assert ring.is_backed_up


def test_who_agreed_to_claims_has_not_agreed_to_copies() -> None:
    """Its word is under way as it becomes a holder."""
    bench = Bench.on_ring([100, 200, 300, 400, 500, 600, 700], 300, replace(LAN, backups=1))
    others = [member(i) for i in (100, 200, 400, 500)]
    right, second = member(400), member(500)
    bench.give(PutRecord("k", b"x"))
    told_of_claims = dict(sent(bench.wait(0.03, others), RecordSummary))[second.uid]
    effects = bench.receive(right, Leaving(right))
    assert [status.uid for status in bench.node.backups] == [second.uid]
    bench.receive(second, SummaryAgreed(told_of_claims.serial))
    assert [status.acknowledged for status in bench.node.backups] == [False]
    told_of_copies = dict(sent(effects, RecordSummary))[second.uid]
    bench.receive(second, SummaryAgreed(told_of_copies.serial))
    assert [status.acknowledged for status in bench.node.backups] == [True]


def summary_of(entry: Entry, serial: int) -> RecordSummary:
    """What the owner of that one record says to a holder."""
    return RecordSummary(serial, 1, mark_of(entry), (), holder=True, load=0, leaving=False)


def test_an_owner_that_claims_less_than_before_is_agreed_with_all_the_same() -> None:
    """It lowers its claim to what it took over from one that lives; a broken link may lose that.

    A holder that kept to the later claim could never agree to anything again.
    """
    bench, owner = Bench.on_ring([100, 200, 300, 400, 500], 300), member(400)
    later = Entry("k", 5, owner.ring_id, 1, content_of(b"x"))
    lower = msgspec.structs.replace(later, epoch=3)
    bench.receive(owner, Replicate(later, b"x"))
    effects = bench.receive(owner, summary_of(later, 1))
    assert sent(effects, SummaryAgreed) == [(owner.uid, SummaryAgreed(1))]
    effects = bench.receive(owner, summary_of(lower, 2))
    assert sent(effects, IndexRequest) == [(owner.uid, IndexRequest(""))]
    effects = bench.receive(owner, RecordIndex("", (lower,), last=True))
    assert sent(effects, SummaryAgreed) == [(owner.uid, SummaryAgreed(2))]


def test_an_older_claim_of_the_same_owner_that_comes_late_changes_nothing() -> None:
    bench, owner = Bench.on_ring([100, 200, 300, 400, 500], 300), member(400)
    entry = Entry("k", 5, owner.ring_id, 1, content_of(b"x"))
    bench.receive(owner, Replicate(entry, b"x"))
    bench.receive(owner, Replicate(msgspec.structs.replace(entry, epoch=3), b"x"))
    effects = bench.receive(owner, summary_of(entry, 1))
    assert sent(effects, SummaryAgreed) == [(owner.uid, SummaryAgreed(1))]
