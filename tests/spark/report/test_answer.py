"""Which group of runs a report opens with."""

from __future__ import annotations

import msgspec

from spark.analysis.analysis import Analysis
from spark.analysis.results import Counts
from spark.report.answer import answer
from tests.spark.results import OTHER, SIMULATED, SIZES, analysis, keys, quantiles


def seen(best: tuple[int, ...], other: tuple[int, ...]) -> Analysis:
    """Return an analysis in which the best group and another one were seen at these sizes."""
    told = {"runs": 1, "seeds": 1, "broker_failed": 40, "link_failed": 0, "refuted": 0, "open": 0}
    found = analysis()
    groups = ((SIMULATED, best), (OTHER, other))
    return msgspec.structs.replace(
        found,
        counts=tuple(
            msgspec.convert({**keys(group), "n": n, **told}, Counts)
            for group, sizes in groups
            for n in sizes
        ),
        quantiles=tuple(
            quantiles(group, n, "total", 8.0) for group, sizes in groups for n in sizes
        ),
    )


def test_it_is_the_best_one_if_that_was_seen_at_enough_sizes() -> None:
    assert answer(seen(SIZES, (*SIZES, 4096))).group == SIMULATED


def test_it_is_another_one_if_of_the_best_it_cannot_be_said_how_it_grows() -> None:
    assert answer(seen(SIZES[:2], SIZES)).group == OTHER


def test_it_is_the_best_one_if_that_can_be_said_of_none() -> None:
    assert answer(seen(SIZES[:2], SIZES[:2])).group == SIMULATED
