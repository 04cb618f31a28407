"""Units with names: brokers that were given one stand in the unit of that name."""

from __future__ import annotations

import random

import pytest

from ring.facts import JoinRejected, Rejoining
from sims.world.world import CrashMode
from tests.helpers.named_ring import NamedRing

KILL = CrashMode.KILL
#: Until all stand where they wish: a broker that does not notices after 20 s at most, and again
#: after twice that.
SETTLED_S = 120.0

#: 20 clusters in 6 super-clusters, and brokers that name no cluster, or nothing.
NAMES = tuple(f"{d}/{c}/{b}" for d in ("eu", "us") for c in ("x", "y") for b in "abcde")


def rejected(ring: NamedRing) -> dict[str, str]:
    """Return why brokers got no place, by uid."""
    return {uid: f.reason for _, uid, f in ring.facts if isinstance(f, JoinRejected)}


@pytest.mark.parametrize(
    ("seed", "more"), [(0, 0), *(pytest.param(n, 20, marks=pytest.mark.soak) for n in range(4))]
)
def test_eight_brokers_at_once_make_one_row_for_each_of_twenty_names(seed: int, more: int) -> None:
    """H09: each broker stands in its unit, and no name has two rows."""
    ring = NamedRing(seed)
    first = ring.found()
    rng = random.Random(seed)
    wishes = [*NAMES, *rng.choices(NAMES, k=more)]
    rng.shuffle(wishes)
    while wishes:
        at_once, wishes = wishes[:8], wishes[8:]
        for unit in at_once:
            ring.start_in(unit, [first])
        ring.run(rng.choice((0.0, 0.5, 3.0)))
    ring.rest()
    ring.agree(SETTLED_S)
    assert ring.names() == {"", *NAMES}
    units = {uid: ring.brokers[uid].units for uid in ring.alive}
    addresses = {uid: str(unit.address).rpartition(".")[0] for uid, unit in units.items()}
    clusters = {(addresses[uid], ring.wanted[uid]) for uid in ring.alive}
    assert len(clusters) == 21, "one cluster for each name, and one for the broker without"


def test_levels_that_have_no_name_form_by_themselves() -> None:
    ring = NamedRing(limit=4)
    ring.unit = "eu/fra"
    ring.found()
    for _ in range(8):
        ring.start_in("eu/fra")
        ring.start_in("us")
        ring.run(1)
    ring.rest()
    ring.agree(SETTLED_S)
    units = [ring.brokers[uid].units for uid in ring.alive if ring.wanted[uid] == "eu/fra"]
    clusters = {unit.cluster for unit in units}
    assert len(clusters) > 2, "9 brokers are more than two clusters of 4"
    assert len({cluster[:2] for cluster in clusters if cluster}) == 1, "all of one super-cluster"


def test_the_founder_names_its_units_and_others_without_a_name_stand_beside_them() -> None:
    ring = NamedRing()
    ring.unit = "eu/fra/a"
    ring.found()
    for unit in ("eu/fra/a", "", "eu/fra/a", ""):
        ring.start_in(unit, [ring.alive[0]])
        ring.run(1)
    ring.rest()
    ring.agree(SETTLED_S)
    [first] = {ring.brokers[u].units.cluster for u in ring.alive if ring.wanted[u]}
    [other] = {ring.brokers[u].units.cluster for u in ring.alive if not ring.wanted[u]}
    assert first == (0, 0, 0)
    assert other is not None
    assert other[0] == 1


def test_a_named_cluster_that_is_full_takes_nobody_and_names_its_siblings() -> None:
    """H09: it is not split, whoever asks, and however many ask at once."""
    ring = NamedRing(limit=8)
    ring.unit = "eu/fra/a"
    first = ring.found()
    ring.start_in("eu/fra/b", [first])
    ring.start_in("eu/fra/c", [first])
    ring.run(8)
    for _ in range(12):
        ring.start_in("eu/fra/a", [first])
    ring.run(20)
    reasons = rejected(ring)
    assert len(reasons) == 5
    assert set(reasons.values()) == {
        "cluster eu/fra/a is full: it has 8 brokers, the most that it may have; "
        "give --unit another one in eu/fra: b, c"
    }
    for uid in reasons:
        ring.crash(uid, KILL)
    ring.rest()
    ring.agree(SETTLED_S)
    assert sum(ring.wanted[uid] == "eu/fra/a" for uid in ring.alive) == 8


