"""The tables, checked against the same sums in plain Python."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from overlay.trace_schema import Verdict
from spark.analysis.analyse import analyse
from spark.analysis.results import Analysis, Growth, Model, Quantiles
from spark.dataset.files import check_dataset
from tests.spark import rows
from tests.spark.rows import S

pytestmark = pytest.mark.spark

SIZES = (16, 32, 64, 128, 256)
GROWING: dict[str, Callable[[int], float]] = {
    "log": lambda n: 2 + math.log2(n),
    "sqrt": lambda n: 2 + math.sqrt(n),
    "linear": lambda n: 2 + n / 10,
    "flat": lambda n: 5.0,
}


@pytest.fixture(scope="module")
def synthetic(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """A scenario for each kind of growth, with the same scatter at each size."""
    directory = tmp_path_factory.mktemp("synthetic")
    for scenario, seconds in GROWING.items():
        for n in SIZES:
            run = rows.run(f"{scenario}{n}", scenario=scenario, nodes=n)
            incidents = [
                rows.recovered(run.run_id, at, seconds(n) + (at - 3) / 50, messages=at * n)
                for at in range(7)
            ]
            rows.write_parquet(directory, run, incidents)
    return analyse(spark, check_dataset(directory))


def quantiles_of(analysis: Analysis, measure: str) -> list[Quantiles]:
    return [row for row in analysis.quantiles if row.measure == measure]


def test_phases_are_the_differences_of_their_times(spark: SparkSession, tmp_path: Path) -> None:
    rows.write_parquet(tmp_path, rows.run(), [rows.incident()])
    found = {row.measure: row.p50 for row in analyse(spark, check_dataset(tmp_path)).quantiles}
    assert found == {
        "detection": 1.0,
        "confirmation": 2.0,
        "repair": 3.0,
        "total": 6.0,
        "chords": 10.0,
        "messages": 12.0,
    }


def test_quantiles_are_exact(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(7)
    times = [rng.lognormvariate(0, 1) for _ in range(101)]
    incidents = [rows.recovered("r1", at, time, at) for at, time in enumerate(times)]
    rows.write_parquet(tmp_path, rows.run("r1"), incidents[:60])
    rows.write_parquet(
        tmp_path, rows.run("r2", seed=2), [rows.recovered("r2", 1, t) for t in times[60:]]
    )
    analysis = analyse(spark, check_dataset(tmp_path))
    (row,) = quantiles_of(analysis, "total")
    expected = [statistics.fmean(times), *np.percentile(times, [50, 95, 99]), max(times)]
    assert [row.mean, row.p50, row.p95, row.p99, row.max] == pytest.approx(expected, rel=1e-6)
    assert (row.count, row.open, row.n) == (101, 0, 64)
    curve = next(c for c in analysis.curves if c.measure == "total")
    assert curve.curve == pytest.approx(np.percentile(times, range(101)), rel=1e-6)


def test_open_phases_and_other_verdicts_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    unfinished = rows.incident(number=2, repaired_ns=None, chords_repaired_ns=None)
    others = [
        rows.incident(number=3, verdict=Verdict.REFUTED, messages=999),
        rows.incident(number=4, verdict=Verdict.LINK_FAILED),
        rows.incident(number=5, verdict=Verdict.OPEN),
        rows.incident("no such run", number=6, messages=999),
    ]
    rows.write_parquet(tmp_path, rows.run(), [rows.incident(), unfinished, *others])
    rows.write_parquet(tmp_path, rows.run("quiet", nodes=128))
    analysis = analyse(spark, check_dataset(tmp_path))
    seen = {row.measure: (row.count, row.open, row.max) for row in analysis.quantiles}
    assert seen["confirmation"] == (2, 0, 2.0)
    assert seen["total"] == (1, 1, 6.0)
    assert seen["chords"] == (1, 1, 10.0)
    assert seen["messages"] == (2, 0, 12.0)
    counts = [
        (row.n, row.runs, row.broker_failed, row.link_failed, row.refuted, row.open)
        for row in analysis.counts
    ]
    assert counts == [(64, 1, 2, 1, 1, 1), (128, 1, 0, 0, 0, 0)]
    assert (analysis.facts.incidents, analysis.facts.strays) == (6, 1)


def test_runs_are_compared_only_with_their_like(spark: SparkSession, tmp_path: Path) -> None:
    for at, parameters in enumerate(['{"crash_share":0.1}', '{"crash_share":0.2}']):
        run = rows.run(f"sim{at}", parameters=parameters)
        rows.write_parquet(tmp_path, run, [rows.recovered(run.run_id, at, 1 + at)])
    for at in range(2):
        live = rows.run(
            f"live{at}", source="live", scenario="live", nodes=None, parameters=f'{{"port":{at}}}'
        )
        seen = rows.incident(live.run_id, at, failed_ns=None, observer="me")
        rows.write_json(tmp_path, live, [seen])
    analysis = analyse(spark, check_dataset(tmp_path))
    totals = [(r.source, r.n, r.count, r.open, r.p50) for r in quantiles_of(analysis, "total")]
    assert totals == [
        ("live", None, 0, 2, None),
        ("simulator", 64, 1, 0, 1.0),
        ("simulator", 64, 1, 0, 2.0),
    ]
    assert [r.p50 for r in quantiles_of(analysis, "repair") if r.source == "live"] == [3.0]
    assert [str(group) for group in analysis.groups] == [
        "live, lan, live",
        "crash, lan, crash_share 0.1",
        "crash, lan, crash_share 0.2",
    ]


def test_fits_are_least_squares_of_the_medians(synthetic: Analysis) -> None:
    functions = {Model.LOG: math.log2, Model.SQRT: math.sqrt, Model.LINEAR: float}
    checked = 0
    for fit in synthetic.fits:
        if fit.measure != "total" or fit.scenario == "flat":
            continue
        x = [functions[fit.model](n) for n in SIZES]
        y = [GROWING[fit.scenario](n) for n in SIZES]
        slope, intercept = statistics.linear_regression(x, y)
        r2 = statistics.correlation(x, y) ** 2
        found = (fit.slope, fit.intercept, fit.r2)
        assert found == pytest.approx((slope, intercept, r2), rel=1e-6)
        assert (fit.sizes, fit.n_min, fit.n_max) == (5, 16, 256)
        checked += 1
    assert checked == 9


def test_each_growth_is_told_for_what_it_is(synthetic: Analysis) -> None:
    verdicts = {v.scenario: v.growth for v in synthetic.verdicts if v.measure == "total"}
    assert verdicts == {
        "log": Growth.LOG,
        "sqrt": Growth.SQRT,
        "linear": Growth.LINEAR,
        "flat": Growth.FLAT,
    }
    assert {v.growth for v in synthetic.verdicts if v.measure == "messages"} == {Growth.LINEAR}


def test_nothing_failed_is_no_error(spark: SparkSession, tmp_path: Path) -> None:
    rows.write_parquet(tmp_path, rows.run(duration_ns=S))
    analysis = analyse(spark, check_dataset(tmp_path))
    assert (analysis.quantiles, analysis.fits, analysis.verdicts) == ((), (), ())
    assert analysis.facts.runs == 1
