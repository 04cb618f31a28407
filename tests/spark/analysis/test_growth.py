"""Verdicts, from data whose growth is known."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping

import pytest

from spark.analysis.growth import judge
from spark.analysis.results import Fit, Growth, Model

SIZES = (64, 128, 256, 512, 1024, 2048)
FUNCTIONS: Mapping[Model, Callable[[float], float]] = {
    Model.LOG: math.log2,
    Model.SQRT: math.sqrt,
    Model.LINEAR: float,
}


def fits(medians: Mapping[int, float]) -> list[Fit]:
    """Return the three fits of ``medians``, size by size."""
    y = list(medians.values())
    found = []
    for model, function in FUNCTIONS.items():
        x = [function(n) for n in medians]
        slope, intercept, r2 = None, None, None
        if len(x) > 1:
            slope, intercept = statistics.linear_regression(x, y)
            r2 = 1.0 if len(set(y)) == 1 else statistics.correlation(x, y) ** 2
        found.append(
            Fit(
                source="simulator",
                scenario="crash",
                profile="lan",
                parameters="{}",
                measure="total",
                model=model,
                sizes=len(x),
                n_min=min(medians),
                n_max=max(medians),
                x_min=min(x),
                x_max=max(x),
                mean=statistics.fmean(y),
                slope=slope,
                intercept=intercept,
                r2=r2,
            )
        )
    return found


def measured(function: Callable[[int], float], wobble: float = 0.0) -> list[Fit]:
    """Return the fits of ``function``, off by the share ``wobble``, up and down in turn."""
    return fits(
        {n: function(n) * (1 + wobble * (-1) ** at) for at, n in enumerate(SIZES)},
    )


@pytest.mark.parametrize(
    ("function", "growth", "words"),
    [
        (lambda n: 1 + math.log2(n), Growth.LOG, "grows like log n: +1 s each time n doubles"),
        (lambda n: 1 + math.sqrt(n), Growth.SQRT, "grows like sqrt n"),
        (lambda n: 1 + n, Growth.LINEAR, "grows like n: +1 s for each broker"),
        (lambda n: 3.0, Growth.FLAT, "flat: does not grow with n (changes by 0%"),
        (lambda n: 20 - math.log2(n), Growth.FALLING, "falls as n grows: by"),
    ],
)
@pytest.mark.parametrize("wobble", [0.0, 0.005])
def test_growth_is_recognised(
    function: Callable[[int], float], growth: Growth, words: str, wobble: float
) -> None:
    verdict = judge(measured(function, wobble))
    assert verdict.growth is growth
    if not wobble:
        assert verdict.words.startswith(words)


def test_little_change_over_the_range_is_flat_however_well_it_fits() -> None:
    verdict = judge(measured(lambda n: 100 + math.log2(n)))
    assert verdict.growth is Growth.FLAT
    assert "5%" in verdict.words


def test_scatter_is_not_called_growth() -> None:
    assert judge(measured(lambda n: 5 + math.log2(n) / 10, 0.3)).growth is Growth.UNCLEAR


def test_models_that_fit_alike_are_all_named() -> None:
    verdict = judge(measured(lambda n: 10 + math.log2(n), 0.04))
    assert verdict.growth is Growth.UNDECIDED
    assert verdict.models[:2] == ("log2 n", "sqrt n")
    assert "log n or sqrt n" in verdict.words
    assert "do not tell them apart" in verdict.words


@pytest.mark.parametrize("sizes", [(64,), (64, 1024)])
def test_two_sizes_are_too_few(sizes: tuple[int, ...]) -> None:
    verdict = judge(fits({n: float(n) for n in sizes}))
    assert verdict.growth is Growth.TOO_FEW
    assert verdict.words == "too few sizes (need 3)"


def test_three_sizes_tell_growth_apart_only_if_they_fit_well() -> None:
    assert judge(fits({64: 7.0, 256: 9.0, 1024: 11.0})).growth is Growth.LOG
    assert judge(fits({64: 7.0, 256: 8.7, 1024: 11.0})).models == ("log2 n", "sqrt n")
    assert judge(fits({64: 7.0, 256: 11.0, 1024: 9.0})).growth is Growth.UNCLEAR


def test_a_measure_that_is_always_zero_is_flat() -> None:
    assert judge(fits(dict.fromkeys(SIZES, 0.0))).growth is Growth.FLAT
