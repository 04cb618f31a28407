"""Who owns a record after a partition: one broker again, whatever happened while it lasted."""

from __future__ import annotations

import random

import pytest

from overlay.rng import rng_for
from ring.facts import DutyLost
from ring.wire.record_messages import Claims, Entry
from sims.experiments.record_rings import Filter, RecordRing
from sims.stories import records

APART_S = 30.0  #: time for each side to become a ring and to take over
LIMIT_S = 200.0  #: small rings knock rarely
MEETING_S = 30.0  #: claims are told to the records' homes that often, at the least

SHAPES = ("half", "thirds", "every other", "arc", "one")


def split(ring: RecordRing, shape: str, rng: random.Random) -> list[list[str]]:
    """Return the sides of a partition."""
    order = ring.in_order
    n = len(order)
    drawn = rng.sample(order, n)
    at = rng.randrange(2, n - 1)
    sides = {
        "half": [drawn[: n // 2], drawn[n // 2 :]],
        "thirds": [drawn[: n // 3], drawn[n // 3 : 2 * n // 3], drawn[2 * n // 3 :]],
        "every other": [order[::2], order[1::2]],
        "arc": [order[:at], order[at:]],
        "one": [drawn[:1], drawn[1:]],
    }
    return sides[shape]


def unify(ring: RecordRing) -> None:
    """Heal, and let the rings merge and their claims meet."""
    ring.heal()
    ring.rest(LIMIT_S)
    ring.run(2 * MEETING_S)
    ring.settle(LIMIT_S)


def check_one_owner(ring: RecordRing, keys: list[str]) -> None:
    """Each record has one owner, who has the bytes of its writer; all backups have them too."""
    assert {key: found for key in keys if len(found := ring.owners(key)) != 1} == {}
    for key in keys:
        body = ring.nodes[ring.owners(key)[0]].records[key]
        assert body == key.split("/")[0].encode()
    for uid in ring.alive:
        holders = [status for status in ring.nodes[uid].backups if status.acknowledged]
        assert len(holders) == min(ring.config.backups, len(ring.alive) - 1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("n", "backups", "seeds"),
    [
        (6, 1, range(1)),
        (6, 4, range(1)),
        (13, 2, range(1)),
        *(
            pytest.param(n, backups, seeds, marks=pytest.mark.soak)
            for n, backups, seeds in [
                (6, 1, range(1, 2)),
                (6, 2, range(2)),
                (6, 4, range(1, 2)),
                *((13, backups, range(1)) for backups in (1, 4)),
                *((24, backups, range(1)) for backups in (1, 2, 4)),
            ]
        ),
    ],
)
def test_after_a_partition_each_record_has_one_owner(
    n: int, backups: int, seeds: range, shape: str
) -> None:
    for seed in seeds:
        ring = RecordRing.warm(n, seed, backups)
        keys = ring.put_everywhere()
        ring.part(split(ring, shape, rng_for(seed, n, shape)))
        ring.run(APART_S)
        twice = [key for key in keys if len(ring.owners(key)) > 1]
        assert twice, "each side took over records of the other"
        unify(ring)
        check_one_owner(ring, keys)
        lost = {fact.key for _, fact in ring.told(DutyLost) if isinstance(fact, DutyLost)}
        assert set(twice) <= lost, "and whoever gave one up was told so"


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 5), marks=pytest.mark.soak)])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_cut_too_short_for_some_to_notice_leaves_one_owner(shape: str, seeds: range) -> None:
    for seed in seeds:
        rng = rng_for(seed, shape)
        ring = RecordRing.warm(rng.randrange(6, 19), seed, rng.choice((1, 2, 4)))
        keys = ring.put_everywhere()
        ring.part(split(ring, shape, rng))
        ring.run(rng.uniform(0.3, 6.0))
        unify(ring)
        check_one_owner(ring, keys)


def test_two_owners_far_apart_are_found_by_claims_told_to_the_home() -> None:
    """Without these they would both go on: the test above would pass by chance else."""
    owners = {}
    for is_lost in (True, False):
        ring = RecordRing.warm(8, 1, backups=4)
        keys = ring.put_everywhere()
        sides = split(ring, "every other", rng_for(1))
        ring.part(sides)
        ring.run(APART_S)
        for _ in range(4):
            for side in sides:
                contacts = list(side)
                side += [ring.start_beside(contacts) for _ in range(2)]
            ring.run(12)
        if is_lost:
            for uid in ring.alive:
                ring.watch(uid, lambda machine: Filter(machine, lambda m: isinstance(m, Claims)))
        unify(ring)
        owners[is_lost] = max(len(ring.owners(key)) for key in keys)
    assert owners == {True: 2, False: 1}


def test_where_nobody_died_no_claims_are_told() -> None:
    ring = RecordRing.warm(8, 1, backups=2)
    ring.put_everywhere()
    filters = [Filter(ring.world.hosts[uid].machine, lambda message: False) for uid in ring.alive]
    for wrapper in filters:
        ring.watch(wrapper.peer.uid, lambda _, wrapper=wrapper: wrapper)  # type: ignore[misc]
    ring.run(2 * MEETING_S)
    sent = [message for wrapper in filters for _, message in wrapper.sent]
    assert sent
    assert not any(isinstance(message, Claims) for message in sent)


@pytest.mark.parametrize("seed", [5])  # seed 1 is played by tests/mutants
def test_an_heir_that_dies_while_another_leaves_takes_no_record_to_the_grave(seed: int) -> None:
    """The leaver hears of the heir's claim before the heir says that it is safe: it must wait."""
    assert records.handovers(seed) == []


def test_claims_from_both_sides_of_a_home_meet() -> None:
    """The one whose place it was is gone, and its neighbours are equally near."""
    ring = RecordRing.warm(64, 1, backups=2)
    order = ring.in_order
    home = ring.nodes[order[32]].member
    assert home is not None
    ring.leave(order[32])
    ring.rest()
    for uid in (order[26], order[38]):
        backups = ring.nodes[uid]._duties.backups
        backups.hold(Entry("k", 2, home.ring_id, 0, 0), b"x", None, version=1)
        backups.pump_all()
    ring.run(60)
    assert len(ring.owners("k")) == 1
