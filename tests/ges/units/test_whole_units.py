"""Overlays of several clusters: splits, folds, partitions and merges, in virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from ges.units.facts import LimitDiffers, TookOffice
from ges.units.planner import UnitsConfig
from ges.wire.telling_messages import TELLING_MESSAGES, Held, Kind, Letter, Told
from ges.wire.unit_messages import UNIT_MESSAGES, UnitReport
from overlay.ids import nanos
from overlay.machine import OpenLink, Send
from sims.world.warm import spread_evenly
from sims.world.world import CrashMode
from tests.helpers.units_ring import UnitsRing

FOUR = UnitsConfig(limit=4)
KILL = CrashMode.KILL
#: Until all have addresses: the slots of the dead rest for 60 s, and newcomers may wait for these.
AGREED_S = 80.0

VERBS = ("join", "join", "join", "leave", "kill", "power", "restart", "part", "heal", "wait")


def play(seed: int, steps: int) -> UnitsRing:
    """Let brokers come and go in any order, at most 24 of them, four in a cluster."""
    rng = random.Random(seed)
    ring = UnitsRing(seed, units=FOUR)
    ring.found()

    def join(alive: list[str]) -> None:
        if len(alive) < 21:
            for _ in range(rng.randint(1, 4)):
                ring.start(alive)

    ring.play(rng, rng.randint(4, steps), VERBS, {"join": join})
    return ring


@pytest.mark.parametrize(
    "seed", [1, 4, *(pytest.param(s, marks=pytest.mark.soak) for s in (0, 2, 3, 5, 6, 7))]
)
def test_whatever_happens_at_rest_units_are_in_order(seed: int) -> None:
    """H02: unique addresses, no unit above its limit, one table in each context."""
    play(seed, 16).agree(AGREED_S)


@pytest.mark.soak
@pytest.mark.parametrize("hundred", range(10))
def test_whatever_happens_for_long(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        play(seed, 24).agree(AGREED_S)


# Growing


def grown(n: int, units: UnitsConfig, seed: int = 1, pause: float = 1.0) -> UnitsRing:
    """Return an overlay whose brokers have joined one after the other."""
    ring = UnitsRing(seed, units=units)
    ring.found()
    while len(ring.nodes) < n:
        ring.start(ring.alive)
        ring.run(pause)
    ring.rest()
    ring.agree(AGREED_S)
    return ring


def sizes(ring: UnitsRing) -> list[int]:
    """Return how many members the clusters have."""
    clusters = [address.rpartition(".")[0] for address in ring.addresses().values()]
    return sorted(clusters.count(each) for each in set(clusters))


@pytest.mark.parametrize(
    ("limit", "threshold"), [(16, 14), pytest.param(64, 56, marks=pytest.mark.soak)]
)
def test_a_cluster_is_split_at_the_median_and_all_keep_their_slots(
    limit: int, threshold: int
) -> None:
    """H05: one number of the address changes, of half of the members."""
    ring = UnitsRing(seed=2, units=UnitsConfig(limit))
    ring.start_warm(spread_evenly(threshold - 1))
    ring.rest()
    ring.agree()
    before = ring.addresses()
    assert {each.rpartition(".")[0] for each in before.values()} == {"0.0.0"}
    ring.start(ring.alive)
    ring.rest()
    ring.run(5)
    ring.agree()
    after = ring.addresses()
    changed = [uid for uid in before if after[uid] != before[uid]]
    half = threshold // 2
    assert len(changed) in (half - 1, half)
    assert {after[uid].replace("0.0.1.", "0.0.0.") for uid in changed} == {
        before[uid] for uid in changed
    }
    assert sizes(ring) == [half, half]


def test_no_cluster_is_above_its_limit_while_many_come_through_one_contact() -> None:
    """H03, small: all have addresses within 5 s after the last has come."""
    ring = UnitsRing(3, units=UnitsConfig(limit=8))
    first = ring.found()
    while len(ring.nodes) < 20:
        ring.start([first])
        ring.run(0.1)
        assert max(sizes(ring)) <= 8
    ring.rest()
    ring.agree(5)


def test_what_brokers_export_says_where_each_place_lies() -> None:
    ring = grown(9, FOUR)
    for uid in ring.alive:
        units = ring.brokers[uid].units
        member = ring.nodes[uid].member
        assert member is not None
        assert units.address is not None
        for level in (1, 2, 3):
            row = units.unit_of(member.ring_id, level)
            assert row is not None
            assert row.number == units.address.at(level)
            assert row in units.tables[level].rows
        assert units.arc.holds(member.ring_id)
        assert units.is_steward_of(1) == (units.steward == uid)
        assert not units.is_for_all
    assert [uid for uid in ring.alive if ring.brokers[uid].units.is_steward_of(4)] == [
        ring.in_order[0]
    ]


# Shrinking


def test_neighbours_that_have_become_small_are_folded_after_a_pause() -> None:
    ring = grown(6, FOUR)
    assert len(sizes(ring)) == 2
    split_at = ring.world.now
    while len(ring.alive) > 2:
        ring.leave(ring.in_order[1])
        ring.run(0.5)
    ring.rest()
    ring.run(25)
    ring.agree()
    while len(sizes(ring)) == 2:
        ring.run(1)
        assert ring.world.now < split_at + nanos(90)
    ring.agree(AGREED_S)
    assert ring.world.now >= split_at + nanos(25)
    assert sizes(ring) == [2]
    ring.run(80)
    assert all(ring.brokers[uid].units.is_for_all for uid in ring.alive), "events name brokers"


# Stewards


def split_wanted(ring: UnitsRing) -> None:
    """Let one more come than a cluster may have."""
    for _ in range(3):
        ring.start(ring.alive[1:])


def fold_wanted(ring: UnitsRing) -> None:
    """Let all but two leave."""
    for uid in ring.in_order[2:-1]:
        ring.leave(uid)


def displaced(ring: UnitsRing) -> None:
    """A broker with a smaller ring id is linked: it was a ring of its own."""
    other = ring.found(5)
    ring.link(other, ring.in_order[-1])


def kill_after(
    ring: UnitsRing, uid: str, count: int, what: Callable[[UnitsRing], None], seconds: float
) -> bool:
    """Kill a broker at that message about units, if it sends as many; say whether it was."""
    sent, told = [0], ring.world.on_sent

    def on_sent(sender: str, effect: Send | OpenLink) -> None:
        told(sender, effect)
        if sender == uid and isinstance(effect, Send):
            is_counted = isinstance(effect.message, (*TELLING_MESSAGES, *UNIT_MESSAGES))
            if isinstance(effect.message, Held | Letter | UnitReport):
                is_counted = isinstance(effect.message, UnitReport)
            sent[0] += is_counted
            if sent[0] == count and uid in ring.alive:
                ring.crash(uid, KILL)

    ring.world.on_sent = on_sent
    what(ring)
    ring.run(seconds)
    ring.world.on_sent = told
    return uid not in ring.alive


@pytest.mark.parametrize(
    ("what", "seconds", "counts"),
    [
        (split_wanted, 8.0, range(1, 12, 2)),
        (fold_wanted, 45.0, (1, 4, 7)),
        (displaced, 6.0, (1, 2)),
        pytest.param(split_wanted, 8.0, range(1, 60), marks=pytest.mark.soak),
        pytest.param(fold_wanted, 45.0, range(1, 40), marks=pytest.mark.soak),
        pytest.param(displaced, 6.0, range(1, 10), marks=pytest.mark.soak),
    ],
)
def test_a_steward_that_dies_after_any_message_leaves_units_in_order(
    what: Callable[[UnitsRing], None], seconds: float, counts: range
) -> None:
    """H06: the steward of all contexts is killed after its first message, and so on."""
    deaths = 0
    for count in counts:
        ring = UnitsRing(count, units=FOUR)
        ring.found(1000)
        for _ in range(4):
            ring.join(ring.alive)
            ring.run(0.5)
        ring.rest()
        ring.agree(AGREED_S)
        deaths += kill_after(ring, ring.in_order[0], count, what, seconds)
        ring.rest()
        ring.agree(AGREED_S)
    assert deaths, "it has sent messages"


TABLES = (Kind.MEMBERS, Kind.CLUSTERS, Kind.SUPER_CLUSTERS, Kind.SUPER_SUPER_CLUSTERS)


def test_a_change_in_one_context_sends_nothing_to_another() -> None:
    """H30: a split concerns the context of the cluster; in others nobody is told."""
    ring = grown(14, UnitsConfig(limit=3), pause=0.3)
    ring.run(60)  # all have told how large their units are
    ring.agree(AGREED_S)
    assert len(ring.brokers[ring.in_order[0]].units.tables[2].rows) > 1, "there are three levels"
    units = {uid: ring.brokers[uid].units for uid in ring.alive}
    where = {uid: unit.address.at(2) for uid, unit in units.items() if unit.address is not None}
    told: set[str] = set()
    before = ring.world.on_sent

    def on_sent(sender: str, effect: Send | OpenLink) -> None:
        before(sender, effect)
        message = effect.message if isinstance(effect, Send) else None
        if isinstance(message, Told) and message.kind in TABLES:  # links concern both ends
            told.add(f"{effect.uid}")

    ring.world.on_sent = on_sent
    dead = ring.in_order[5]
    ring.crash(dead, KILL)
    ring.run(5)
    assert told, "members of its cluster are told"
    assert {where[uid] for uid in told if uid in where} == {where[dead]}


# Rings that meet


def test_a_broker_with_another_limit_goes_by_that_of_the_overlay_and_says_so_once() -> None:
    ring = grown(6, FOUR)
    ring.facts.clear()
    ring.units = UnitsConfig(limit=64)
    late = [ring.join(ring.alive) for _ in range(3)]
    ring.units = FOUR
    ring.rest()
    ring.agree(AGREED_S)
    differs = [(uid, fact) for _, uid, fact in ring.facts if isinstance(fact, LimitDiffers)]
    assert differs == [(uid, LimitDiffers(4, 64)) for uid in late]
    assert max(sizes(ring)) <= 4


def test_after_a_partition_who_stands_where_it_stood_has_the_address_of_before() -> None:
    ring = grown(14, UnitsConfig(limit=12), seed=5)
    assert len(sizes(ring)) == 2
    before = ring.addresses()
    order = ring.in_order
    places = {uid: ring.nodes[uid].member for uid in order}
    ring.part([order[:5], order[5:]])
    ring.run(3)
    ring.heal()
    ring.rest(200)
    ring.agree(AGREED_S)
    after = ring.addresses()
    stayed = [
        uid
        for uid, member in places.items()
        if (now := ring.nodes[uid].member) and member and now.ring_id == member.ring_id
    ]
    assert len(stayed) > 8
    assert {uid: after[uid] for uid in stayed} == {uid: before[uid] for uid in stayed}


def test_office_passes_with_the_ring() -> None:
    """The first of a cluster is its steward, and whoever comes to stand first takes office."""
    ring = grown(9, FOUR, seed=4)
    ring.facts.clear()
    table = ring.brokers[ring.in_order[0]].units.tables[1]
    second = table.rows[1].lo
    dead = next(uid for uid in ring.in_order if ring.nodes[uid].member.ring_id >= second)  # type: ignore[union-attr]
    heir = ring.in_order[ring.in_order.index(dead) + 1]
    ring.crash(dead, KILL)
    ring.rest()
    ring.agree(AGREED_S)
    offices = [uid for _, uid, fact in ring.facts if isinstance(fact, TookOffice)]
    assert offices == [heir]


def test_masks_are_sure_again_as_soon_as_all_hold_the_tables_of_a_split() -> None:
    """No broker waits for a time to be over, and a newcomer hears it with the tables."""
    ring = UnitsRing(1, units=UnitsConfig(8))
    ring.found()
    rng = random.Random(1)
    while len(ring.alive) < 7:
        ring.start(rng.sample(ring.alive, min(3, len(ring.alive))))
        ring.run(1)
    gateways = [ring.brokers[uid].gateways for uid in ring.alive]
    unsure = 0
    while not all(each.levels > 1 and each.is_for_all for each in gateways):
        unsure += any(each.levels > 1 for each in gateways)
        ring.run(0.05)
        assert unsure < 20, "a second after the split"
    newcomer = ring.start(rng.sample(ring.alive, 3))
    ring.run(2)
    assert ring.brokers[newcomer].units.are_taken
    assert ring.brokers[newcomer].gateways.is_for_all
