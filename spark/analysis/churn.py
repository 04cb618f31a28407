"""How a ring lives with failures: how often it errs, how long it is whole, what overlaps.

Times are those of simulated runs, whose ledger knows when each broker really died. A failure makes
a hole between two neighbours, from its moment until it is repaired or the run ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from overlay.trace_schema import Source, Verdict
from spark.analysis.frames import expect
from spark.analysis.quantiles import Bucket, CellQuantiles, Key, bucket, sums
from spark.analysis.recovery import CELL, NS_PER_S, Measured, Runs
from spark.analysis.results import Churn

ALONE, OVERLAPPING = "alone", "overlapping"
_NS_PER_HOUR = 3600 * NS_PER_S


class Hole(Bucket, frozen=True, kw_only=True):
    """Holes that lasted alike; the measure is ALONE or OVERLAPPING, empty where there was none."""

    covered: float | None  #: nanoseconds, as ``open`` is
    open: float | None
    erred: int
    killed: int


def holes(incidents: DataFrame, runs: DataFrame) -> DataFrame:
    """Return rows of :class:`Hole` from incidents and ``recovery.KeyedRun``."""
    found = (
        _measured(incidents, runs)
        .withColumn("bucket", bucket("value"))
        .groupBy(*CELL, "measure", "bucket")
        .agg(
            *sums(),
            fn.sum(fn.col("covered").cast("double")).alias("covered"),
            fn.sum((fn.col("end") - fn.col("start")).cast("double")).alias("open"),
            fn.count_if("erred").alias("erred"),
            fn.count_if("killed").alias("killed"),
        )
    )
    return expect(found, Hole)


def churn(runs: Runs, holes: Iterable[Hole], took: Mapping[Key, CellQuantiles]) -> Iterator[Churn]:
    """Yield a row a cell in which there are incidents; ``took`` are quantiles of :func:`lasted`.

    Where no run has an incident, nothing tells a calm ring from rows that are missing.
    """
    lived = _lived(runs.rows)
    by_cell: dict[tuple[int, int], list[Hole]] = {}
    for hole in holes:
        by_cell.setdefault((hole.group_key, hole.size), []).append(hole)
    for key, own in by_cell.items():
        alone, overlapping = (took.get((*key, measure)) for measure in (ALONE, OVERLAPPING))
        first, other = (
            None if each is None or each.p50 is None else each.p50 / NS_PER_S
            for each in (alone, overlapping)
        )
        yield Churn(
            **runs.columns(*key),
            **_told(own, key[1], *lived[key]),
            alone_p50_s=first,
            overlapping_p50_s=other,
            slowdown=other / first if first and other is not None else None,
        )


def _lived(runs: pa.Table) -> dict[tuple[int, int], tuple[int, float]]:
    """Return how many runs of each cell are simulated, and their nanoseconds."""
    simulated = pc.and_(
        pc.equal(runs.column("source"), Source.SIMULATOR.value),
        pc.and_(pc.greater(runs.column("duration_ns"), 0), pc.greater(runs.column("size"), 0)),
    )
    times = runs.column("duration_ns").cast(pa.float64(), safe=False)
    rows = runs.set_column(runs.column_names.index("duration_ns"), "duration_ns", times)
    found = (
        rows.filter(simulated)
        .group_by(list(CELL))
        .aggregate([("duration_ns", "sum"), ([], "count_all")])
    )
    return {
        (row["group_key"], row["size"]): (row["count_all"], row["duration_ns_sum"])
        for row in found.to_pylist()
    }


def _told(holes: list[Hole], size: int, runs: int, time: float) -> dict[str, Any]:
    """Return the columns that are counted."""
    hours = time * size / _NS_PER_HOUR
    alone, overlapping = (
        sum(hole.over + hole.still for hole in holes if hole.measure == measure)
        for measure in (ALONE, OVERLAPPING)
    )
    erred = sum(hole.erred for hole in holes)
    return {
        "runs": runs,
        "broker_hours": hours,
        "failures_per_broker_hour": (alone + overlapping) / hours,
        "false_suspicions": erred,
        "false_suspicions_per_broker_hour": erred / hours,
        "false_deaths": sum(hole.killed for hole in holes),
        "whole_share": 1 - sum(hole.covered or 0.0 for hole in holes) / time,
        "pairs_share": 1 - sum(hole.open or 0.0 for hole in holes) / (time * size),
        "alone": alone,
        "overlapping": overlapping,
    }


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
    return expect(_measured(incidents, runs).where(fn.col("measure") != ""), Measured)


def _measured(incidents: DataFrame, runs: DataFrame) -> DataFrame:
    measure = fn.when(fn.col("start").isNull(), "").when(fn.col("overlaps"), OVERLAPPING)
    return _holes(incidents, _simulated(runs)).withColumns(
        {
            "measure": measure.otherwise(ALONE),
            "value": fn.coalesce("total", fn.col("end") - fn.col("start")),
            "over": fn.col("total").isNotNull(),
        }
    )
