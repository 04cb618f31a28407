"""The bootstrap: what quantiles would have been with other seeds.

The seed is the unit. A replicate draws as many seeds as there are, with replacement, and takes all
incidents of each: incidents of one run share its ring and its luck, and to draw them one by one
would give intervals that are too narrow. Two cells with the same seeds are drawn alike, so what
they have in common cancels when they are compared.

Spark reduces each seed to counts in buckets (``quantiles``). What is left is, for each cell, the
product of a matrix of draws and one of counts. No built-in does that, so numpy does it, on the
executors. Within a bucket values are taken to be spread evenly; how far that is off for the data
themselves is known, and taken off each replicate.
"""

from __future__ import annotations

import hashlib

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from sims.dataset import arrow_schema
from spark.analysis.frames import expect
from spark.analysis.quantiles import QUANTILES, bucket
from spark.analysis.recovery import CELL, in_units
from spark.dataset.column_types import spark_schema

REPLICATES = 500
CONFIDENCE = 0.95
BOOTSTRAPPED = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

Reals = NDArray[np.float64]


class Replicates(msgspec.Struct, frozen=True, kw_only=True):
    """The quantiles of one measure in one cell, as drawn; none where there is only one seed."""

    group_key: int
    size: int
    measure: str
    units: int
    p50: tuple[float, ...]
    p95: tuple[float, ...]
    p99: tuple[float, ...]


def replicates(measured: DataFrame) -> DataFrame:
    """Return rows of :class:`Replicates` from those of ``recovery.Measured``.

    The replicates are differences from the quantile of the data.
    """
    counted = (
        measured.where(fn.col("value").isNotNull())
        .withColumn("bucket", bucket("value"))
        .groupBy(*CELL, "measure", "unit", "bucket")
        .agg(
            fn.count("*").alias("count"),
            fn.min("value").alias("least"),
            fn.max("value").alias("most"),
        )
    )
    drawn = counted.groupBy(*CELL, "measure").applyInArrow(_draw, spark_schema(Replicates))
    return expect(drawn, Replicates)


def with_replicates(cells: DataFrame, drawn: DataFrame) -> DataFrame:
    """Return rows of ``quantiles.CellQuantiles`` with their replicates, in the units of people.

    The arrays of replicates are ``p50s``, ``p95s`` and ``p99s``; they are empty with one seed.
    """

    def scaled(name: str) -> Column:
        return fn.transform(name, lambda value: in_units(value))

    renamed = drawn.select(
        *(*CELL, "measure", "units"), *(fn.col(name).alias(f"{name}s") for name in BOOTSTRAPPED)
    )
    none = fn.array().cast("array<double>")
    return cells.join(renamed, [*CELL, "measure"], "left").withColumns(
        {
            **{name: in_units(name) for name in ("mean", "max", *QUANTILES)},
            **{f"{name}s": fn.coalesce(scaled(f"{name}s"), none) for name in BOOTSTRAPPED},
            "units": fn.coalesce("units", fn.lit(0).cast("long")),
        }
    )


def low(replicates: str) -> Column:
    """Return the lower end of the interval, as a difference; None without replicates."""
    return _end(replicates, (1 - CONFIDENCE) / 2)


def high(replicates: str) -> Column:
    """Return the upper end."""
    return _end(replicates, (1 + CONFIDENCE) / 2)


def _end(replicates: str, share: float) -> Column:
    at = fn.lit(1) + fn.round((fn.size(replicates) - 1) * fn.lit(share)).cast("int")
    return fn.try_element_at(fn.sort_array(replicates), fn.greatest(at, fn.lit(1)))


def _draw(cell: pa.Table) -> pa.Table:
    """Draw one cell's replicates; its rows are the counts of each unit and bucket."""
    names = np.unique(cell.column("unit").to_numpy())
    places = np.unique(cell.column("bucket").to_numpy())
    row = np.searchsorted(names, cell.column("unit").to_numpy())
    column = np.searchsorted(places, cell.column("bucket").to_numpy())
    counts = np.zeros((len(names), len(places)))
    np.add.at(counts, (row, column), cell.column("count").to_numpy())
    least, most = np.full(len(places), np.inf), np.full(len(places), -np.inf)
    np.minimum.at(least, column, cell.column("least").to_numpy())
    np.maximum.at(most, column, cell.column("most").to_numpy())
    size = cell.column("size")[0].as_py()
    draws = _draws(names, size) if len(names) > 1 else np.zeros((0, len(names)))
    own = quantiles_of(counts.sum(axis=0)[None, :], least, most)
    drawn = quantiles_of(draws @ counts, least, most)
    found = {
        "group_key": cell.column("group_key")[0].as_py(),
        "size": size,
        "measure": cell.column("measure")[0].as_py(),
        "units": len(names),
        **{name: (drawn[name] - own[name][0]).tolist() for name in BOOTSTRAPPED},
    }
    return pa.Table.from_pylist([found], schema=arrow_schema(Replicates))


def _draws(names: NDArray[np.int64], size: int) -> Reals:
    """Return how often each unit is drawn in each replicate: the same for the same units."""
    digest = hashlib.sha256(names.tobytes() + str(size).encode()).digest()
    random = np.random.default_rng(int.from_bytes(digest[:8]))
    each = np.full(len(names), 1 / len(names))
    return random.multinomial(len(names), each, size=REPLICATES).astype(np.float64)


def quantiles_of(counts: Reals, least: Reals, most: Reals) -> dict[str, Reals]:
    """Return the quantiles of each row of ``counts``, whose columns are buckets."""
    until = counts.cumsum(axis=1)
    rows = np.arange(len(counts))
    found = {}
    for name, p in BOOTSTRAPPED.items():
        rank = (until[:, -1] - 1) * p
        # A replicate's rank lies in the first bucket with more values up to it than that.
        place = np.minimum((until <= rank[:, None]).sum(axis=1), counts.shape[1] - 1)
        inside = counts[rows, place]
        before = until[rows, place] - inside
        share = np.clip((rank - before) / np.maximum(inside - 1, 1), 0, 1)
        found[name] = least[place] + share * (most[place] - least[place])
    return found
