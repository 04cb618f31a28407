"""Every way a ring can be broken is found, and a whole one is not complained about."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ring.invariants import Snapshot, ideal_pointers, local_findings, ring_findings
from ring.messages import Member
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
