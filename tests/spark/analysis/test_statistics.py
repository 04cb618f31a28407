"""The parts of the analysis on small frames, beside plain Python: what is awkward in numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from overlay.errors import InvariantError
from sims.dataset import arrow_schema
from spark.analysis import growth
from spark.analysis.frames import collect, expect
from spark.analysis.quantiles import Bucket, CellQuantiles, buckets, cell_quantiles
from spark.analysis.recovery import Measured
from spark.analysis.replicates import REPLICATES, _draw, quantiles_of
from spark.analysis.results import Law
from spark.dataset.column_types import spark_schema

pytestmark = pytest.mark.spark

_rng = random.Random(3)
S = 10**9
AWKWARD: dict[str, Sequence[int | None]] = {
    "single": [7],
    "pair": [1, 2 * S],
    "ties": [S] * 50 + [S + 1] * 50,
    "all the same": [3 * S] * 1000,
    "nulls": [None, 5, None, 9, 1, None],
    "nothing but nulls": [None, None],
    "negative": [-5 * S, -S, 0, 1, 2 * S, -1],
    "skewed": [round(S * _rng.paretovariate(0.6)) for _ in range(3000)],
    "two far ends": [1] * 500 + [2**53] * 500,
    "neighbours in one bucket": [10 * S + at for at in range(997)],
    "large": [2**62, 2**62 + 2**20, 2**61],
}


def frame(spark: SparkSession, groups: Mapping[str, Sequence[int | None]]) -> DataFrame:
    rows = [
        {"group_key": key, "size": 64, "unit": at % 5, "measure": "total", "value": value}
        for key, values in enumerate(groups.values())
        for at, value in enumerate(values)
    ]
    table = pa.Table.from_pylist(rows, arrow_schema(Measured))
    return spark.createDataFrame(table, spark_schema(Measured))


def test_quantiles_of_awkward_values_are_those_of_numpy(spark: SparkSession) -> None:
    measured = frame(spark, AWKWARD)
    rows = collect(cell_quantiles(measured, buckets(measured)), CellQuantiles)
    found = {row.group_key: row for row in rows}
    for key, (name, values) in enumerate(AWKWARD.items()):
        known = [value for value in values if value is not None]
        row = found[key]
        assert (row.count, row.open) == (len(known), len(values) - len(known)), name
        got = [row.p50, row.p95, row.p99, row.p999, row.max]
        if known:
            expected = np.percentile(np.array(known, dtype=float), [50, 95, 99, 99.9, 100])
            assert got == pytest.approx(list(expected), rel=1e-12), name
        else:
            assert got == [None] * 5


def test_buckets_never_fall_while_values_grow(spark: SparkSession) -> None:
    values = sorted(
        {
            sign * value
            for power in range(63)
            for value in (2**power, 2**power + 1, 3**power % 2**62)
            for sign in (1, -1)
        }
    )
    rows = collect(buckets(frame(spark, {"all": list(values)})), Bucket)
    ordered = sorted(rows, key=lambda row: row.bucket or 0)
    ends = [(row.least or 0, row.most or 0) for row in ordered]
    assert all(before[1] < after[0] for before, after in pairwise(ends))
    assert all(most - least <= 0.012 * abs(most) + 1 for least, most in ends)


def test_replicates_are_quantiles_of_what_was_drawn() -> None:
    """Where each value has a bucket of its own, they are exact, whatever was drawn how often."""
    values = [1, 2, 3, 5, 8, 13]
    weights = np.array(
        [[1, 1, 1, 1, 1, 1], [3, 0, 0, 0, 0, 1], [0, 0, 9, 1, 0, 0], [2, 2, 2, 2, 2, 2]]
    )
    ends = np.array(values, dtype=float)
    found = quantiles_of(weights.astype(float), ends, ends)
    for at, row in enumerate(weights):
        whole = [v for v, w in zip(values, row, strict=True) for _ in range(w)]
        for name, p in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            rank = math.floor((len(whole) - 1) * p + 1e-9)
            assert found[name][at] in (whole[rank], *whole[rank : rank + 2])


def cell(units: Sequence[int], counts: Callable[[int], int], key: int = 1) -> pa.Table:
    return pa.table(
        {
            "group_key": [key] * len(units),
            "size": [64] * len(units),
            "measure": ["total"] * len(units),
            "unit": list(units),
            "bucket": [at % 7 for at in range(len(units))],
            "count": [counts(at) for at in range(len(units))],
            "least": [100 * (at % 7) for at in range(len(units))],
            "most": [100 * (at % 7) + 50 for at in range(len(units))],
        }
    )


def test_the_same_seeds_are_drawn_alike_and_one_seed_is_not_drawn_at_all() -> None:
    units = [unit for unit in range(9) for _ in range(7)]
    first, again = (_draw(cell(units, lambda at: 1 + at * at % 5, key)) for key in (1, 2))
    assert first.column("p50").to_pylist() == again.column("p50").to_pylist()
    assert len(first.column("p50")[0]) == REPLICATES
    assert len(set(first.column("p50")[0].as_py())) > 10
    others = _draw(cell([unit + 50 for unit in units], lambda at: 1 + at * at % 5))
    assert others.column("p50").to_pylist() != first.column("p50").to_pylist()
    alone = _draw(cell([3] * 7, lambda at: 2))
    assert (alone.column("units")[0].as_py(), alone.column("p50")[0].as_py()) == (1, [])


def test_fits_are_weighted_least_squares(spark: SparkSession) -> None:
    sizes = (64, 128, 512, 1024, 4096)
    random = np.random.default_rng(2)
    y = {n: 1 + 0.3 * math.log2(n) + random.normal(0, 0.05) for n in sizes}
    draws = {n: y[n] + random.normal(0, 0.02 * (at + 1), 40) for at, n in enumerate(sizes)}
    rows = [
        *((n, 0, y[n]) for n in sizes),
        *((n, at + 1, value) for n in sizes for at, value in enumerate(draws[n])),
    ]
    points = pa.Table.from_pylist(
        [
            {
                "group_key": 1,
                "measure": "total",
                "quantile": "p50",
                "size": n,
                "replicate": replicate,
                "value": float(value),
            }
            for n, replicate, value in rows
        ],
        arrow_schema(growth.Point),
    )
    given = spark.createDataFrame(points, spark_schema(growth.Point))
    found = {row.law: row for row in collect(growth.fits(given), growth.KeyedFit)}
    own = np.array([draws[n].std(ddof=1) ** 2 for n in sizes])
    values = np.array([y[n] for n in sizes])
    common = np.mean(own / values**2) * values**2
    root = np.sqrt(2 / (own + common))
    functions: dict[Law, Callable[[int], float]] = {
        Law.LOG: math.log2,
        Law.LOG_SQUARED: lambda n: math.log2(n) ** 2,
        Law.SQRT: math.sqrt,
        Law.LINEAR: float,
    }
    deviances = {}
    for law, x in functions.items():
        design = np.array([[1.0, x(n)] for n in sizes])
        solved, left, *_ = np.linalg.lstsq(design * root[:, None], values * root, rcond=None)
        row = found[law]
        assert (row.intercept, row.slope) == pytest.approx(tuple(solved), rel=1e-6)
        assert row.deviance == pytest.approx(float(left[0]), rel=1e-6)
        deviances[law] = float(left[0])
    mean = float((root**2 * values).sum() / (root**2).sum())
    assert found[Law.CONSTANT].intercept == pytest.approx(mean)
    inflated = max(1.0, min(deviances.values()) / 3)
    for law, deviance in deviances.items():
        assert found[law].criterion == pytest.approx(deviance / inflated + 4)
    assert sum(row.share or 0.0 for row in found.values()) == pytest.approx(1)


def test_a_table_that_lacks_a_column_or_has_another_type_is_refused(spark: SparkSession) -> None:
    measured = frame(spark, {"one": [1]})
    with pytest.raises(InvariantError, match="no column 'value' in a table of Measured"):
        expect(measured.drop("value"), Measured)
    with pytest.raises(InvariantError, match="'value' of Measured is string, not bigint"):
        expect(measured.withColumn("value", measured["value"].cast("string")), Measured)
    assert expect(measured.withColumn("more", measured["value"]), Measured).columns == [
        *Measured.__struct_fields__
    ]