def test_a_super_cluster_that_is_full_says_so() -> None:
    ring = NamedRing(limit=3)
    ring.unit = "eu/fra/a"
    ring.found()
    for name in "bcd":
        ring.start_in(f"eu/fra/{name}")
        ring.run(8)
    ring.start_in("eu/fra")
    ring.run(8)
    assert [*rejected(ring).values()] == [
        "eu/fra has 3 clusters, the most that it may have; give --unit another one in eu/fra: "
        "a, b, c",
        "eu/fra has 3 clusters, the most that it may have; give --unit another one in eu/fra: "
        "a, b, c",
    ]


def test_clusters_without_a_name_that_are_all_full_say_so() -> None:
    ring = NamedRing(limit=3)
    ring.unit = "eu/fra"
    ring.found()
    for _ in range(9):
        ring.start_in("eu/fra")
        ring.run(6)
    assert [*rejected(ring).values()] == [
        "all 3 clusters of eu/fra are full; no other super-cluster in eu has a name; give --unit "
        "a new one"
    ]


def test_small_named_units_are_not_folded_while_they_have_members_and_are_gone_after() -> None:
    ring = NamedRing()
    ring.found()
    last = [ring.start_in("eu/fra/a"), ring.start_in("eu/fra/b")]
    ring.rest()
    ring.agree(SETTLED_S)
    ring.run(90)
    ring.agree(0.1)
    assert ring.names() == {"", "eu/fra/a", "eu/fra/b"}
    for uid in last:
        ring.crash(uid, KILL)
    ring.rest()
    ring.run(60)
    ring.agree(SETTLED_S)
    table = ring.brokers[ring.alive[0]].units.tables[3]
    assert [row.name for row in table.rows] == [""]


def test_brokers_of_a_ring_whose_names_do_not_count_move() -> None:
    """Two rings meet: the table of one counts, and it has no names."""
    ring = NamedRing()
    ring.unit = "eu"
    named = [ring.found(7)]
    for _ in range(2):
        named.append(ring.start_in("eu", named))
        ring.run(1)
    ring.unit = ""
    plain = [ring.found(1000)]
    for _ in range(2):
        plain.append(ring.start_in("", plain))
        ring.run(1)
    ring.run(10)
    ring.link(named[0], plain[0])
    ring.rest(200)
    ring.agree(SETTLED_S)
    moved = {uid for _, uid, fact in ring.facts if isinstance(fact, Rejoining)}
    assert moved, "some stood where they did not wish to"


def test_a_broker_that_is_alone_in_a_unit_called_otherwise_calls_it_as_it_wishes() -> None:
    """It would get the same place and the same table again, if it moved."""
    ring = NamedRing()
    ring.found()
    alone = ring.start_in("eu/fra")
    ring.rest()
    ring.agree(SETTLED_S)
    contexts = ring.brokers[alone].units.placement._contexts
    contexts.names, ring.wanted[alone] = ("eu", "fra", "a"), "eu/fra/a"
    ring.run(40)
    ring.agree(1)
    assert [fact for _, _, fact in ring.facts if isinstance(fact, Rejoining)] == []


def play(seed: int, steps: int) -> NamedRing:
    """Let brokers with and without names come and go in any order."""
    rng = random.Random(seed)
    ring = NamedRing(seed, limit=6)
    wishes = ("", "eu", "eu/fra", "eu/fra/a", "eu/fra/b", "eu/par/a", "us/x/y")
    ring.unit = rng.choice(wishes)
    ring.found()
    ring.unit = ""

    def join(alive: list[str]) -> None:
        for _ in range(rng.randint(1, 4) if len(alive) < 18 else 0):
            unit = rng.choice(wishes)
            if sum(ring.wanted[uid] == unit for uid in ring.alive) < 5:
                ring.start_in(unit)

    ring.play(rng, steps, ("join", "join", "kill", "restart", "part", "heal"), {"join": join})
    return ring


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_all_stand_in_their_units_at_rest(seed: int) -> None:
    play(seed, 10).agree(SETTLED_S)


@pytest.mark.soak
@pytest.mark.parametrize("twenty", range(10))
def test_whatever_happens_for_long(twenty: int) -> None:
    for seed in range(100 + 20 * twenty, 120 + 20 * twenty):
        play(seed, 18).agree(SETTLED_S)
