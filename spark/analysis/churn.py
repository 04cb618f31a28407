"""How a ring lives with failures: how often it errs, how long it is whole, what overlaps.

Times are those of simulated runs, whose ledger knows when each broker really died. A failure makes
a hole between two neighbours, from its moment until it is repaired or the run ends.
"""

from __future__ import annotations

import msgspec
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from overlay.trace_schema import Source, Verdict
from spark.analysis.frames import expect
from spark.analysis.recovery import CELL, NS_PER_S, UNKNOWN

_NS_PER_HOUR = 3600 * NS_PER_S
_ACCURACY = 100_000  #: of medians: they are off by one rank in so many


class KeyedChurn(msgspec.Struct, frozen=True, kw_only=True):
    """A ``results.Churn`` before it has the columns of its group."""

    group_key: int
    size: int
    runs: int
    broker_hours: float
    failures_per_broker_hour: float
    false_suspicions: int
    false_suspicions_per_broker_hour: float
    false_deaths: int
    whole_share: float
    pairs_share: float
    alone: int
    alone_p50_s: float | None
    overlapping: int
    overlapping_p50_s: float | None
    slowdown: float | None


def churn(incidents: DataFrame, runs: DataFrame) -> DataFrame:
    """Return rows of :class:`KeyedChurn`: one a cell.

    ``runs`` are rows of ``recovery.KeyedRun`` with ``source`` and ``duration_ns``.
    """
    simulated = runs.where(
        (fn.col("source") == Source.SIMULATOR.value)
        & (fn.col("duration_ns") > 0)
        & (fn.col("size") != UNKNOWN)
    )
    lived = simulated.groupBy(*CELL).agg(
        fn.count("*").alias("runs"),
        fn.sum(fn.col("duration_ns").cast("double")).alias("time"),
        (fn.sum(fn.col("duration_ns").cast("double") * fn.col("size")) / _NS_PER_HOUR).alias(
            "broker_hours"
        ),
    )
    seen = (
        _holes(incidents, simulated)
        .groupBy(*CELL)
        .agg(
            fn.count("start").alias("failures"),
            fn.sum(fn.col("covered").cast("double")).alias("covered"),
            fn.sum((fn.col("end") - fn.col("start")).cast("double")).alias("open"),
            fn.count_if("erred").alias("false_suspicions"),
            fn.count_if("killed").alias("false_deaths"),
            fn.count_if(~fn.col("overlaps")).alias("alone"),
            fn.count_if("overlaps").alias("overlapping"),
            _median(~fn.col("overlaps")).alias("alone_p50_s"),
            _median(fn.col("overlaps")).alias("overlapping_p50_s"),
        )
    )
    hours = fn.col("broker_hours")
    counts = ["failures", "covered", "open", "false_suspicions", "false_deaths"]
    rows = lived.join(seen, list(CELL), "left").fillna(0, [*counts, "alone", "overlapping"])
    told = rows.withColumns(
        {
            "failures_per_broker_hour": fn.col("failures") / hours,
            "false_suspicions_per_broker_hour": fn.col("false_suspicions") / hours,
            "whole_share": 1 - fn.col("covered") / fn.col("time"),
            "pairs_share": 1 - fn.col("open") / (fn.col("time") * fn.col("size")),
            "slowdown": fn.try_divide("overlapping_p50_s", "alone_p50_s"),
        }
    )
    return expect(told, KeyedChurn)


def _holes(incidents: DataFrame, runs: DataFrame) -> DataFrame:
    """Return each incident with its hole in nanoseconds, and whether another overlaps it.

    ``covered`` is the part of its time that no earlier hole of the run has covered.
    """
    failed = fn.col("failed_ns").isNotNull()
    end = fn.when(failed, fn.least(fn.coalesce("repaired_ns", "duration_ns"), "duration_ns"))
    verdict = fn.col("verdict")
    placed = incidents.join(runs, "run_id", "inner").select(
        *CELL,
        "run_id",
        fn.col("failed_ns").alias("start"),
        end.alias("end"),
        fn.when(failed, fn.col("repaired_ns") - fn.col("failed_ns")).alias("total"),
        verdict.isin(Verdict.REFUTED.value, Verdict.LINK_FAILED.value).alias("erred"),
        ((verdict == Verdict.BROKER_FAILED.value) & ~failed).alias("killed"),
    )
    order = Window.partitionBy("run_id").orderBy("start", "end")
    before = fn.max("end").over(order.rowsBetween(Window.unboundedPreceding, -1))
    after = fn.lead("start").over(order)
    start, until = fn.col("start"), fn.col("end")
    overlaps = fn.coalesce(fn.col("before") > start, fn.lit(False)) | fn.coalesce(
        fn.col("after") < until, fn.lit(False)
    )
    since = fn.greatest(start, fn.coalesce("before", "start"))
    return placed.withColumns({"before": before, "after": after}).withColumns(
        {
            "overlaps": fn.when(start.isNotNull(), overlaps),
            "covered": fn.greatest(until - since, fn.lit(0)),
        }
    )


def _median(which: Column) -> Column:
    value = fn.when(which, fn.col("total"))
    return fn.percentile_approx(value, 0.5, _ACCURACY) / NS_PER_S
