"""The table of who follows which change, held to the code."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ges
from ges import following
from ges.following import OF_THE_RING, TABLE, Following
from ges.gateways.gateways_part import GatewaysPart
from ges.gateways.losses_part import LossesPart
from ges.matching.asks import ask_for
from ges.profiles.profiles_part import ProfilesPart, Wanted
from ges.statements.held import UNIT_LEVELS
from ges.statements.statements_part import StatementsPart
from ges.telling.changes import Change, Changes
from ges.telling.part import Part
from ges.topology.declared_links import DeclaredLinks
from ges.topology.survey import Survey
from ges.units.planner import UnitsConfig
from ges.units.units_part import UnitsPart
from overlay.ids import LinkClass, Nanos
from overlay.machine import Effect
from sims.world.world import CrashMode
from tests.helpers.node_bench import Bench
from tests.helpers.units_ring import UnitsRing

MARKS = re.compile(r"\.mark\(?,? ?Change\.([A-Z]+)")
SOURCES = Path(ges.__file__).parent


def room_of(part: type[Part]) -> Path:
    return SOURCES / part.__module__.split(".")[1]


def marked_in(*files: Path) -> set[Change]:
    return {Change[name] for file in files for name in MARKS.findall(file.read_text("utf-8"))}


def test_the_parts_of_a_broker_stand_in_the_order_of_the_table() -> None:
    assert [type(part) for part in Bench().node.parts] == [row.part for row in TABLE]


def test_each_part_that_can_settle_follows_something_and_no_other_does() -> None:
    for row in TABLE:
        assert bool(row.follows) == (row.part.settle is not Part.settle), row.part


def test_each_room_marks_what_the_table_says_of_its_parts() -> None:
    said: defaultdict[Path, set[Change]] = defaultdict(set)
    for row in TABLE:
        said[room_of(row.part)] |= row.changes
    for room, changes in said.items():
        assert marked_in(*room.glob("*.py")) == changes, room.name
    assert marked_in(SOURCES / "node.py", Path(following.__file__)) == OF_THE_RING


def test_each_change_is_marked_by_one_and_followed_by_some() -> None:
    owners = [*OF_THE_RING, *(change for row in TABLE for change in row.changes)]
    assert sorted(owners, key=str) == sorted(Change, key=str)
    assert set().union(*(row.follows for row in TABLE)) == set(Change)


def test_a_part_asks_for_no_change_that_it_does_not_follow() -> None:
    for row in TABLE:
        source = Path(str(SOURCES.parent / row.part.__module__.replace(".", "/")) + ".py")
        named = {Change[name] for name in re.findall(r"Change\.([A-Z]+)", source.read_text())}
        assert named <= row.follows | row.changes, row.part


def test_one_change_alone_goes_up() -> None:
    """Else a part could wake one above it, and be woken by that again."""
    upward = {
        (one.part, change, other.part)
        for at, one in enumerate(TABLE)
        if one.follows  # else it marks nothing while parts settle
        for other in TABLE[:at]
        for change in one.changes & other.follows
    }
    above = (GatewaysPart, LossesPart)
    assert upward == {(StatementsPart, Change.OUTER, part) for part in above}


# ── what is read changes with a mark alone ────────────────────────────────────────────────────────

P, B, M, U = Change.PLACE, Change.BESIDE, Change.MEMBERS, Change.UNITS


class Watched:
    """What the parts of one machine read of each other, and which marks tell of another value."""

    def __init__(self, parts: dict[type[Any], Any]) -> None:
        units: UnitsPart = parts[UnitsPart]
        gateways: GatewaysPart = parts[GatewaysPart]
        profiles: ProfilesPart = parts[ProfilesPart]
        stating: StatementsPart = parts[StatementsPart]
        declared: DeclaredLinks = parts[DeclaredLinks]
        survey: Survey = gateways._survey
        keys = [(f"{place:032x}", NORMAL) for place in range(64)]
        index, statements = profiles.index, stating.statements
        self.reads: list[tuple[str, set[Change], Callable[[], object]]] = [
            ("members", {M}, lambda: dict(units.members)),
            ("crowded", {M}, lambda: units.is_crowded),
            ("slot", {M, P}, lambda: units.slot),
            ("nodes", {U, P}, lambda: units.nodes),
            ("address", {M, U, P}, lambda: units.address),
            ("single", {U}, lambda: units.is_single),
            ("taken", {U, Change.TAKEN}, lambda: units.are_taken),
            ("offices", {P, B, M, U}, lambda: [*map(units.is_steward_of, UNIT_LEVELS)]),
            ("states", {Change.STATES}, lambda: gateways.states.table.digest),
            ("asks", {Change.ASKS}, lambda: [{*index.asks_of(uid)} for uid in units.members]),
            ("outer links", {Change.OUTER}, lambda: [*statements.edges]),
            ("outer slots", {Change.OUTER}, lambda: statements.is_crowded),
            ("carriers", {Change.CARRIERS}, lambda: {*declared.named}),
            ("costs", {Change.COSTS, Change.LINKS}, lambda: [*map(survey.cost_ns, keys)]),
        ]
        self.values = [read() for *_, read in self.reads]

    def check(self, marked: set[Change]) -> None:
        values = [read() for *_, read in self.reads]
        for (name, changes, _), before, now in zip(self.reads, self.values, values, strict=True):
            if name == "asks" and Change.MEMBERS in marked:
                continue  # of others than before
            assert before == now or marked & changes, name
        self.values = values


NORMAL = LinkClass.NORMAL


def test_what_parts_read_of_each_other_changes_with_a_mark_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marks: defaultdict[int, set[Change]] = defaultdict(set)
    ever: set[Change] = set()
    rounds: list[int] = []
    watched: dict[int, Watched] = {}
    mark, take, settle = Changes.mark, Changes.take_new, Following.settle

    def marking(self: Changes, change: Change) -> None:
        marks[id(self)].add(change)
        ever.add(change)
        mark(self, change)

    def taking(self: Changes) -> bool:
        rounds[-1] += 1
        return take(self)

    def settling(self: Following, now: Nanos) -> list[Effect]:
        changes = self._changes
        rounds.append(0)
        effects = settle(self, now)
        if id(changes) in watched:
            watched[id(changes)].check(marks[id(changes)])
        marks[id(changes)].clear()
        return effects

    monkeypatch.setattr(Changes, "mark", marking)
    monkeypatch.setattr(Changes, "take_new", taking)
    monkeypatch.setattr(Following, "settle", settling)
    ring = UnitsRing(3, units=UnitsConfig(limit=4))

    def watch() -> None:
        for node in ring.brokers.values():
            parts = {type(part): part for part in node.parts}
            watched.setdefault(id(node._changes), Watched(parts))

    ring.found()
    for _ in range(9):
        ring.start(ring.alive)
        watch()
        ring.run(1.0)
    ring.run(40.0)
    ring.world.give(ring.alive[0], Wanted("key", ask_for("a/b")))
    ring.run(5.0)
    ring.crash(ring.alive[-1], CrashMode.KILL)
    ring.run(30.0)
    apart = set(Change) - ever
    assert apart <= {Change.CARRIERS, Change.MAIL, Change.NEAR, Change.COSTS}
    assert max(rounds) <= 4, "the end is near, whatever is marked"
