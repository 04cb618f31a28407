"""Quantiles beside numpy's, and with things that are not over beside Kaplan and Meier's."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import numpy as np
import pytest

from overlay.quantiles import quantile, quantile_with_open
from overlay.trace_schema import PHASES, Incident, Lasted, lasted, quantile_of
from tests.helpers.rows import SECOND, incident

SHARES = (0.0, 0.25, 0.5, 0.95, 0.99, 0.999, 1.0)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 20, 21, 1000])
def test_they_are_those_of_numpy(count: int) -> None:
    rng = random.Random(count)
    values = [rng.lognormvariate(0, 1) for _ in range(count)]
    ties = [round(value, 1) for value in values]
    for given in (values, ties):
        expected = np.percentile(given, [100 * share for share in SHARES])
        for share, value in zip(SHARES, expected, strict=True):
            assert quantile(given, share) == pytest.approx(value, rel=1e-11)
            assert quantile_with_open(given, (), share) == pytest.approx(value, rel=1e-11)


def test_of_nothing_there_is_none() -> None:
    assert math.isnan(quantile([], 0.5))
    assert math.isnan(quantile_with_open([], [], 0.5))


@pytest.mark.parametrize(("over", "still"), [(1, 29), (2, 3), (15, 15), (99, 1), (0, 2)])
def test_what_was_seen_longest_and_is_not_over_is_longer_than_all_others(
    over: int, still: int
) -> None:
    values = [1.0 + at for at in range(over)]
    for share in SHARES:
        found = quantile_with_open(values, [1000.0] * still, share)
        assert found == quantile([*values, *[math.inf] * still], share)
    assert math.isinf(quantile_with_open(values, [1000.0] * still, 1.0))


def test_one_of_thirty_is_no_median() -> None:
    assert math.isinf(quantile_with_open([0.5], [90.0] * 29, 0.5))
    assert quantile_with_open([0.5], [90.0] * 29, 0.0) == 0.5


def survival(over: list[float], still: list[float], time: float) -> float:
    """Return the share of Kaplan and Meier that is not over after ``time``."""
    left = 1.0
    for each in sorted(set(over)):
        if each <= time:
            at_risk = sum(value >= each for value in (*over, *still))
            left *= 1 - over.count(each) / at_risk
    return left


def test_they_lie_where_the_curve_of_kaplan_and_meier_crosses() -> None:
    rng = random.Random(4)
    for _ in range(40):
        over = [rng.expovariate(1) for _ in range(200)]
        still = [rng.expovariate(0.5) for _ in range(100)]
        for share in (0.5, 0.75, 0.9):
            found = quantile_with_open(over, still, share)
            if math.isinf(found):
                # A rank is up to one place of 300, and what that stands for, beyond the last one.
                assert survival(over, still, max(over)) > (1 - share) * 0.9 - 0.01
                continue
            around = [pair for pair in pairwise(sorted(over)) if pair[0] <= found <= pair[1]]
            before, after = around[0][0] - 1e-9, around[-1][1]
            assert survival(over, still, after) <= 1 - share + 0.01
            assert survival(over, still, before) >= 1 - share - 0.03


def test_what_left_before_all_others_ended_tells_nothing() -> None:
    over = [3.0, 4.0, 5.0]
    assert quantile_with_open(over, [1.0, 2.0], 0.5) == pytest.approx(quantile(over, 0.5))


def test_what_is_seen_last_as_another_ends_was_still_at_risk() -> None:
    assert quantile_with_open([1.0, 1.0], [1.0], 0.5) == 1.0
    assert math.isinf(quantile_with_open([1.0, 1.0], [1.0], 0.99))


def phase(name: str, row: Incident, until_ns: int | None = 60 * SECOND) -> Lasted | None:
    return lasted(row, PHASES[name].start, PHASES[name].end, until_ns)


def test_a_phase_without_an_end_lasted_until_the_ring_was_whole_or_the_run_over() -> None:
    assert phase("total", incident()) == Lasted(3.0, is_over=True)
    unseen = incident(suspected_ns=None)
    assert phase("detection", unseen) == Lasted(3.0, is_over=False)
    assert phase("confirmation", unseen) is None
    never = incident(repaired_ns=None, chords_repaired_ns=None)
    assert phase("total", never) == Lasted(50.0, is_over=False)
    assert phase("chords", incident(chords_repaired_ns=None)) == Lasted(50.0, is_over=False)
    assert phase("total", never, None) == Lasted(math.inf, is_over=False)
    assert phase("total", incident(failed_ns=None)) is None


def test_quantiles_of_what_lasted() -> None:
    found = [Lasted(float(at), is_over=True) for at in range(5)]
    assert quantile_of(found, 0.5) == 2.0
    assert math.isinf(quantile_of([*found, Lasted(9.0, is_over=False)], 0.99))
