"""Whole units that join another context, in virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

import pytest
from msgspec.structs import replace

from ges.units.facts import RelocationEnded
from ges.units.planner import UnitsConfig
from ges.units.room import JoinContext
from ges.wire.operator_messages import JoinState
from ges.wire.unit_messages import UnitRow
from overlay.ids import Nanos, Peer
from ring.facts import Rejoining
from ring.joining.guide import Aim, Guide, Lead, Way
from ring.wire.messages import Wish
from sims.experiments.unit_joins import joining
from tests.helpers.moving_units import MovingUnits
from tests.helpers.units_ring import UnitsRing

BEFORE, AFTER = "eu/fra", "us/fra"
#: An overlay whose unit has one broker in each of its clusters.
SMALL = pytest.mark.formed(MovingUnits, each=1)


def small(seed: int = 1) -> MovingUnits:
    """Return an overlay whose unit has one broker in each of its clusters."""
    return MovingUnits(seed, each=1)


def test_a_super_cluster_of_three_clusters_joins_as_a_unit() -> None:
    """H08: only its own number differs in 9 of 9 addresses, and its names follow."""
    ring = MovingUnits()
    moving = ring.standing_in(BEFORE)
    before = ring.addresses()
    order = [uid for uid in ring.in_order if uid in moving]
    ring.facts.clear()
    first = ring.begin()
    ring.run(4)
    assert ring.settle() == AFTER
    after = ring.addresses()
    pairs = [(before[uid].split("."), after[uid].split(".")) for uid in moving]
    assert len(pairs) == 9
    assert {(*old[:2], *new[:2]) for old, new in pairs} == {("0", "0", "1", "1")}
    assert [old[2:] for old, _ in pairs] == [new[2:] for _, new in pairs]
    assert [uid for uid in ring.in_order if uid in moving] == order
    moved = [uid for _, uid, fact in ring.facts if isinstance(fact, Rejoining)]
    assert sorted(moved) == sorted(moving), "each of them once, and nobody else"
    assert moved[0] == first
    ended = {uid: fact for _, uid, fact in ring.facts if isinstance(fact, RelocationEnded)}
    assert ended == {uid: RelocationEnded(ring.wanted[uid], is_there=True) for uid in moving}
    assert {ring.wanted[uid] for uid in moving} == {"us/fra/a", "us/fra/b", "us/fra/c"}


@SMALL
def test_a_cluster_joins_another_super_cluster_and_comes_back(ring: MovingUnits) -> None:
    [uid] = ring.standing_in("eu/fra/b")
    before = ring.addresses()[uid]
    ring.begin("eu/fra/b", "eu/par")
    ring.run(4)
    assert ring.settle("eu/fra/b", "eu/par/b") == "eu/par/b"
    assert ring.addresses()[uid].startswith("0.1.")
    ring.run(20)  # where units end is known to their stewards again
    ring.begin("eu/par/b", "eu/fra")
    ring.run(4)
    assert ring.settle("eu/par/b", "eu/fra/b") == "eu/fra/b"
    assert ring.addresses()[uid].startswith("0.0.")
    assert ring.addresses()[uid].endswith(before[-2:]), "it has kept its slot"


def test_a_cluster_without_a_name_joins_another_super_cluster() -> None:
    ring = UnitsRing(1, units=UnitsConfig(limit=3))
    ring.found()
    while len(ring.nodes) < 12:
        ring.start(ring.alive)
        ring.run(0.3)
    ring.rest()
    ring.agree(80)
    ring.run(40)
    units = {uid: ring.brokers[uid].units for uid in ring.alive}
    paths = {uid: unit.cluster for uid, unit in units.items() if unit.cluster is not None}
    room = next(
        path[:2]
        for uid, path in paths.items()
        if len(units[uid].tables[1].rows) < 3 and units[uid].is_steward_of(2)
    )
    cluster = next(path for path in paths.values() if path[:2] != room)
    moving = [uid for uid, path in paths.items() if path == cluster]
    beside = [uid for uid, path in paths.items() if path[:2] == room]
    before = ring.addresses()
    first, command = joining(ring.brokers, moving, beside, 1)
    ring.world.give(first, command)
    ring.run(15)
    ring.rest()
    ring.agree(80)
    after = ring.addresses()
    assert {after[uid].rpartition(".")[0].rpartition(".")[0] for uid in moving} == {
        ".".join(map(str, room))
    }
    assert [after[uid][-1] for uid in moving] == [before[uid][-1] for uid in moving], "slots"


# Deaths


def first_of(unit: str, number: int = 0) -> Callable[[MovingUnits], str]:
    """Return who finds a broker that stands in a unit."""
    return lambda ring: ring.standing_in(unit)[number]


def host(ring: MovingUnits) -> str:
    """Return the steward of the context that the unit joins."""
    return next(u for u in ring.standing_in("us") if ring.brokers[u].units.is_steward_of(3))


VICTIMS = {
    "the unit's steward": first_of(BEFORE),
    "the context's steward": host,
    "the second of the unit": first_of(BEFORE, 1),
    "the last of the unit": first_of(BEFORE, -1),
}
SOAK = pytest.mark.soak


@pytest.mark.parametrize(
    ("victim", "counts"),
    [
        ("the unit's steward", (1, 4)),
        ("the context's steward", (1, 3)),
        *(pytest.param(name, range(1, 24), marks=SOAK) for name in VICTIMS),
    ],
)
def test_the_unit_is_whole_on_one_side_whoever_dies(victim: str, counts: tuple[int, ...]) -> None:
    """A broker is killed after its first message about the move, after the second, and so on."""
    deaths, sides = 0, set()
    for count in counts:
        ring = small() if len(counts) < 3 else MovingUnits(1 + count % 3)
        uid = VICTIMS[victim](ring)
        deaths += ring.kill_at(lambda uid=uid: uid, count) is not None  # type: ignore[misc]
        ring.rest(200)
        sides.add(ring.settle())
    assert deaths, "it has sent messages"
    assert sides <= {BEFORE, AFTER}


@SMALL
def test_a_row_that_is_lost_is_made_again(ring: MovingUnits) -> None:
    """The table of a steward that took over does not have it: who has come asks for it."""
    ring.begin()
    ring.run(4)
    assert ring.settle() == AFTER
    steward = host(ring)
    contexts = ring.brokers[steward].units.units_above
    planner = contexts.planners[2]
    table = planner.held.table
    assert table is not None
    rows = tuple(row for row in table.rows if row.name != "fra")
    ring.brokers[steward].units.placement._untold += planner.rename(rows, ring.world.now)
    ring.run(0.1)
    assert ring.settle(AFTER, BEFORE, 20) == AFTER
    assert contexts.table(2) is not None
    assert {row.number for row in contexts.table(2).rows} == {0, 1}  # type: ignore[union-attr]


@SMALL
def test_who_gets_no_place_comes_back_and_nobody_else_moves(ring: MovingUnits) -> None:
    """The brokers there refuse whoever is to stand at a given place."""
    first = ring.begin()
    ring.run(0.5)
    for uid in ring.standing_in("us"):
        ring.nodes[uid].parts.owner.guide = Refusing(ring.nodes[uid].parts.owner.guide)
    moving = ring.standing_in(BEFORE)
    ring.run(30)
    assert ring.settle() == BEFORE
    moved = {uid for _, uid, fact in ring.facts if isinstance(fact, Rejoining)}
    assert moved & {*moving} == {first}
    assert "got no place there" in (ring.brokers[first].room.state.problem or "")


class Refusing:
    """A guide that lets nobody in whose unit moves; all else is as another guide says."""

    def __init__(self, guide: Guide) -> None:
        self._guide = guide
        self.wish = guide.wish

    def aim(self, now: Nanos) -> Aim | None:
        return self._guide.aim(now)

    def lead(self, newcomer: Peer, wish: Wish, now: Nanos) -> Lead:
        return self._guide.lead(newcomer, wish, now)

    def judge(
        self, newcomer: Peer, place: int, *, is_led: bool, is_aimed: bool = False
    ) -> Lead | None:
        if is_aimed:
            return Lead(Way.NEVER, reason="nobody comes in")
        return self._guide.judge(newcomer, place, is_led=is_led)


# Refusals


@SMALL
def test_a_context_in_which_the_name_is_taken_refuses(ring: MovingUnits) -> None:
    context = ring.brokers[host(ring)].units.units_above
    table = context.planners[2].held.table
    assert table is not None
    fra = replace(table.rows[0], name="fra")
    context.planners[2].held.put(replace(table, rows=(fra, *table.rows[1:])))
    try:
        first = ring.begin()
        ring.run(1)
        assert "it has a super-cluster called fra already" in (
            ring.brokers[first].room.answer().problem or ""
        )
    finally:
        context.planners[2].held.put(table)


@SMALL
def test_a_context_that_is_full_refuses_and_says_how_many_it_has(ring: MovingUnits) -> None:
    held = ring.brokers[host(ring)].units.units_above.planners[2].held
    before = held.table
    assert before is not None
    more = tuple(UnitRow(n, before.rows[0].lo + n) for n in range(1, 8))
    held.put(replace(before, rows=(before.rows[0], *more)))
    try:
        first = ring.begin()
        ring.run(1)
        problem = ring.brokers[first].room.answer().problem or ""
        assert "it is full: it has 8 super-clusters, the most that it may have" in problem
    finally:
        held.put(before)


@SMALL
def test_a_gap_that_is_too_narrow_is_refused_with_its_width(ring: MovingUnits) -> None:
    first, command = joining(ring.brokers, ring.standing_in(BEFORE), ring.standing_in("us"), 2)
    ring.world.give(first, replace_brokers(command, 10**6))
    ring.run(1)
    problem = ring.brokers[first].room.answer().problem or ""
    assert "places for 1000000 brokers, too few; choose another one" in problem


def replace_brokers(command: JoinContext, brokers: int) -> JoinContext:
    """Return the command for a unit that has so many."""
    return JoinContext(command.unit, command.context, command.steward, command.called, brokers)


@SMALL
def test_who_is_not_the_steward_refuses(ring: MovingUnits) -> None:
    _, command = joining(ring.brokers, ring.standing_in(BEFORE), ring.standing_in("us"), 2)
    other = ring.standing_in(BEFORE)[1]
    ring.world.give(other, command)
    ring.run(0.1)
    problem = ring.brokers[other].room.answer().problem or ""
    assert "is not the steward of super-cluster 0.0; ask again" in problem


@SMALL
def test_a_context_whose_steward_is_gone_does_not_answer(ring: MovingUnits) -> None:
    first, command = joining(ring.brokers, ring.standing_in(BEFORE), ring.standing_in("us"), 2)
    gone = replace(command.steward, peer=replace(command.steward.peer, uid="f" * 31 + "0"))
    ring.world.give(first, JoinContext(command.unit, command.context, gone, "us", 3))
    ring.run(1)
    assert ring.brokers[first].room.state.state is JoinState.ASKS
    ring.world.give(first, command)
    ring.run(0.1)
    assert "is on its way already" in (ring.brokers[first].room.answer().problem or "")
    ring.run(35)
    problem = ring.brokers[first].room.state.problem or ""
    assert problem.startswith("us: broker ffffffff, the steward there, does not answer")
    assert ring.settle() == BEFORE


# Whatever happens


def play(seed: int, steps: int) -> MovingUnits:
    """Let units join others while brokers come, die and are cut off, in any order."""
    rng = random.Random(seed)
    ring = MovingUnits(seed % 3, each=2)

    def join(alive: list[str]) -> None:
        if len(alive) < 14:
            ring.start_in(rng.choice(("eu/fra/a", "us/nyc/x", "us/rom/x", "", "eu")))

    own = {"unit": lambda alive: begin_any(ring, rng), "join": join}
    verbs = ("unit", "unit", "kill", "restart", "join", "part", "heal")
    ring.play(rng, steps, verbs, own, least=5, pauses=(0.05, 0.5, 1.2, 3.0, 20.0))
    return ring


def begin_any(ring: MovingUnits, rng: random.Random) -> None:
    """Give the steward of some unit the command to join another context, as far as there is one."""
    units = [ring.brokers[uid].units for uid in ring.alive]
    names = sorted({tuple(unit.names[:n]) for unit in units for n in (1, 2, 3)} - {()})
    pairs = [(a, b) for a in names for b in names if len(a) == len(b) + 1 and a[:-1] != b]
    if pairs:
        unit, context = rng.choice(pairs)
        with suppress(StopIteration):  # one of them has no steward at the moment
            ring.begin("/".join(unit), "/".join(context))


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=SOAK) for s in range(2, 20))])
def test_whatever_happens_units_are_in_order_at_rest(seed: int) -> None:
    ring = play(seed, 10)
    ring.follow_wishes = True
    ring.agree(180)


@SOAK
def test_who_wishes_a_new_unit_gets_it_where_moves_have_left_little_room() -> None:
    """The widest gap in ``eu`` has 10,368 places: the broker of ``eu/par`` knocked for ever."""
    ring = play(112, 14)
    ring.follow_wishes = True
    ring.agree(60)
