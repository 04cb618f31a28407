"""Exact quantiles of any number of values, with bounded memory, in two passes.

The first pass counts values in *buckets*, each about half a per cent wide. So one knows in which
bucket the value of each rank is. The second pass looks only at the values of these few buckets.

Between two neighbours a quantile is interpolated linearly, as numpy and R do by default: that of
p is the value of rank ``(count - 1) p``, counted from 0.
"""

from __future__ import annotations

import math

import msgspec
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from spark.analysis.frames import expect
from spark.analysis.recovery import CELL

#: Column -> the quantile it holds.
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}

_PER_DOUBLING = 128  #: buckets each time a value doubles
_SCALE = _PER_DOUBLING / math.log(2)
_KEY = (*CELL, "measure")


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """The values of one cell and measure in one bucket; those that are open have bucket None."""

    group_key: int
    size: int
    measure: str
    bucket: int | None
    count: int
    total: float | None
    least: int | None
    most: int | None


class CellQuantiles(msgspec.Struct, frozen=True, kw_only=True):
    """A measure in a cell. The quantiles are None if all its incidents are open."""

    group_key: int
    size: int
    measure: str
    count: int
    open: int
    mean: float | None
    max: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    p999: float | None


def bucket(value: str) -> Column:
    """Return the bucket of a value: it never falls while the value grows."""
    column = fn.col(value)
    width = fn.floor(fn.log1p(fn.abs(column).cast("double")) * _SCALE)
    return fn.when(column < 0, -width).otherwise(width).cast("long")


def buckets(measured: DataFrame) -> DataFrame:
    """Return rows of :class:`Bucket` from those of ``recovery.Measured``."""
    found = (
        measured.withColumn("bucket", bucket("value"))
        .groupBy(*_KEY, "bucket")
        .agg(
            fn.count("*").alias("count"),
            fn.sum(fn.col("value").cast("double")).alias("total"),
            fn.min("value").alias("least"),
            fn.max("value").alias("most"),
        )
    )
    return expect(found, Bucket)


def cell_quantiles(measured: DataFrame, buckets: DataFrame) -> DataFrame:
    """Return rows of :class:`CellQuantiles`, in the units of the values."""
    is_open = fn.col("bucket").isNull()
    whole = buckets.groupBy(*_KEY).agg(
        fn.coalesce(fn.sum(fn.when(~is_open, fn.col("count"))), fn.lit(0)).alias("count"),
        fn.coalesce(fn.sum(fn.when(is_open, fn.col("count"))), fn.lit(0)).alias("open"),
        fn.sum("total").alias("total"),
        fn.max("most").cast("double").alias("max"),
    )
    ranks = _ranks(buckets)
    wanted = ranks.select(*_KEY, "bucket").distinct()
    ranked = _exact(measured, wanted)
    inside = (fn.col("rank") >= fn.col("first")) & (fn.col("rank") < fn.col("after"))
    found = (
        ranks.join(ranked, [*_KEY, "bucket"], "inner")
        .where(inside)
        .groupBy(*_KEY)
        .agg(*(_interpolated(name, p) for name, p in QUANTILES.items()))
    )
    rows = whole.join(found, list(_KEY), "left").withColumn(
        "mean", fn.col("total") / fn.nullif("count", fn.lit(0))
    )
    return expect(rows, CellQuantiles)


def _ranks(buckets: DataFrame) -> DataFrame:
    """Return which ranks are asked for, and in which bucket each is: ``rank`` counts from there."""
    order = Window.partitionBy(*_KEY).orderBy("bucket")
    until = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    counted = buckets.where(fn.col("bucket").isNotNull()).select(
        *_KEY,
        "bucket",
        (fn.sum("count").over(until) - fn.col("count")).alias("before"),
        "count",
        fn.sum("count").over(Window.partitionBy(*_KEY)).alias("all"),
    )
    asked = [
        fn.struct(fn.lit(name).alias("name"), at.cast("long").alias("at"))
        for name, p in QUANTILES.items()
        for at in (fn.floor(_place(p)), fn.ceil(_place(p)))
    ]
    within = (fn.col("at") >= fn.col("before")) & (
        fn.col("at") < fn.col("before") + fn.col("count")
    )
    return (
        counted.select("*", fn.inline(fn.array_distinct(fn.array(*asked))))
        .where(within)
        .select(
            *_KEY, "bucket", "name", "at", "all", (fn.col("at") - fn.col("before")).alias("rank")
        )
    )


def _place(p: float) -> Column:
    # Rounded, as 0.95 times 20 must not be 19.000000000000004.
    return fn.round((fn.col("all") - 1) * fn.lit(p), 9)


def _exact(measured: DataFrame, wanted: DataFrame) -> DataFrame:
    """Return the distinct values in the buckets ``wanted``, with the ranks that each covers."""
    place = [*_KEY, "bucket"]
    until = (
        Window.partitionBy(*place)
        .orderBy("value")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        measured.where(fn.col("value").isNotNull())
        .withColumn("bucket", bucket("value"))
        .join(fn.broadcast(wanted), place, "left_semi")
        .groupBy(*place, "value")
        .count()
        .withColumn("after", fn.sum("count").over(until))
        .withColumn("first", fn.col("after") - fn.col("count"))
        .drop("count")
    )


def _interpolated(name: str, p: float) -> Column:
    mine = fn.when(fn.col("name") == name, fn.col("value"))
    low, high = fn.min(mine), fn.max(mine)
    share = fn.max(_place(p)) - fn.max(fn.floor(_place(p)))
    return (low + share * (high - low)).alias(name)
