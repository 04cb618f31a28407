"""Copies that lie far from a dead owner's place: dropped only when the records have an owner."""

from __future__ import annotations

import pytest

from overlay.ids import Peer
from ring.facts import DropRecord, DutyTaken
from ring.records.claims import below, content_of
from ring.records.far_estates import ROUND
from ring.records.replicas import SILENT, Held, Replica, Replicas
from ring.wire.messages import Member
from ring.wire.record_messages import MAX_ENTRIES, Entry, Reclaim, ReclaimAnswer
from sims.experiments.cluster import KILL
from sims.experiments.record_rings import Filter, RecordRing
from sims.stories import records

DEAD = Peer("d" * 32, 1, "chordal://dead.test:1")
EPOCH = 5
MEETING_S = 30.0  #: two claims have met at the record's home by then


def far_apart(seed: int = 1) -> tuple[RecordRing, str, str]:
    """Return a ring, a broker, and one at whose place a dead owner stood, far from it."""
    ring = RecordRing.warm(12, seed, backups=2)
    order = ring.in_order
    return ring, order[0], order[6]


def replicas(ring: RecordRing, uid: str) -> Replicas:
    return ring.nodes[uid]._duties.replicas


def leave_copies(ring: RecordRing, holder: str, beside: str, keys: list[str]) -> Held:
    """Let ``holder`` have copies of a broker that stood left of ``beside``, and is dead."""
    member = ring.nodes[beside].member
    assert member is not None
    place = member.ring_id - 1
    copies = replicas(ring, holder)
    held = Held(DEAD, place, ring.world.now)
    copies.owners[DEAD.uid] = held
    for key in keys:
        body = key.encode()
        copies._attach(Replica(Entry(key, EPOCH, place, 1, content_of(body)), held, body))
        copies.records[key].content = content_of(body)
    return held


def bury(ring: RecordRing, holder: str) -> None:
    """Let the holder hear that the owner is dead."""
    held = replicas(ring, holder).owners[DEAD.uid]
    ring.nodes[holder]._duties.on_gone(Member(DEAD, held.place), witnessed=True)


def own(ring: RecordRing, uid: str, key: str, epoch: int) -> None:
    """Let a broker own a record, as if it had taken it over."""
    node = ring.nodes[uid]
    assert node.member is not None
    backups = node._duties.backups
    backups.hold(Entry(key, epoch, node.member.ring_id, 0, 0), b"new", None, version=2)
    backups.pump_all()


def wait(ring: RecordRing, rounds: float) -> None:
    ring.run(rounds * ROUND * ring.config.silence_ns / 1e9)


@pytest.mark.parametrize("seed", [1, 21, 23, 32, 33])
def test_a_restart_of_all_loses_no_record_that_somebody_has(seed: int) -> None:
    """The only holder stood too far from the dead owner's place, or never heard of its death."""
    assert records.rolling_restarts(seed) == []


def test_records_that_nobody_else_knows_of_are_owned_by_their_holder() -> None:
    ring, holder, beside = far_apart()
    keys = [f"k{number:03}" for number in range(MAX_ENTRIES + 5)]
    leave_copies(ring, holder, beside, keys)
    bury(ring, holder)
    wait(ring, 3)
    assert {key: ring.owners(key) for key in keys} == {key: [holder] for key in keys}
    assert all(ring.nodes[holder].records[key] == key.encode() for key in keys)
    claims = {fact.epoch for _, fact in ring.told(DutyTaken) if isinstance(fact, DutyTaken)}
    assert claims == {EPOCH - 1}, "whoever took it over all the same has a better claim"
    assert not replicas(ring, holder).estates
    ring.settle()


@pytest.mark.parametrize("epoch", [EPOCH, EPOCH + 1])
def test_copies_of_a_record_that_has_an_owner_are_dropped(epoch: int) -> None:
    ring, holder, beside = far_apart()
    leave_copies(ring, holder, beside, ["k"])
    bury(ring, holder)
    own(ring, beside, "k", epoch)
    wait(ring, 3)
    assert ring.owners("k") == [beside]
    assert "k" not in ring.nodes[holder].kept
    assert not replicas(ring, holder).estates
    assert not ring.told(DutyTaken)


def test_copies_of_a_record_whose_owner_stands_far_from_all_asked_are_given_up_at_its_home() -> (
    None
):
    ring, holder, beside = far_apart()
    held = leave_copies(ring, holder, beside, ["k"])
    bury(ring, holder)
    backups = ring.nodes[ring.in_order[3]]._duties.backups
    backups.hold(Entry("k", EPOCH + 1, held.place, 0, 0), b"new", None, version=2)
    ring.run(2 * MEETING_S)
    assert ring.owners("k") == [ring.in_order[3]]
    assert ring.nodes[ring.in_order[3]].records["k"] == b"new"


