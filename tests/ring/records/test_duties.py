"""Who owns a record after crashes, false verdicts and overload: exactly one broker."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from overlay.ids import nanos
from overlay.machine import Machine
from overlay.rng import rng_for
from ring.config import LAN
from ring.facts import (
    DropRecord,
    DutyLost,
    DutyTaken,
    Leave,
    ProvisionerNeeded,
    PutRecord,
    Rejoining,
    ReportLoad,
)
from ring.records import backups
from ring.records.handover import WINDOW
from ring.records.holders import BURST_BYTES
from ring.wire.messages import HeldDead, Intent, JoinAccept, Purpose
from ring.wire.record_messages import (
    MAX_ENTRIES,
    IndexRequest,
    Offer,
    Reclaim,
    ReclaimAnswer,
    RecordIndex,
)
from sims.experiments.cluster import KILL, POWER
from sims.experiments.record_rings import Filter, RecordRing
from tests.helpers.bench import Bench, member, sent, view_of

ROUND_TRIP_S = 0.002  #: between any two brokers of these rings, at the most


def check_owners(ring: RecordRing, keys: list[str]) -> None:
    """Every record has exactly one owner."""
    wrong = {key: owners for key in keys if len(owners := ring.owners(key)) != 1}
    assert wrong == {}


@pytest.mark.parametrize("seed", range(24))
def test_exactly_one_owner_when_an_heir_dies_in_the_take_over(seed: int) -> None:
    """B dies; A, C or another holder dies at some message of what follows."""
    rng = rng_for("takeover", seed)
    ring = RecordRing.warm(rng.randrange(5, 10), seed, backups=rng.randrange(2, 5))
    keys = ring.put_everywhere()
    order = ring.in_order
    heir = order[(3 + rng.choice((-2, -1, -1, 1, 1, 2))) % len(order)]
    mode = rng.choice((KILL, POWER))
    ring.crash(order[3], rng.choice((KILL, POWER)))
    ring.doom(heir, rng.randrange(40), mode)
    ring.settle()
    if heir in ring.alive:  # there was not that much to say
        ring.run(60)
        ring.settle()
    assert set(order) - set(ring.alive) == {order[3], heir}
    check_owners(ring, keys)


@pytest.mark.parametrize("seed", range(16))
def test_exactly_one_owner_when_one_dies_in_a_handover(seed: int) -> None:
    """B leaves; B itself or the one it hands over to dies at some message of that."""
    rng = rng_for("handover", seed)
    ring = RecordRing.warm(rng.randrange(5, 10), seed, backups=rng.randrange(2, 5))
    keys = ring.put_everywhere()
    order = ring.in_order
    victim = order[(3 + rng.choice((0, 0, -1, 1))) % len(order)]
    ring.doom(victim, rng.randrange(25), rng.choice((KILL, POWER)))
    ring.world.give(order[3], Leave())
    ring.settle()
    if victim in ring.alive:
        ring.run(60)
        ring.settle()
    assert not {order[3], victim} & set(ring.alive)
    check_owners(ring, keys)


@pytest.mark.parametrize(
    ("backups", "run"), [(1, 1), (1, 3), (2, 3), (3, 3), (3, 5), (4, 4), (4, 6)]
)
def test_a_run_of_the_dead_loses_what_had_no_living_holder(backups: int, run: int) -> None:
    ring = RecordRing.warm(16, 7, backups)
    keys = ring.put_everywhere()
    dead = ring.in_order[4 : 4 + run]
    for uid in dead:
        ring.crash(uid, KILL)
    ring.settle()
    lost = {key.split("/")[0] for key in keys if not ring.owners(key)}
    assert len(lost) == max(0, run - backups)
    assert lost <= set(dead)
    check_owners(ring, [key for key in keys if key.split("/")[0] not in lost])


@pytest.mark.parametrize("wait", [0.0, 0.1, 0.3])
def test_who_has_copies_takes_over_where_a_newcomer_beside_the_dead_has_none(wait: float) -> None:
    """The one holder is not beside the dead any more, and those that are have nothing to take."""
    ring = RecordRing.warm(6, 1, backups=1)
    keys = [f"{uid}/{number}" for uid in ring.alive for number in range(40)]
    for key in keys:
        ring.put(key.split("/")[0], key, b"x" * 40_000)
    ring.settle()
    newcomer = ring.join(ring.alive[:3])
    ring.run(wait)
    order = ring.in_order
    at = order.index(newcomer)
    dead, holder = order[at - 1], order[(at + 1) % len(order)]
    ring.crash(dead, KILL)
    ring.settle()
    check_owners(ring, keys)
    owners = {ring.owners(key)[0] for key in keys if key.startswith(dead)}
    assert holder in owners, "the scenario: the newcomer had not all copies yet"


def test_both_neighbours_take_a_share_and_say_so() -> None:
    ring = RecordRing.warm(8, 1, backups=2)
    keys = ring.put_everywhere(20)
    left, dead, right = ring.in_order[2:5]
    ring.crash(dead, KILL)
    ring.settle()
    theirs = [key for key in keys if key.startswith(dead)]
    assert {ring.owners(key)[0] for key in theirs} == {left, right}
    told = {}
    for uid, fact in ring.told(DutyTaken):
        assert isinstance(fact, DutyTaken)
        told[fact.key] = (uid, fact.previous, fact.epoch, fact.body)
    assert told == {key: (ring.owners(key)[0], dead, 2, dead.encode()) for key in theirs}


def test_the_share_follows_the_load() -> None:
    ring = RecordRing.warm(8, 1, backups=2)
    left, dead, right = ring.in_order[2:5]
    ring.world.give(left, ReportLoad(700))
    ring.world.give(right, ReportLoad(100))
    keys = [key for key in ring.put_everywhere(40) if key.startswith(dead)]
    ring.crash(dead, KILL)
    ring.settle()
    assert len(keys) == 40
    owners = [ring.owners(key) for key in keys]
    assert owners.count([left]) + owners.count([right]) == 40
    assert 1 <= owners.count([left]) <= 12  # an eighth of forty, by a hash


def test_a_loaded_heir_passes_duties_on_to_the_next() -> None:
    ring = RecordRing.warm(8, 1, backups=1)
    order = ring.in_order
    dead, heir = order[3:5]
    ring.world.give(dead, ReportLoad(400))
    ring.world.give(heir, ReportLoad(700))
    keys = [key for key in ring.put_everywhere(10) if key.startswith(dead)]
    ring.crash(dead, KILL)
    ring.settle()
    check_owners(ring, keys)
    owners = {ring.owners(key)[0] for key in keys}
    assert heir in owners
    assert owners - {heir} <= {*order[:3], *order[5:7]}
    assert len(owners) > 1
    assert ring.told(ProvisionerNeeded) == []


def test_duties_are_passed_on_to_the_neighbour_with_most_room() -> None:
    ring = RecordRing.warm(8, 1, backups=1)
    keys = ring.put_everywhere(10)
    loaded, roomy = ring.in_order[3:5]
    for uid in ring.alive:
        ring.world.give(uid, ReportLoad(100 if uid == roomy else 600))
    ring.run(0.5)
    ring.world.give(loaded, ReportLoad(1000))  # a tenth for each record
    ring.run(0.5)
    check_owners(ring, keys)
    assert Counter(ring.owners(key)[0] for key in keys if key.startswith(loaded)) == {
        loaded: 8,
        roomy: 2,
    }


def test_where_nobody_has_room_a_new_broker_is_asked_for() -> None:
    ring = RecordRing.warm(6, 1, backups=2)
    keys = ring.put_everywhere(5)
    for uid in ring.alive:
        ring.world.give(uid, ReportLoad(780))
    ring.run(0.5)
    dead = ring.in_order[2]
    ring.crash(dead, KILL)
    ring.settle()
    check_owners(ring, keys)
    asked = {uid for uid, _ in ring.told(ProvisionerNeeded)}
    assert asked <= {ring.in_order[1], ring.in_order[2]}
    assert asked


def test_a_new_broker_is_asked_for_where_the_heirs_have_as_many_records_as_they_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What nobody can take is then a record, with its share of the load of the dead."""
    monkeypatch.setattr(backups, "MAX_RECORDS", 4)
    ring = RecordRing.warm(6, 1, backups=2)
    ring.put_everywhere(4)
    dead = ring.in_order[2]
    ring.world.give(dead, ReportLoad(400))
    ring.run(0.5)
    ring.crash(dead, KILL)
    ring.rest()
    ring.run(2)
    asked = ring.told(ProvisionerNeeded)
    assert {fact for _, fact in asked} == {ProvisionerNeeded(0, 100)}


