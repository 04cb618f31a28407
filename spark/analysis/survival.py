"""Survival of holes in the ring: Kaplan-Meier curves, with failures that a run did not see mended.

An incident that is open when its run ends has lasted *at least* so long. To leave it out would make
recovery look quicker than it is; the estimate of Kaplan and Meier (1958) counts it as at risk until
then. Of an incident that ends at the moment another is censored, the censored one was at risk.

Incidents of one seed share its luck, so the error of a curve is that of Williams (1995) with seeds
as clusters (``ranks.errors_of``). Greenwood's, which takes incidents for independent, is several
times too small.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import groupby
from statistics import NormalDist

import msgspec
import numpy as np
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from spark.analysis.frames import expect
from spark.analysis.quantiles import Key, bucket
from spark.analysis.recovery import CELL, NS_PER_S
from spark.analysis.replicates import CONFIDENCE, Replicates

_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
#: Steps are thinned to those where the curve has fallen by a fiftieth, on a logarithmic scale.
_STEPS = 50
#: Column of ``results.Survived`` -> the share not yet recovered at that quantile.
CROSSED = {"p50_s": 0.5, "p95_s": 0.05, "p99_s": 0.01}
_CLOSE = 1e-12


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the curve of a cell, with the totals of the cell."""

    group_key: int
    size: int
    bucket: int
    after_s: float
    survival: float
    at_risk: int
    failures: int
    censored: int


class KeyedSurvived(msgspec.Struct, frozen=True, kw_only=True):
    """A ``results.Survived`` before it has the columns of its group."""

    group_key: int
    size: int
    failures: int
    censored: int
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None


def steps(measured: DataFrame) -> DataFrame:
    """Return rows of :class:`Step`, by Kaplan and Meier, thinned to some hundred a cell.

    ``measured`` are rows of ``recovery.Measured`` of one measure.
    """
    over = fn.col("over").cast("long")
    counted = measured.groupBy(*CELL, "value").agg(
        fn.sum(over).alias("ended"), fn.sum(1 - over).alias("lost")
    )
    cell = Window.partitionBy(*CELL)
    order = cell.orderBy(fn.asc_nulls_last("value"))
    until = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    both = fn.col("ended") + fn.col("lost")
    ended, risk = fn.col("ended"), fn.col("at_risk")
    # log(0) is null in SQL: where all that are at risk end, nothing is left.
    factor = fn.when(ended < risk, fn.log(1 - ended / risk)).otherwise(fn.lit(float("-inf")))
    curve = (
        counted.withColumns(
            {
                "failures": fn.sum(both).over(cell),
                "censored": fn.sum("lost").over(cell),
                "at_risk": fn.sum(both).over(cell) - fn.sum(both).over(until) + both,
                "is_last": fn.max("value").over(cell) == fn.col("value"),
            }
        )
        .withColumn("log", fn.sum(factor).over(until))
        .withColumn("survival", fn.exp("log"))
        .where(fn.col("value").isNotNull() & ((ended > 0) | fn.col("is_last")))
    )
    thinned = fn.struct(
        fn.floor(-fn.greatest(fn.col("log"), fn.lit(-1e3)) * _STEPS),
        "is_last",
        *(fn.col("survival") <= share + _CLOSE for share in CROSSED.values()),
    )
    # The first step of each place, by counting and not by sorting: these are as many rows as there
    # are failures, and few are kept.
    columns = ("value", "survival", "at_risk", "failures", "censored")
    kept = (
        curve.withColumn("place", thinned)
        .groupBy(*CELL, "place")
        .agg(fn.min_by(fn.struct(*columns), "value").alias("step"))
        .select(*CELL, "step.*")
    )
    told = kept.withColumns({"after_s": fn.col("value") / NS_PER_S, "bucket": bucket("value")})
    return expect(told, Step)


def interval(step: Step, drawn: Replicates) -> tuple[float | None, float | None]:
    """Return the ends of the 95 % interval of a step, on the scale of log(-log S).

    They are None with one seed, and where nothing or all is left.
    """
    at = int(np.searchsorted(drawn.places, step.bucket, side="right")) - 1
    if at < 0 or not _CLOSE < step.survival < 1 - _CLOSE:
        return None, None
    log = math.log(step.survival)
    error = _Z * drawn.errors[at] / abs(log)
    # Far beyond these nothing is known, and an exponential would overflow.
    low, high = (math.exp(log * math.exp(max(-700.0, min(end, 700.0)))) for end in (error, -error))
    return low, high


def summaries(steps: Iterable[Step]) -> list[KeyedSurvived]:
    """Return a row a cell: failures, censored ones, and where the curve crosses its quantiles."""

    def key(step: Step) -> tuple[int, int]:
        return step.group_key, step.size

    found = []
    for (group_key, size), alike in groupby(sorted(steps, key=key), key=key):
        own = list(alike)
        crossed: Mapping[str, float | None] = {
            name: min(
                (step.after_s for step in own if step.survival <= share + _CLOSE), default=None
            )
            for name, share in CROSSED.items()
        }
        found.append(
            KeyedSurvived(
                group_key=group_key,
                size=size,
                failures=own[0].failures,
                censored=own[0].censored,
                **crossed,
            )
        )
    return found


def key_of(step: Step) -> Key:
    """Return the key of the cell and measure of a step."""
    return step.group_key, step.size, "total"
