"""Survival of holes in the ring: Kaplan-Meier curves, with failures that a run did not see mended.

An incident that is open when its run ends has lasted *at least* so long. To leave it out would make
recovery look quicker than it is; the estimate of Kaplan and Meier (1958) counts it as at risk until
then. Of an incident that ends at the moment another is censored, the censored one was at risk.
"""

from __future__ import annotations

from statistics import NormalDist

import msgspec
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from spark.analysis.frames import expect
from spark.analysis.recovery import CELL, NS_PER_S
from spark.analysis.replicates import CONFIDENCE

_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
#: Steps are thinned to those where the curve has fallen by a fiftieth, on a logarithmic scale.
_STEPS = 50
#: Column of ``results.Survived`` -> the share not yet recovered at that quantile.
CROSSED = {"p50_s": 0.5, "p95_s": 0.05, "p99_s": 0.01}
_CLOSE = 1e-12


class Lifetime(msgspec.Struct, frozen=True, kw_only=True):
    """How long one failure was seen unrepaired, and whether that was its end."""

    group_key: int
    size: int
    after_ns: int
    repaired: bool


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the curve of a cell, with the totals of the cell."""

    group_key: int
    size: int
    after_s: float
    survival: float
    low: float | None
    high: float | None
    at_risk: int
    failures: int
    censored: int


def lifetimes(incidents: DataFrame, runs: DataFrame) -> DataFrame:
    """Return rows of :class:`Lifetime`: one for each failure whose moment is known.

    ``runs`` are rows of ``recovery.KeyedRun`` with ``duration_ns``. A failure that nobody noticed
    is one as well. An open one in a run of unknown length says nothing, and is left out.
    """
    end = fn.coalesce("repaired_ns", "duration_ns")
    found = incidents.where(fn.col("failed_ns").isNotNull()).join(runs, "run_id", "inner")
    rows = found.select(
        *CELL,
        (end - fn.col("failed_ns")).alias("after_ns"),
        fn.col("repaired_ns").isNotNull().alias("repaired"),
    )
    return expect(rows.where("after_ns >= 0"), Lifetime)


def steps(lifetimes: DataFrame) -> DataFrame:
    """Return rows of :class:`Step`, by Kaplan and Meier, thinned to some hundred a cell."""
    repaired = fn.col("repaired").cast("long")
    counted = lifetimes.groupBy(*CELL, "after_ns").agg(
        fn.sum(repaired).alias("ended"), fn.sum(1 - repaired).alias("lost")
    )
    cell = Window.partitionBy(*CELL)
    order = cell.orderBy("after_ns")
    until = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    both = fn.col("ended") + fn.col("lost")
    ended, risk = fn.col("ended"), fn.col("at_risk")
    # log(0) is null in SQL: where all that are at risk end, nothing is left.
    factor = fn.when(ended < risk, fn.log(1 - ended / risk)).otherwise(fn.lit(float("-inf")))
    term = fn.when(ended < risk, ended / (risk * (risk - ended)))
    curve = (
        counted.withColumns(
            {
                "failures": fn.sum(both).over(cell),
                "censored": fn.sum("lost").over(cell),
                "at_risk": fn.sum(both).over(cell) - fn.sum(both).over(until) + both,
                "is_last": fn.max("after_ns").over(cell) == fn.col("after_ns"),
            }
        )
        .withColumns({"log": fn.sum(factor).over(until), "variance": fn.sum(term).over(until)})
        .withColumn("survival", fn.exp("log"))
        .where((ended > 0) | fn.col("is_last"))
    )
    thinned = fn.struct(
        fn.floor(-fn.greatest(fn.col("log"), fn.lit(-1e3)) * _STEPS),
        "is_last",
        *(fn.col("survival") <= share + _CLOSE for share in CROSSED.values()),
    )
    # The first step of each place, by counting and not by sorting: these are as many rows as there
    # are failures, and few are kept.
    columns = ("after_ns", "survival", "log", "variance", "at_risk", "failures", "censored")
    kept = (
        curve.withColumn("place", thinned)
        .groupBy(*CELL, "place")
        .agg(fn.min_by(fn.struct(*columns), "after_ns").alias("step"))
        .select(*CELL, "step.*")
    )
    low, high = (_end(sign) for sign in (1, -1))
    told = kept.withColumns({"after_s": fn.col("after_ns") / NS_PER_S, "low": low, "high": high})
    return expect(told, Step)


def _end(sign: int) -> Column:
    """Return an end of the interval: Greenwood's variance, on the scale of log(-log S)."""
    error = fn.sqrt("variance") / fn.abs("log")
    inside = (fn.col("survival") > 0) & (fn.col("survival") < 1 - _CLOSE)
    return fn.when(inside, fn.exp(fn.col("log") * fn.exp(sign * _Z * error)))


def summaries(steps: DataFrame) -> DataFrame:
    """Return a row a cell: failures, censored ones, and where the curve crosses its quantiles."""
    crossed = (
        fn.min(fn.when(fn.col("survival") <= share + _CLOSE, fn.col("after_s"))).alias(name)
        for name, share in CROSSED.items()
    )
    return steps.groupBy(*CELL).agg(
        fn.max("failures").alias("failures"), fn.max("censored").alias("censored"), *crossed
    )