def test_nothing_is_dropped_while_nobody_answers() -> None:
    ring, holder, beside = far_apart()
    leave_copies(ring, holder, beside, ["k"])
    bury(ring, holder)
    filters = []
    for uid in ring.alive:

        def mute(machine: object) -> Filter:
            filters.append(Filter(machine, lambda m: isinstance(m, ReclaimAnswer)))  # type: ignore[arg-type]
            return filters[-1]

        ring.watch(uid, mute)
    wait(ring, 5)
    assert "k" in ring.nodes[holder].kept
    assert ring.owners("k") == []
    asked = sum(isinstance(m, Reclaim) for wrapper in filters for _, m in wrapper.sent)
    assert asked <= 6 * 4, "those nearest on both sides, once each round"
    for wrapper in filters:
        wrapper.loses = lambda m: False
    wait(ring, 2)
    assert ring.owners("k") == [holder]


def test_what_others_say_of_an_owner_counts_when_they_say_it_again() -> None:
    """The one that said so may not have heard that the new owner is dead, too."""
    ring, holder, beside = far_apart()
    leave_copies(ring, holder, beside, ["k"])
    bury(ring, holder)
    rumour = Entry("k", EPOCH + 1, 0, 0, 0)
    near = ring.in_order[5]
    for uid in (near, beside):  # a third broker's claim, which that one told them before it died
        theirs = replicas(ring, uid)
        third = Held(Peer("e" * 32, 1, "chordal://third.test:1"), 0, ring.world.now)
        theirs.owners[third.uid] = third
        theirs._attach(Replica(rumour, third))
    wait(ring, 1.5)
    assert "k" in ring.nodes[holder].kept
    wait(ring, 1.5)
    assert "k" not in ring.nodes[holder].kept
    assert not replicas(ring, holder).estates


def test_who_holds_the_dead_for_the_owner_still_does_not_count() -> None:
    ring, holder, beside = far_apart()
    held = leave_copies(ring, holder, beside, ["k"])
    theirs = replicas(ring, beside)
    alive = theirs.owners[DEAD.uid] = Held(DEAD, held.place, ring.world.now)
    theirs._attach(Replica(Entry("k", EPOCH, held.place, 0, 0), alive))
    bury(ring, holder)
    wait(ring, 4)
    assert ring.owners("k") == [holder]


def test_a_record_dropped_by_its_new_owner_does_not_come_back() -> None:
    ring, holder, beside = far_apart()
    leave_copies(ring, holder, beside, ["k"])
    bury(ring, holder)
    own(ring, beside, "k", EPOCH + 1)
    ring.world.give(beside, DropRecord("k"))
    wait(ring, 4)
    assert ring.owners("k") == []
    assert "k" not in ring.nodes[holder].kept


def test_copies_of_an_owner_that_is_silent_and_dead_are_owned() -> None:
    """Its link went, and nobody said that it died: the holder is no neighbour of it any more."""
    ring, holder, beside = far_apart()
    leave_copies(ring, holder, beside, ["k"])
    own(ring, holder, "mine", 1)  # so that copies are compared now and then
    ring.run((SILENT + 2.5) * ring.config.reconcile_ns / 1e9)
    assert ring.owners("k") == [holder]


def test_copies_of_an_owner_that_is_silent_and_alive_are_dropped() -> None:
    ring, holder, beside = far_apart()
    owner = ring.nodes[beside]
    assert owner.member is not None
    own(ring, holder, "mine", 1)
    own(ring, beside, "kept", EPOCH)
    copies = replicas(ring, holder)
    held = copies.owners[beside] = Held(owner.peer, owner.member.ring_id, ring.world.now)
    for key in ("kept", "given up"):
        entry = Entry(key, EPOCH, held.place, 1, content_of(b"old"))
        copies._attach(Replica(entry, held, b"old", content_of(b"old")))
    assert beside not in ring.nodes[holder].linked
    ring.run((SILENT + 3) * ring.config.reconcile_ns / 1e9)
    assert ring.owners("kept") == [beside]
    assert ring.owners("given up") == []
    assert not {"kept", "given up"} & ring.nodes[holder].kept
    assert not copies.estates


def test_who_is_back_leaves_those_their_copies_that_know_a_later_claim() -> None:
    ring, holder, beside = far_apart()
    leave_copies(ring, holder, beside, ["k"])
    copies = replicas(ring, holder)
    copies.on_gone(DEAD.uid, 1)
    reclaimer = ring.nodes[holder]._duties.reclaimer
    entry = copies.records["k"].entry
    reclaimer.on_reclaim(beside, Reclaim((below(entry),), 0))
    assert "k" in copies.records
    reclaimer.on_reclaim(beside, Reclaim((entry,), 0))
    assert "k" not in copies.records


def test_a_record_is_lost_only_with_the_last_broker_that_has_its_bytes() -> None:
    ring = RecordRing.warm(8, 1, backups=1)
    uid, beside = ring.in_order[2:4]
    ring.put(uid, "k", b"x")
    ring.run(0.5)
    ring.crash(uid, KILL)
    assert ring.buried == set()
    ring.crash(beside, KILL)
    assert ring.buried == {"k"}