def test_a_new_broker_is_asked_for_with_what_nobody_has_room_for() -> None:
    """200 too much, and the one neighbour has room for a single record of 100."""
    ring = RecordRing.warm(2, 1, backups=1)
    loaded, other = ring.alive
    for number in range(10):
        ring.put(loaded, f"{number}", b"")
    ring.world.give(other, ReportLoad(650))
    ring.run(0.5)
    ring.world.give(loaded, ReportLoad(1000))
    ring.run(0.5)
    assert ring.told(ProvisionerNeeded) == [(loaded, ProvisionerNeeded(1000, 100))]
    assert len(ring.nodes[other].records) == 1


def test_a_new_broker_is_asked_for_again_until_there_is_room() -> None:
    ring = RecordRing.warm(5, 1, backups=2)
    ring.put_everywhere()
    for uid in ring.alive:
        ring.world.give(uid, ReportLoad(900))
    ring.run(60)
    asked = [uid for uid, _ in ring.told(ProvisionerNeeded)]
    for uid in ring.alive:
        assert 4 <= asked.count(uid) <= 13  # at first, and every 5 to 15 seconds
        ring.world.give(uid, ReportLoad(100))
    ring.run(60)
    assert len(ring.told(ProvisionerNeeded)) == len(asked)


@pytest.mark.parametrize("seed", range(6))
def test_who_was_taken_for_dead_owns_nothing_that_others_took(seed: int) -> None:
    ring = RecordRing.warm(8, seed, backups=2)
    keys = ring.put_everywhere()
    sleeper = ring.in_order[3]
    theirs = [key for key in keys if key.startswith(sleeper)]
    ring.pause(sleeper)
    ring.run(6)
    assert all(set(ring.owners(key)) - {sleeper} for key in theirs)
    ring.resume(sleeper)
    ring.settle()
    assert [uid for uid, _ in ring.told(Rejoining)] == [sleeper]
    check_owners(ring, keys)
    lost = {fact.key for uid, fact in ring.told(DutyLost) if uid == sleeper}  # type: ignore[attr-defined]
    assert lost == {key for key in theirs if ring.owners(key) != [sleeper]}
    assert lost == set(theirs)


