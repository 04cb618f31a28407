"""What ``chordal units --check`` says of what brokers tell: each wrong thing is found and named."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.waiting import until
from ges.cli.units import units as units_command
from ges.operations import walk as walk_module
from ges.operations.unit_tree import unit_tree
from ges.operations.walk import Walk, walk_ring
from ges.wire.status import ContextStatus, LevelStatus, LinkStatus, Status, UnitStatus
from overlay.ids import LinkClass, Peer
from ring.wire.messages import Member

#: Two clusters: places 0 and 100 are in 0.0.0, 500 and 600 in 0.0.1.
PLACES = {"a" * 32: 0, "b" * 32: 100, "c" * 32: 500, "d" * 32: 600}


def overlay() -> list[Status]:
    """Return what the brokers of an overlay say in which everything is in order."""
    found = []
    for at, (uid, place) in enumerate(PLACES.items()):
        cluster = at // 2
        lo, hi, steward = ((0, 500, "a" * 32), (500, 0, "c" * 32))[cluster]
        one = (UnitStatus(0, 0, 1),)
        tables = (
            ContextStatus(3, 0, 0, 1, "a" * 32, 33, one),
            ContextStatus(2, 0, 0, 1, "a" * 32, 22, one),
            ContextStatus(1, 0, 0, 2, "a" * 32, 11, (UnitStatus(0, 0, 2), UnitStatus(1, 500, 2))),
            ContextStatus(0, lo, hi, 5, steward, cluster + 1),
        )
        peer = Peer(uid, 1, f"chordal://{uid[0]}.test:1")
        found.append(
            Status(
                uid=uid,
                incarnation=1,
                url=peer.url,
                overlay="chordal",
                version="0",
                secure=False,
                member=Member(peer, place),
                left=(),
                right=(),
                chords=(),
                suspects=(),
                links=(),
                clients=0,
                subscriptions=0,
                counters={},
                uptime_s=1.0,
                address=f"0.0.{cluster}.{at}",
                members=2,
                steward=steward,
                unit_limit=4,
                contexts=tables,
            )
        )
    return found


def test_an_overlay_in_order_has_a_tree_and_nothing_is_wrong() -> None:
    tree, found = unit_tree(overlay())
    assert found == []
    named = [
        (unit.name, len(unit.brokers), unit.steward.uid[0]) for top in tree for unit in top.walk()
    ]
    assert named == [
        ("0", 4, "a"),
        ("0.0", 4, "a"),
        ("0.0.0", 2, "a"),
        ("0.0.1", 2, "c"),
    ]


def test_units_have_the_names_that_their_tables_give_them() -> None:
    brokers = []
    for status in overlay():
        named = tuple(
            replace(
                table,
                units=tuple(
                    replace(unit, name="eu" if table.level == 3 else "") for unit in table.units
                ),
            )
            for table in status.contexts
        )
        brokers.append(replace(status, contexts=named, unit_wanted="eu"))
    tree, found = unit_tree(brokers)
    assert found == []
    assert [(u.name, u.given_name) for top in tree for u in top.walk()] == [
        ("0", "eu"),
        ("0.0", ""),
        ("0.0.0", ""),
        ("0.0.1", ""),
    ]
    brokers[0] = replace(brokers[0], unit_wanted="us")
    assert unit_tree(brokers)[1] == [
        "in cluster 0.0.0 aaaaaaaa stands in eu, and is to stand in us"
    ]


def with_table(status: Status, table: ContextStatus) -> Status:
    tables = tuple(table if each.level == table.level else each for each in status.contexts)
    return replace(status, contexts=tables)


def same_address(brokers: list[Status]) -> None:
    brokers[1] = replace(brokers[1], address=brokers[0].address)


def no_address(brokers: list[Status]) -> None:
    brokers[1] = replace(brokers[1], address=None)


def elsewhere(brokers: list[Status]) -> None:
    brokers[1] = replace(brokers[1], address="0.0.1.9")


def other_table(brokers: list[Status]) -> None:
    brokers[3] = with_table(brokers[3], replace(brokers[3].contexts[3], digest=77))


def other_context(brokers: list[Status]) -> None:
    brokers[3] = with_table(brokers[3], replace(brokers[3].contexts[2], digest=77))


def other_steward(brokers: list[Status]) -> None:
    for at in (2, 3):
        brokers[at] = with_table(brokers[at], replace(brokers[at].contexts[3], steward="d" * 32))


def other_arc(brokers: list[Status]) -> None:
    for at in (2, 3):
        brokers[at] = with_table(brokers[at], replace(brokers[at].contexts[3], lo=400))


def too_many(brokers: list[Status]) -> None:
    brokers[:] = [replace(status, unit_limit=1) for status in brokers]


def other_limit(brokers: list[Status]) -> None:
    brokers[2] = replace(brokers[2], unit_limit=5)


def fewer_members(brokers: list[Status]) -> None:
    brokers[0] = replace(brokers[0], members=1)


def empty(brokers: list[Status]) -> None:
    del brokers[2:]


def older(brokers: list[Status]) -> None:
    brokers[3] = replace(brokers[3], contexts=())


def nobody_has_it(brokers: list[Status]) -> None:
    brokers[:] = [replace(each, contexts=each.contexts[:2]) for each in brokers]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (same_address, "2 brokers have the address 0.0.0.0"),
        (no_address, "1 broker without an address"),
        (elsewhere, "in cluster 0.0.0 stands bbbbbbbb, with the address 0.0.1.9"),
        (other_table, "in cluster 0.0.1 1 broker of 2 hold another table"),
        (other_context, "in super-cluster 0.0 1 broker of 4 hold another table"),
        (other_steward, "in cluster 0.0.1 the steward is dddddddd, first is cccccccc"),
        (other_arc, "in cluster 0.0.1 the table of level 0 is about another arc"),
        (too_many, "in cluster 0.0.0 are 2 brokers, and 1 may be"),
        (other_limit, "brokers go by different limits of units: 4, 5"),
        (fewer_members, "in cluster 0.0.0 aaaaaaaa knows 1 member, 2 stand there"),
        (empty, "cluster 0.0.1 has no brokers"),
        (older, "1 broker of an earlier version tell of no units"),
        (nobody_has_it, "in super-cluster 0.0 nobody holds a table of level 1"),
    ],
)
def test_what_is_wrong_is_found_and_named(
    spoil: Callable[[list[Status]], None], words: str
) -> None:
    brokers = overlay()
    spoil(brokers)
    _, found = unit_tree(brokers)
    assert any(words in finding for finding in found), found


# The command


@pytest.mark.parametrize("is_wrong", [False, True])
def test_the_command_says_so_and_its_exit_code_as_well(
    is_wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = overlay()
    if is_wrong:
        same_address(brokers)
        other_limit(brokers)

    async def fake(url: str, **rest: object) -> Walk:
        return Walk(tuple(brokers), ())

    monkeypatch.setattr(walk_module, "walk_ring", fake)
    plain = CliRunner().invoke(units_command, ["--check"])
    assert plain.exit_code == int(is_wrong), plain.output
    assert "super-super-cluster" in plain.output
    in_order = "the units are in order: 4 brokers in 2 clusters, each with an address of its own"
    assert (in_order in plain.output) is not is_wrong
    told = json.loads(CliRunner().invoke(units_command, ["--json"]).stdout)
    assert bool(told["findings"]) is is_wrong
    clusters = told["units"][0]["units"][0]["units"]
    assert [cluster["path"] for cluster in clusters] == ["0.0.0", "0.0.1"]
    assert [each["address"] for each in clusters[1]["brokers"]] == ["0.0.1.2", "0.0.1.3"]


def test_it_can_wait_for_a_number_of_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fake(url: str, **rest: object) -> Walk:
        return Walk(tuple(overlay()), ())

    monkeypatch.setattr(walk_module, "walk_ring", fake)
    done = CliRunner().invoke(units_command, ["--check", "--expect", "5", "--wait", "0.3"])
    assert done.exit_code == 1
    assert "there are 4 brokers, 5 are expected" in str(done.exception)
    assert CliRunner().invoke(units_command, ["--expect", "5"]).exit_code == 2


async def test_live_brokers_say_what_the_tree_is_made_of(brokers: Brokers) -> None:
    ring = await brokers.ring_of(3)
    await until(lambda: all(broker.status().address is not None for broker in ring))
    found = await walk_ring(ring[0].url, identity=None, overlay="chordal", timeout_s=1)
    tree, findings = unit_tree(found.brokers)
    assert findings == []
    assert [unit.name for unit in tree[0].walk()] == ["0", "0.0", "0.0.0"]


def linked_to(uid: str) -> tuple[LinkStatus, ...]:
    return (LinkStatus(uid, "chordal://x.test:1", 0, LinkClass.NORMAL, (), 0, 1.0, None),)


def test_units_have_gatekeepers_and_a_health() -> None:
    """Brokers b and c are linked: they are the gatekeepers of their clusters."""
    found = overlay()
    b, c = found[1], found[2]
    found[1] = replace(b, links=linked_to(c.uid))
    found[2] = replace(c, links=linked_to(b.uid))
    whole = tuple(LevelStatus(level, 0, {}, "whole") for level in range(1, 4))
    broken = (LevelStatus(1, 0, {}, "broken"), *whole[1:])
    found[0] = replace(found[0], levels=whole)
    found[2] = replace(found[2], levels=broken)
    (top,), findings = unit_tree(found)
    assert findings == []
    (middle,) = top.units
    here, there = middle.units
    assert [status.uid for status in here.gatekeepers] == [b.uid]
    assert [status.uid for status in there.gatekeepers] == [c.uid]
    assert (top.gatekeepers, middle.gatekeepers) == ([], [])
    assert [unit.secure for unit in top.walk()] == ["whole", "whole", "whole", "broken"]
