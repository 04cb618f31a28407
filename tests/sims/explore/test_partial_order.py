"""The reduced search comes to the same ends as the one through all orders, and finds the same."""

from __future__ import annotations

import pytest

from sims.explore.explorer import Explorer
from sims.explore.granularity import Granularity
from sims.explore.partial_order import circles
from sims.explore.scopes import COMPLETE
from tests.mutants import MUTANTS, Mutant


def _both(name: str, brokers: int) -> tuple[Explorer, Explorer]:
    return (
        Explorer(name, brokers=brokers, delays=COMPLETE, reduce=False),
        Explorer(name, brokers=brokers, delays=COMPLETE),
    )


def _compare(name: str, brokers: int) -> None:
    every, reduced = _both(name, brokers)
    reports = every.search(), reduced.search()
    assert all(report.complete and not report.findings for report in reports)
    assert reports[1].states < reports[0].states
    assert every.ends == reduced.ends != set()


@pytest.mark.parametrize(
    ("name", "brokers"),
    [
        ("crash", 3),
        ("join", 3),
        pytest.param("crash", 4, marks=pytest.mark.soak),
        *(pytest.param(name, 3, marks=pytest.mark.soak) for name in ("crash-of-tester", "cut")),
    ],
)
def test_all_ends_are_come_to(name: str, brokers: int) -> None:
    _compare(name, brokers)


@pytest.mark.soak
def test_all_ends_of_a_larger_scope_are_come_to() -> None:
    _compare("mutual-suspicion", 3)


def _find_the_same(mutant: Mutant, name: str, brokers: int) -> bool:
    """Say whether something was found; fails unless both ways find it, or neither."""
    with mutant.applied():
        found = [search.search(20_000) for search in _both(name, brokers)]
    if not found[0].findings and not found[0].complete:
        return False  # it is never done, so there is nothing to compare
    assert bool(found[0].findings) is bool(found[1].findings)
    if found[1].findings:
        with mutant.applied():
            again = Explorer(name, brokers=brokers, delays=COMPLETE).replay(found[1].choices)
        assert again.findings == found[1].findings
    return bool(found[0].findings)


BROKEN = ["second-forgotten", "suspicion-is-death", "no-tombstones"]


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.name in BROKEN], ids=lambda m: m.name)
def test_a_broken_rule_is_found_by_both_or_neither(mutant: Mutant) -> None:
    _find_the_same(mutant, "crash", 3)
    _find_the_same(mutant, "join", 3)


@pytest.mark.soak
def test_all_broken_rules_are_found_by_both_or_neither() -> None:
    found = [
        (mutant.name, name)
        for mutant in MUTANTS
        for name, brokers in (("crash", 3), ("join", 3), ("cut", 3))
        if _find_the_same(mutant, name, brokers)
    ]
    assert len({name for name, _ in found}) >= 3


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "brokers", "early"),
    [
        ("crash", 5, 0),
        ("mutual-suspicion", 4, 1),
        ("mutual-suspicion", 5, 0),
        ("mutual-suspicion", 6, 0),
    ],
)
def test_larger_scopes_hold_in_any_order(name: str, brokers: int, early: int) -> None:
    report = Explorer(name, brokers=brokers, delays=COMPLETE, early=early).search()
    assert report.complete
    assert report.findings == ()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "brokers", "grain"),
    [
        ("crash-of-tester", 6, Granularity.TURNS),
        ("join-crash", 4, Granularity.READS),
        ("join-crash", 6, Granularity.TURNS),
        ("join-two-crashes", 5, Granularity.TURNS),
    ],
)
def test_larger_scopes_hold_in_any_order_of_coarse_steps(
    name: str, brokers: int, grain: Granularity
) -> None:
    search = Explorer(name, brokers=brokers, delays=COMPLETE, early=0, lists=True, grain=grain)
    report = search.search(3_000_000)
    assert report.complete
    assert report.findings == ()


@pytest.mark.parametrize(
    ("name", "brokers"),
    [
        ("crash", 3),
        ("join", 3),
        *(
            pytest.param(*scope, marks=pytest.mark.soak)
            for scope in (("join", 4), ("crash", 4), ("crash-of-tester", 3))
        ),
    ],
)
def test_coarser_steps_come_to_some_of_the_same_ends(name: str, brokers: int) -> None:
    ends = []
    for grain in (Granularity.TURNS, Granularity.READS, Granularity.PACKETS):
        search = Explorer(name, brokers=brokers, delays=COMPLETE, early=0, lists=True, grain=grain)
        assert search.search().complete
        ends.append(search.ends)
    assert set() < ends[0] <= ends[1] <= ends[2]


def test_a_violation_shows_again_with_as_many_early_timers() -> None:
    report = Explorer("crash-of-tester", brokers=3, delays=COMPLETE, early=0).search()
    assert " --early 0 " in report.replay


def test_circles_are_found_and_what_leads_out_is_none() -> None:
    assert circles({1: [2], 2: [3], 3: [9]}) == []
    assert sorted(circles({1: [2], 2: [3], 3: [2, 9], 4: [9]})) == [1, 2, 3]
    assert circles({1: [1]}) == [1]
