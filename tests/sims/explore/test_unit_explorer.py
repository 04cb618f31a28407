"""Units of a few brokers in all orders: nothing is found, and broken rules are."""

from __future__ import annotations

import pytest

from sims.errors import NoSuchScope
from sims.explore.granularity import Granularity
from sims.explore.unit_explorer import UnitExplorer
from tests.mutants import MUTANTS

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
SMALL = ("unit-grant", "unit-subscribe", "unit-steward-grant", "unit-steward-states")
LARGE = ("unit-steward-grant", "unit-steward-states", "unit-split-join")


@pytest.mark.parametrize(
    "name",
    [
        *(name for name in SMALL if name not in LARGE),
        *(pytest.param(name, marks=pytest.mark.soak) for name in LARGE),
    ],
)
def test_nothing_is_found_in_the_order_of_sending(name: str) -> None:
    report = UnitExplorer(name, delays=0).search()
    assert report.findings == ()
    assert report.complete
    assert report.rests


@pytest.mark.soak
@pytest.mark.parametrize("name", [*SMALL, "unit-split-join"])
def test_nothing_is_found_with_a_delay(name: str) -> None:
    report = UnitExplorer(name, delays=1).search(20_000)
    assert report.findings == ()


@pytest.mark.soak
@pytest.mark.parametrize("name", SMALL)
def test_nothing_is_found_in_all_orders_of_turns(name: str) -> None:
    report = UnitExplorer(name, delays=-1, grain=Granularity.TURNS).search(20_000)
    assert report.findings == ()


@pytest.mark.parametrize(
    ("mutant", "name"),
    [
        pytest.param("slots-twice", "unit-grant", marks=pytest.mark.soak),
        ("active-too-early", "unit-subscribe"),
        ("missing-not-reported", "unit-steward-grant"),
    ],
)
def test_a_broken_rule_is_found_and_told_again(mutant: str, name: str) -> None:
    with BY_NAME[mutant].applied():
        report = UnitExplorer(name, delays=0).search()
        assert report.findings
        assert len(report.story) == len(report.choices)
        again = UnitExplorer(name, delays=0).replay(report.choices)
    assert again.findings == report.findings
    assert f"chordal sim explore {name} --delays 0" in report.replay


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(NoSuchScope, match="no scenario 'unit-nothing'"):
        UnitExplorer("unit-nothing")
    with pytest.raises(NoSuchScope, match="--delays -1"):
        UnitExplorer("unit-grant", delays=1, grain=Granularity.TURNS)
    with pytest.raises(NoSuchScope, match="1 choices"):
        UnitExplorer("unit-grant", delays=0).replay([0] * 3 + [9])
