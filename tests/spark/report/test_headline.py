"""Which group of runs a report opens with."""

from __future__ import annotations

import msgspec

from spark.analysis.analysis import Analysis
from spark.analysis.results import Counts
from spark.report.headline import answer
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


def test_it_is_the_one_with_the_usual_settings_if_that_was_seen_at_enough_sizes() -> None:
    assert answer(seen(SIZES, (*SIZES, 4096))).group == SIMULATED


def test_it_is_another_one_if_of_the_usual_one_it_cannot_be_said_how_it_grows() -> None:
    assert answer(seen(SIZES[:2], SIZES)).group == OTHER


def test_it_is_the_usual_one_if_that_can_be_said_of_none() -> None:
    assert answer(seen(SIZES[:2], SIZES[:2])).group == SIMULATED


def compared(**changes: object) -> str:
    found = analysis()
    rows = tuple(msgspec.structs.replace(row, **changes) for row in found.comparisons)
    return answer(msgspec.structs.replace(found, comparisons=rows)).text


def test_settings_that_cannot_be_told_apart_are_not_advised() -> None:
    assert "Use chords rank: with none recovery takes 1.25 times as long" in compared()
    for changes in ({"ratio_high": 1.1}, {"ratio_high": None}, {"ratio_low": None}):
        text = compared(**changes)
        assert "chords rank and none cannot be told apart (n = 1,024)" in text
        assert "Use " not in text


def test_a_difference_too_small_to_matter_is_not_advised_however_sure_it_is() -> None:
    """A tenth is the least that is told, as of growth."""
    text = compared(value_at=1.09, base_at=1.0, ratio=1.09, ratio_low=1.08, ratio_high=1.1)
    assert "Which chords is used matters little: none and rank differ by less than 10%" in text
    assert "Use " not in text
    told = compared(value_at=1.1, base_at=1.0, ratio=1.1, ratio_low=1.08, ratio_high=1.12)
    assert "Use chords none: with rank recovery takes 1.10 times as long (n = 1,024)." in told


def test_nothing_is_advised_where_a_side_is_not_reached() -> None:
    text = compared(base_at=None, ratio=None, words="it is not reached, as 29 of 30 are open")
    assert "Of chords nothing is advised: it is not reached, as 29 of 30 are open." in text
    assert "Use " not in text


def test_it_says_where_the_numbers_are_from_and_how_many_were_never_repaired() -> None:
    text = answer(analysis()).text
    assert text.startswith(
        "Simulated: in the scenario crash, in which brokers lose power (profile lan), a ring of "
        "1,024 brokers is whole again 9 s after a broker fails in the median"
    )
    assert "3 of 423 failures (0.709%) were not seen repaired" in text
    for jargon in ("p50", "p99", "bootstrap", "replicate", "quantile"):
        assert jargon not in text