def test_who_was_taken_for_dead_asks_after_all_its_records_a_message_full_at_a_time() -> None:
    here = [100, 200, 300, 400, 500]
    left, right = member(200), member(400)
    bench = Bench.on_ring(here, 300)
    keys = [f"{number}" for number in range(2 * MAX_ENTRIES + 10)]
    for key in keys:
        bench.give(PutRecord(key, b""))
    bench.receive(right, HeldDead(1, witnessed=True))
    bench.up(left)
    bench.measure(left)
    effects = bench.receive(left, JoinAccept(300, left, ()))
    effects += bench.receive(left, Intent(Purpose.RING))
    effects += bench.receive(left, view_of(200, [200, 300]))
    asked = list[str]()
    while questions := [message for to, message in sent(effects, Reclaim) if to == left.uid]:
        [question] = questions
        named = tuple(entry.key for entry in question.entries)
        asked += named
        effects = bench.receive(left, ReclaimAnswer((), named, ()))
    assert asked == sorted(keys)
    bench.wait(2 * LAN.silence_ns / 1e9, [left])
    assert set(bench.node.records) == set(keys)
    [index] = [m for _, m in sent(bench.receive(left, IndexRequest("")), RecordIndex)]
    assert [entry.key for entry in index.entries] == sorted(keys)[:MAX_ENTRIES]


def test_who_comes_back_and_finds_nobody_that_took_its_records_goes_on() -> None:
    """All others died while it was asleep."""
    ring = RecordRing.warm(4, 3, backups=2)
    keys = ring.put_everywhere()
    sleeper = ring.in_order[0]
    ring.pause(sleeper)
    ring.run(6)
    for uid in ring.alive:
        if uid != sleeper:
            ring.crash(uid, KILL)
    ring.resume(sleeper)
    ring.settle()
    assert [ring.owners(key) for key in keys if key.startswith(sleeper)] == [[sleeper]] * 3


