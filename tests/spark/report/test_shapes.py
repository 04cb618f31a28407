"""Data of many shapes go through the page: no number is absurd, and none is told of some only."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable

import msgspec
import pytest

from spark.analysis import growth
from spark.analysis.analysis import Analysis
from spark.analysis.judging import judge_all
from spark.analysis.replicates import BOOTSTRAPPED, Cell
from spark.analysis.results import Quantiles
from spark.report import pages, recovery_times
from spark.report.headline import answer
from tests.spark import cells
from tests.spark.results import SIMULATED, analysis

SIZES = (16, 64, 256, 1024, 4096)
SEEDS, INCIDENTS = 8, 30
NOISE, LUCK = 0.1, 0.01


def planted(middle: Callable[[int], float], never: Callable[[int], float], seed: int) -> list[Cell]:
    """Return cells whose median is ``middle(n)``, of which a share ``never(n)`` is never over."""
    rng = random.Random(seed)
    found = []
    for n in SIZES:
        by_unit = []
        for _ in range(SEEDS):
            luck = rng.lognormvariate(0, LUCK)
            by_unit.append(
                [
                    math.inf
                    if at < INCIDENTS * never(n)
                    else luck * middle(n) * rng.lognormvariate(0, NOISE)
                    for at in range(INCIDENTS)
                ]
            )
        found.append(cells.cell(by_unit, n))
    return found


def told(found: list[Cell]) -> Analysis:
    """Return the analysis of such cells, with nothing else in it."""
    own = SIMULATED.columns()
    series = growth.series(found, {1: SIMULATED})
    rises = [growth.rise(each) for each in series]
    fits = [fit for each in series for fit in growth.fits(each)]
    rows = [quantiles(cell, own) for cell in found]
    return msgspec.structs.replace(
        analysis(),
        quantiles=tuple(rows),
        fits=tuple(fits),
        verdicts=judge_all(rises, fits),
        comparisons=(),
        survival=(),
        survived=(),
        churn=(),
        outliers=(),
        counts=tuple(row for row in analysis().counts if row.group == SIMULATED),
    )


def quantiles(cell: Cell, own: dict[str, object]) -> Quantiles:
    known = {name: value if math.isfinite(value) else None for name, value in cell.at.items()}
    for name in BOOTSTRAPPED:
        for end, value in zip(("low", "high"), cell.ends(name), strict=True):
            known[f"{name}_{end}"] = value if value is not None and math.isfinite(value) else None
    copied = ("measure", "units", "count", "open", "mean", "max")
    row = {name: getattr(cell, name) for name in copied}
    return msgspec.convert({**own, **row, **known, "n": cell.size}, Quantiles)


def some(n: int) -> float:
    return 0.0


SHAPES: dict[str, tuple[Callable[[int], float], Callable[[int], float], str]] = {
    "rising": (lambda n: 0.3 * math.log2(n), some, "The median grows like log n: +0."),
    "falling": (lambda n: 3 - 0.2 * math.log2(n), some, "The median falls as the ring grows."),
    "falling far": (lambda n: 1000 / n**2, some, "By which law the median changes cannot be told"),
    "flat": (lambda n: 1.0, some, "The median does not grow with the ring."),
    "broken": (
        lambda n: 5.0 if n == 256 else 1.0,
        some,
        "By which law the median changes cannot be told",
    ),
    "censored": (lambda n: 1.0, lambda n: 0.9 * (n > 64), "How that grows cannot be told"),
    "censored more and more": (
        lambda n: 1.0,
        lambda n: {16: 0.0, 64: 0.0, 256: 0.3, 1024: 0.6, 4096: 0.9}[n],
        "too many were not seen repaired at n = 1,024, 4,096",
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_told_for_what_it_is(shape: str) -> None:
    middle, never, said = SHAPES[shape]
    found = told(planted(middle, never, 3))
    text = answer(found).text
    assert said in text
    assert text.startswith("Simulated: in the scenario crash, in which brokers lose power")
    assert "(profile lan)" in text
    page = pages.page(pages.outline(found, "chordal recovery analyze data --out report"))
    falls = [int(at.replace(",", "")) for at in re.findall(r"[-−]([\d,]+)%", page)]
    assert max(falls, default=0) <= 100
    assert not re.search(r"\b(nan|inf|None)\b", page)
    open_ones = sum(row.open for row in found.quantiles)
    total = open_ones + sum(row.count for row in found.quantiles)
    first = (
        "all 1,200 failures were seen repaired" if not open_ones else f"{open_ones:,} of {total:,}"
    )
    assert first in text.lower()
    if open_ones:
        assert "grows like" not in text
        assert "falls" not in text


def test_noise_is_no_growth() -> None:
    found = told(
        [
            cells.cell([[10 ** random.Random(n * at).uniform(-1, 1)] for at in range(3)], n)
            for n in SIZES
        ]
    )
    text = answer(found).text
    assert "cannot tell" in text or "does not grow" in text
    assert "rises" not in text


@pytest.mark.parametrize(
    ("shape", "is_drawn"), [("rising", True), ("flat", True), ("broken", False)]
)
def test_a_law_is_drawn_if_it_can_be_told(shape: str, is_drawn: bool) -> None:
    found = told(planted(*SHAPES[shape][:2], 3))
    drawn = recovery_times.lead(found, SIMULATED)
    assert drawn is not None
    assert ("fitted to the median" in drawn.caption) is is_drawn


def test_what_was_measured_is_told_beside_the_law() -> None:
    found = told(planted(*SHAPES["rising"][:2], 3))
    text = answer(found).text
    assert "From 16 to 4,096 brokers the median rises from" in text
    assert re.search(r"\(\+\d+%, 95 % interval \+\d+% to \+\d+%\)", text)
    assert "the time of 99 in 100" in text
    assert re.search(r"grows like log n: \+0\.\d+ s each time n doubles\.", text)
