"""Every way a ring can be broken is found, and a whole one is not complained about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ring.invariants import (
    Copies,
    DeadPointers,
    Snapshot,
    backup_findings,
    ideal_pointers,
    local_findings,
    ring_findings,
    symmetry_findings,
    zave_findings,
)
from ring.records.holders import BackupStatus
from ring.wire.messages import Member
from tests.helpers.bench import member, peer

IDS = (10, 20, 30, 40, 50, 60)

Pointers = dict[str, tuple[Member, ...]]  #: by side


def ideal(ids: Sequence[int]) -> list[Snapshot]:
    ring = [member(ring_id) for ring_id in ids]
    return [Snapshot(ring[at], *ideal_pointers(ring, at)) for at in range(len(ring))]


def broken(at: int, pointers: Pointers) -> list[Snapshot]:
    """Return the ideal ring with other pointers at one broker."""
    ring = ideal(IDS)
    here = ring[at]
    left, right = pointers.get("left", here.left), pointers.get("right", here.right)
    ring[at] = Snapshot(here.member, left, right)
    return ring


@pytest.mark.parametrize("n", range(1, 7))
def test_an_ideal_ring_has_no_findings(n: int) -> None:
    snapshots = ideal(IDS[:n])
    assert ring_findings(snapshots) == []
    assert [local_findings(snapshot) for snapshot in snapshots] == [[]] * n


@pytest.mark.parametrize("n", range(1, 7))
def test_who_points_at_one_that_may_be_dead_is_not_wrong_for_that(n: int) -> None:
    *others, last = ideal(IDS[:n])
    silent = {last.member.uid}
    assert ring_findings(others, silent) == []
    assert n == 1 or ring_findings(others) != []
    for at, here in enumerate(ideal(IDS[: n - 1])):
        dropped = [*others[:at], here, *others[at + 1 :]]
        assert ring_findings(dropped, silent) == [], "nor who no longer does"


def test_what_else_is_wrong_beside_one_that_may_be_dead_is_found() -> None:
    silent = {member(60).uid}
    wrong = Snapshot(member(50), (member(30), member(40)), (member(60), member(20)))
    found = ring_findings([*ideal(IDS)[:4], wrong], silent)
    assert [" has left " in finding for finding in found] == [True, False]
    fewer = Snapshot(member(50), (member(40),), (member(60), member(10)))
    assert len(ring_findings([*ideal(IDS)[:4], fewer], silent)) == 1


def test_nobody_at_all_is_no_broken_ring() -> None:
    assert ring_findings([]) == []


def test_the_order_of_the_snapshots_does_not_matter() -> None:
    assert ring_findings(reversed(ideal(IDS))) == []


@pytest.mark.parametrize(
    ("n", "left", "right"), [(1, (), ()), (2, (20,), (20,)), (3, (30, 20), (20, 30))]
)
def test_in_small_rings_the_pointers_degenerate(
    n: int, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    found = ideal_pointers([member(ring_id) for ring_id in IDS[:n]], 0)
    assert found == (tuple(map(member, left)), tuple(map(member, right)))


# Whole rings


@pytest.mark.parametrize(
    ("at", "pointers", "words"),
    [
        (2, {"right": (member(40),)}, "has right [00000000], should have [00000000, 00000000]"),
        (2, {"right": ()}, "has right []"),
        (2, {"right": (member(50), member(60))}, "has right"),
        (2, {"left": (member(10), member(20))}, "has left"),
        (0, {"left": (member(60), member(40))}, "has left"),
        (5, {"right": (member(10), member(70))}, "has right"),
    ],
    ids=["one missing", "none", "one skipped", "swapped", "wrong second", "a ghost"],
)
def test_a_wrong_pointer_is_found_where_it_is(at: int, pointers: Pointers, words: str) -> None:
    found = ring_findings(broken(at, pointers))
    assert len(found) == 1
    assert f"(ring id {IDS[at]})" in found[0]
    assert words in found[0]


def test_two_rings_are_not_one() -> None:
    found = ring_findings([*ideal(IDS[::2]), *ideal(IDS[1::2])])
    assert len(found) == 2 * len(IDS)


def test_a_live_broker_beside_the_ring_is_found() -> None:
    beside = Snapshot(member(35), (), ())
    found = ring_findings([*ideal(IDS), beside])
    assert any("(ring id 35) has left []" in finding for finding in found)


def test_a_pointer_at_a_dead_broker_is_found() -> None:
    without = [snapshot for snapshot in ideal(IDS) if snapshot.member != member(30)]
    assert {finding.split(")")[0] for finding in ring_findings(without)} == {
        f"broker 00000000 (ring id {ring_id}" for ring_id in (10, 20, 40, 50)
    }


def test_one_id_held_by_two_brokers_is_found() -> None:
    twin = Snapshot(Member(peer(99), 30), (), ())
    assert "ring id 30 is held by 2 brokers" in ring_findings([*ideal(IDS), twin])


# One broker's lists by themselves


@pytest.mark.parametrize(
    ("pointers", "words"),
    [
        ({"right": (member(30), member(40))}, "is its own right neighbour"),
        ({"left": (member(20), member(30))}, "is its own left neighbour"),
        ({"right": (member(40), member(40))}, "has one right neighbour twice"),
        ({"right": (member(50), member(40))}, "has its right neighbours out of order"),
        ({"left": (member(10), member(20))}, "has its left neighbours out of order"),
    ],
)
def test_impossible_lists_are_found_without_the_others(pointers: Pointers, words: str) -> None:
    found = local_findings(broken(2, pointers)[2])
    assert [finding for finding in found if words in finding] != []
    assert all("(ring id 30)" in finding for finding in found)


def test_neighbours_beyond_zero_are_in_order() -> None:
    assert local_findings(ideal(IDS)[0]) == []
    assert local_findings(Snapshot(member(60), (member(50), member(10)), (member(10),))) == []


# At any moment: the four that cannot be repaired


def snapshots(rights: dict[int, tuple[int, ...]]) -> list[Snapshot]:
    """Return brokers by their right pointers; the left ones are those of the ideal ring."""
    ring = {snapshot.member.ring_id: snapshot for snapshot in ideal(sorted(rights))}
    return [
        Snapshot(ring[at].member, ring[at].left, tuple(map(member, right)))
        for at, right in rights.items()
    ]


@pytest.mark.parametrize("n", range(1, 7))
def test_an_ideal_ring_keeps_the_four(n: int) -> None:
    assert zave_findings(ideal(IDS[:n])) == []
    assert symmetry_findings(ideal(IDS[:n])) == []


def test_the_dead_in_a_list_are_passed_over() -> None:
    ring = [s for s in ideal(IDS) if s.member.ring_id != 30]
    assert zave_findings(ring) == []
    assert symmetry_findings(ring) != []


def test_a_ring_whose_lists_are_dead_goes_on_with_whom_it_knows() -> None:
    ring = [s for s in ideal(IDS) if s.member.ring_id not in (30, 40)]
    found = zave_findings(ring)
    assert any("knows nobody alive" in finding for finding in found)
    known = [Snapshot(s.member, s.left, s.right, tuple(map(member, IDS))) for s in ring]
    assert zave_findings(known) == []


def test_no_ring_at_all_is_found() -> None:
    chain = snapshots({10: (20,), 20: (30,), 30: (35,)})
    assert "clockwise: AtLeastOneRing: nobody comes back to itself" in zave_findings(chain)


def test_who_knows_nobody_is_a_ring_of_one() -> None:
    assert zave_findings([Snapshot(member(10), (), ())]) == []
    first = Snapshot(member(10), (), ())
    assert zave_findings([first, Snapshot(member(20), (member(10),), (member(10),))]) == []
    assert any("there are 2" in f for f in zave_findings([first, Snapshot(member(20), (), ())]))


def test_two_rings_are_found() -> None:
    rings = snapshots({10: (30,), 30: (10,), 20: (40,), 40: (20,)})
    assert any("AtMostOneRing: there are 2" in finding for finding in zave_findings(rings))


def test_a_disordered_ring_is_found() -> None:
    ring = snapshots({10: (40,), 40: (20,), 20: (50,), 50: (10,)})
    assert any("OrderedRing" in f and "goes round 2 times" in f for f in zave_findings(ring))


def test_an_appendage_that_leads_nowhere_is_found() -> None:
    ring = snapshots({10: (20,), 20: (30,), 30: (10,), 35: (40,)})
    assert any("ConnectedAppendages" in finding for finding in zave_findings(ring))


def test_an_appendage_that_leads_to_the_ring_is_none() -> None:
    ring = [*ideal(IDS), Snapshot(member(35), (member(30),), (member(40),))]
    assert zave_findings(ring) == []


def test_a_pointer_that_is_not_returned_is_found() -> None:
    found = symmetry_findings(broken(2, {"right": (member(40), member(60))}))
    assert any("has 00000000 as right neighbour number 2" in finding for finding in found)


# Backups


def copies(at: int, *steps: int, late: bool = False) -> Copies:
    """Return what a broker of the ideal ring of six says that backs up so many steps away."""
    uids = [member(ring_id).uid for ring_id in IDS]
    near = {uids[(at + step) % 6] for step in (-2, -1, 1, 2)}
    held = tuple(BackupStatus(uids[(at + step) % 6], not late) for step in steps)
    return Copies(uids[at], near, 3, held, wanted=2)


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (copies(0, 1, -1), []),
        (copies(0, 1, -1, 2, -2), []),
        (replace(copies(0), records=0), []),
        (copies(0, 1), ["up to date; there should be 2"]),
        (copies(0, 1, 1), ["up to date; there should be 2"]),
        (copies(0, 1, 0), ["up to date; there should be 2"]),
        (copies(0, 1, 3), ["is no neighbour of it", "there should be 2"]),
        (copies(0, 1, -1, late=True), ["has not ack", "has not ack", "on 0 of its neighbours"]),
    ],
    ids=["right", "more", "nothing", "too few", "one twice", "itself", "far", "late"],
)
def test_backups_are_on_so_many_neighbours_with_the_latest(first: Copies, words: list[str]) -> None:
    found = backup_findings([first, *(copies(at, 1, -1) for at in range(1, 6))])
    assert len(found) == len(words)
    assert all(word in finding for word, finding in zip(words, found, strict=True))


def test_backups_on_the_dead_do_not_count() -> None:
    found = backup_findings(copies(at, 1, -1) for at in (0, 1, 2, 3, 5))
    assert [finding.split(" owns")[0] for finding in found] == 4 * ["broker 00000000"]
    assert sum("there should be 2" in finding for finding in found) == 2


def test_in_a_ring_too_small_there_are_as_many_backups_as_can_be() -> None:
    two = [replace(copies(0, 1), wanted=4), replace(copies(1, -1), wanted=4)]
    assert backup_findings(two) == []
    assert backup_findings([copies(0)]) == []


# Over time


def test_who_points_at_the_dead_for_too_long_is_found() -> None:
    watch = DeadPointers(bound_ns=100)
    ring = [s for s in ideal(IDS) if s.member.ring_id != 30]
    assert watch.findings(ring, 50) == [], "nobody has confirmed it yet"
    watch.confirmed(member(30), 50)
    assert watch.findings(ring, 150) == []
    assert len(watch.findings(ring, 151)) == 4
    assert watch.findings(ideal([i for i in IDS if i != 30]), 151) == []


def test_who_lives_is_not_dead_whatever_they_say() -> None:
    watch = DeadPointers(bound_ns=100)
    watch.confirmed(member(30), 0)
    assert watch.findings(ideal(IDS), 1000) == []