def test_a_restarted_broker_does_not_bring_its_old_life_back() -> None:
    ring = RecordRing.warm(8, 2, backups=2)
    keys = ring.put_everywhere()
    uid = ring.in_order[3]
    ring.crash(uid, KILL)
    ring.restart(uid, ring.alive[:3])
    ring.settle()
    assert ring.nodes[uid].records == {}
    check_owners(ring, keys)


def test_a_duty_that_is_put_elsewhere_comes_there() -> None:
    """As when a client goes to the neighbour of its broker."""
    ring = RecordRing.warm(8, 2, backups=2)
    ring.put_everywhere()
    old, new = ring.in_order[3:5]
    key = f"{old}/0"
    ring.put(new, key, b"moved")
    ring.run(0.5)
    assert ring.owners(key) == [new]
    assert [(uid, fact.key) for uid, fact in ring.told(DutyLost)] == [(old, key)]  # type: ignore[attr-defined]


def test_who_puts_a_duty_of_another_tells_it_at_once() -> None:
    """Though copies are waiting for the rate, and the claim with them."""
    ring = RecordRing.warm(8, 2, backups=2, config=replace(LAN, backup_rate=64 * 1024))
    ring.put_everywhere()
    old, new = ring.in_order[3:5]
    key = f"{old}/0"
    for number in range(2 * BURST_BYTES // 40_000):
        ring.put(new, f"big/{number}", b"x" * 40_000)
    ring.run(0.5)
    assert not ring.is_backed_up, "the scenario: more than may be sent at once"
    ring.put(new, key, b"moved")
    ring.run(ROUND_TRIP_S)
    assert ring.owners(key) == [new]
    assert [(uid, fact.key) for uid, fact in ring.told(DutyLost)] == [(old, key)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("backups", [1, 2, 4])
def test_a_rolling_restart_loses_nothing(backups: int) -> None:
    ring = RecordRing.warm(6, 5, backups)
    keys = ring.put_everywhere()
    for uid in list(ring.alive):
        ring.leave(uid)
        ring.run(1)
        assert uid not in ring.alive
        check_owners(ring, keys)
        ring.restart(uid, ring.alive[:3])
        ring.run(2)
    ring.settle()
    check_owners(ring, keys)
    assert ring.ledger.findings == []


def test_many_that_leave_at_once_lose_nothing() -> None:
    ring = RecordRing.warm(40, 1, backups=2)
    keys = ring.put_everywhere(2)
    rng = rng_for("storm")
    for uid in rng.sample(ring.in_order, 20):
        ring.world.at(ring.world.now + rng.randrange(10**9), ring.leave, uid)
    ring.run(4)
    assert len(ring.alive) == 20
    ring.settle()
    check_owners(ring, keys)


@pytest.mark.parametrize(
    "seed", [100, 101, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (102, 103))]
)
@pytest.mark.parametrize("records", [0, 2])
def test_nine_of_ten_that_leave_at_one_moment_leave_a_whole_ring(records: int, seed: int) -> None:
    """They go one after another: those that stay lose nobody before they know the next."""
    ring = RecordRing.warm(40, seed, backups=2)
    keys = ring.put_everywhere(records)
    leaving = rng_for("leaving", seed).sample(ring.in_order, 36)
    for uid in leaving:
        ring.leave(uid)
    ring.run(LAN.leave_ns / 1e9)
    assert not set(leaving) & set(ring.alive)
    ring.settle()
    check_owners(ring, keys)


def test_who_leaves_offers_nothing_to_one_that_has_said_it_leaves() -> None:
    """Two that stand side by side; copies are slow, so both are still there for a while."""
    ring = RecordRing.warm(8, 1, backups=2, config=replace(LAN, backup_rate=512 * 1024))
    first, second = ring.in_order[3:5]
    for uid in (first, second):
        for number in range(2 * WINDOW):
            ring.put(uid, f"{uid}/{number}", b"x" * 20_000)
    ring.settle()
    seen: dict[str, Filter] = {}

    def watched(machine: Machine) -> Filter:
        seen[machine.peer.uid] = Filter(machine, lambda message: False)
        return seen[machine.peer.uid]

    def offered(uid: str) -> set[str]:
        return {to for to, message in seen[uid].sent if isinstance(message, Offer)}

    ring.watch(first, watched)
    ring.watch(second, watched)
    ring.leave(first)
    ring.run(ROUND_TRIP_S)
    assert second in offered(first)
    ring.leave(second)
    ring.run(ROUND_TRIP_S)
    seen[first].sent.clear()
    ring.run(1)
    assert {first, second} <= set(ring.alive), "the scenario: both have much to hand over"
    assert offered(first)
    assert second not in offered(first)
    assert offered(second)
    assert first not in offered(second)


def test_a_leave_without_anybody_to_hand_over_to_is_not_held_up() -> None:
    ring = RecordRing.warm(1, 1, backups=2)
    ring.put(ring.alive[0], "key", b"body")
    ring.leave(ring.alive[0])
    ring.run(0.001)
    assert ring.alive == []


def test_a_leave_that_cannot_hand_over_ends_in_time() -> None:
    """Its neighbours have stopped: they answer nothing, and are not dead yet."""
    ring = RecordRing.warm(8, 1, backups=2, config=replace(LAN, heartbeat_ns=nanos(10)))
    keys = ring.put_everywhere()
    leaver = ring.in_order[3]
    around = [uid for uid in ring.alive if uid != leaver]
    for uid in around:
        ring.pause(uid)
    ring.leave(leaver)
    ring.run(LAN.leave_ns / 1e9 + 0.01)
    assert leaver not in ring.alive
    for uid in around:
        ring.resume(uid)
    ring.settle()
    check_owners(ring, keys)


def test_who_comes_back_asks_around_its_old_place() -> None:
    """The one that took its records over has handed them on and is gone."""
    ring = RecordRing.warm(12, 4, backups=1)
    keys = ring.put_everywhere()
    sleeper, heir = ring.in_order[3:5]
    ring.pause(sleeper)
    ring.run(6)
    assert ring.owners(f"{sleeper}/0") == [sleeper, heir]
    ring.leave(heir)
    ring.run(6)
    ring.resume(sleeper)
    ring.settle()
    check_owners(ring, keys)
    assert ring.owners(f"{sleeper}/0") != [sleeper]


@pytest.mark.parametrize("seed", range(2))
def test_who_comes_back_asks_those_that_have_come_to_stand_there(seed: int) -> None:
    """All that stood around it have handed over what they had, and are gone."""
    ring = RecordRing.warm(16, seed, backups=1)
    keys = ring.put_everywhere()
    order = ring.in_order
    sleeper = order[5]
    ring.pause(sleeper)
    ring.run(6)
    for uid in (*order[3:5], *order[6:8]):
        ring.leave(uid)
        ring.run(3)
    since = ring.world.now
    ring.resume(sleeper)
    ring.settle()
    check_owners(ring, keys)
    assert [uid for uid, _ in ring.told(Rejoining, since)] == [sleeper]
    assert ring.told(DutyTaken, since) == [], "nobody claims what has an owner"
    assert [uid for uid, _ in ring.told(DutyLost, since)] == [sleeper] * 3


def test_a_fence_counts_on_a_link_that_was_made_for_it() -> None:
    """Two brokers that do not know each other own one record: a common neighbour sees it."""
    ring = RecordRing.warm(9, 4, backups=2)
    better, worse = ring.in_order[3], ring.in_order[7]
    ring.put(better, "key", b"better")
    ring.put(worse, "key", b"worse")
    assert len(ring.owners("key")) == 2
    ring.run(3 * LAN.reconcile_ns / 1e9)
    assert ring.owners("key") == [better]


def test_bytes_of_before_do_not_win_over_the_latest() -> None:
    """C is no holder any more, as another came between, and keeps for a while what it had."""
    ring = RecordRing.warm(8, 1, backups=2)
    ring.put_everywhere(6)
    newcomer = ring.join(ring.in_order[:3])
    ring.run(2)
    order = ring.in_order
    owner = order[order.index(newcomer) - 1]
    keys = sorted(ring.nodes[owner].records)
    assert keys
    for key in keys:
        ring.put(owner, key, b"latest")
    ring.run(0.5)
    assert ring.is_backed_up
    for dead in (owner, newcomer):
        ring.crash(dead, KILL)
    ring.run(10)
    check_owners(ring, keys)
    assert {ring.nodes[ring.owners(key)[0]].records[key] for key in keys} == {b"latest"}


@pytest.mark.parametrize("seconds", [2, 3, 20])
def test_who_was_cut_off_takes_nothing_from_those_that_lived_on(seconds: float) -> None:
    """Nobody bore witness to the deaths it believed in."""
    ring = RecordRing.warm(12, 1, backups=2)
    ring.put_everywhere()
    order = ring.in_order
    around, alone = (order[4], order[6]), order[5]
    ring.part([[alone], [uid for uid in order if uid != alone]])
    ring.run(seconds / 2)
    for uid in around:
        ring.put(uid, f"{uid}/0", b"latest")
    ring.run(seconds / 2)
    ring.heal()
    ring.settle()
    assert [ring.owners(f"{uid}/0") for uid in around] == [[uid] for uid in around]
    assert {ring.nodes[uid].records[f"{uid}/0"] for uid in around} == {b"latest"}


@pytest.mark.parametrize("reason", [Leave(), ReportLoad(1000)])
def test_a_record_dropped_while_it_is_offered_is_nobodys(reason: Leave | ReportLoad) -> None:
    ring = RecordRing.warm(8, 1, backups=2)
    ring.put_everywhere(10)
    owner = ring.in_order[3]
    keys = sorted(ring.nodes[owner].records)
    ring.world.give(owner, reason)
    ring.run(0.0005)
    assert sorted(ring.nodes[owner].records) == keys, "nothing is answered yet"
    for key in keys:
        ring.world.give(owner, DropRecord(key))
    ring.run(10)
    assert {key: ring.owners(key) for key in keys} == {key: [] for key in keys}


@pytest.mark.parametrize("seed", [3, 5, 6])
def test_who_was_cut_off_does_not_claim_bytes_of_before_either(seed: int) -> None:
    """It was a holder until another came between, and takes over what it had then."""
    ring = RecordRing.warm(8, seed, backups=2)
    ring.put_everywhere()
    newcomer = ring.join(ring.in_order[:3])
    ring.run(2)
    order = ring.in_order
    at = order.index(newcomer)
    owner, alone = order[at - 1], order[(at + 1) % len(order)]
    keys = sorted(ring.nodes[owner].records)
    for key in keys:
        ring.put(owner, key, b"latest")
    ring.run(0.5)
    ring.part([[alone], [uid for uid in order if uid != alone]])
    ring.run(2.5)
    ring.heal()
    ring.settle()
    assert {key: ring.owners(key) for key in keys} == {key: [owner] for key in keys}
    assert {ring.nodes[owner].records[key] for key in keys} == {b"latest"}


def test_who_is_linked_again_in_the_same_life_owns_what_it_owned() -> None:
    """Cut off from nearly all, a broker took that over for a death that was none."""
    ring = RecordRing.warm(24, 3, backups=2)
    rng = rng_for("linked again")
    ring.put_everywhere(2)
    order = ring.in_order
    alone, owner = order[5], order[4]
    far = set(rng.sample(order[10:], 3))
    lost = [uid for uid in order if uid != alone and uid not in far]
    for uid in lost:
        ring.cut(uid, alone)
    ring.run(1.05)
    ring.put(owner, f"{owner}/0", b"latest")
    ring.run(1.05)
    for uid in lost:
        if uid != owner:
            ring.mend(uid, alone)
    ring.run(10)
    ring.mend(owner, alone)
    ring.settle()
    ring.run(30)
    assert ring.owners(f"{owner}/0") == [owner]
    assert ring.nodes[owner].records[f"{owner}/0"] == b"latest"


@pytest.mark.parametrize("seed", [3, 4])
def test_what_is_claimed_anew_after_a_cut_does_not_win_over_its_owner_later(seed: int) -> None:
    """Back in a part of the ring that knows nothing of the owners, which live in the other."""
    ring = RecordRing.warm(16, seed, backups=2)
    ring.put_everywhere(1)
    order = ring.in_order
    alone, owners = order[5], (order[4], order[6])
    ring.part([[alone], [uid for uid in order if uid != alone]])
    ring.run(3.5)
    west = [uid for uid in order[:9] if uid != alone]
    ring.part([west, [*order[9:], alone]])
    ring.run(60)
    for uid in owners:
        ring.put(uid, f"{uid}/0", b"latest")
    ring.run(0.5)
    ring.heal()
    ring.settle(120)
    ring.run(60)
    for uid in owners:
        (here,) = ring.owners(f"{uid}/0")
        assert ring.nodes[here].records[f"{uid}/0"] == b"latest"
