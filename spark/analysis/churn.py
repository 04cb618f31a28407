"""How a ring lives with failures: how often it errs, how long it is whole, what overlaps.

Times are those of simulated runs, whose ledger knows when each broker really died. A failure makes
a hole between two neighbours, from its moment until it is repaired or the run ends.
"""

from __future__ import annotations

import msgspec
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from overlay.trace_schema import Source, Verdict
from spark.analysis.frames import expect
from spark.analysis.recovery import CELL, NS_PER_S, Measured

ALONE, OVERLAPPING = "alone", "overlapping"
_NS_PER_HOUR = 3600 * NS_PER_S


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
    overlapping: int


def churn(incidents: DataFrame, runs: DataFrame) -> DataFrame:
    """Return rows of :class:`KeyedChurn`: one a cell in which there are incidents.

    ``runs`` are rows of ``recovery.KeyedRun`` with ``source`` and ``duration_ns``.
    """
    simulated = _simulated(runs)
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
        )
    )
    hours = fn.col("broker_hours")
    counts = ["failures", "covered", "open", "false_suspicions", "false_deaths"]
    # Where no run has an incident, nothing tells a calm ring from rows that are missing.
    rows = lived.join(seen, list(CELL), "inner").fillna(0, [*counts, "alone", "overlapping"])
    told = rows.withColumns(
        {
            "failures_per_broker_hour": fn.col("failures") / hours,
            "false_suspicions_per_broker_hour": fn.col("false_suspicions") / hours,
            "whole_share": 1 - fn.col("covered") / fn.col("time"),
            "pairs_share": 1 - fn.col("open") / (fn.col("time") * fn.col("size")),
        }
    )
    return expect(told, KeyedChurn)


def _simulated(runs: DataFrame) -> DataFrame:
    return runs.where(
        (fn.col("source") == Source.SIMULATOR.value)
        & (fn.col("duration_ns") > 0)
        & (fn.col("size") > 0)
    )


def _holes(incidents: DataFrame, runs: DataFrame) -> DataFrame:
    """Return each incident with its hole in nanoseconds, and whether another overlaps it.

    ``covered`` is the part of its time that no earlier hole of the run has covered.
    """
    failed = fn.col("failed_ns").isNotNull()
    # What failed after the end of the run, by a clock that is off, has made no hole in it.
    inside = fn.least(fn.coalesce("repaired_ns", "duration_ns"), "duration_ns")
    end = fn.when(failed, fn.greatest(inside, "failed_ns"))
    verdict = fn.col("verdict")
    placed = incidents.join(runs, "run_id", "inner").select(
        *CELL,
        "unit",
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


def lasted(incidents: DataFrame, runs: DataFrame) -> DataFrame:
    """Return rows of ``recovery.Measured`` for failures ``alone`` and ``overlapping``."""
    measure = fn.when(fn.col("overlaps"), OVERLAPPING).otherwise(ALONE)
    holes = _holes(incidents, _simulated(runs)).where(fn.col("overlaps").isNotNull())
    rows = holes.withColumns(
        {
            "measure": measure,
            "value": fn.coalesce("total", fn.col("end") - fn.col("start")),
            "over": fn.col("total").isNotNull(),
        }
    )
    return expect(rows, Measured)
