"""Incidents that took longer than almost all others of their cell, and how to see them again."""

from __future__ import annotations

import msgspec
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from spark.analysis.frames import expect
from spark.analysis.recovery import CELL, NS_PER_S

ENOUGH = 1000  #: incidents of a cell; with fewer, p99.9 says no more than the maximum
PER_CELL = 3
IN_ALL = 30


class KeyedOutlier(msgspec.Struct, frozen=True, kw_only=True):
    """A ``results.Outlier`` before it has the columns of its group, and its command."""

    group_key: int
    size: int
    run_id: str
    incident_id: str
    seed: int | None
    total_s: float
    beyond_s: float


def outliers(incidents: DataFrame, runs: DataFrame, cells: DataFrame) -> DataFrame:
    """Return rows of :class:`KeyedOutlier`: the slowest of each cell, and of these the slowest.

    ``runs`` are rows of ``recovery.KeyedRun`` with ``seed``; ``cells`` of
    ``quantiles.CellQuantiles``, in the units of the values.
    """
    bounds = cells.where((fn.col("measure") == "total") & (fn.col("count") >= ENOUGH)).select(
        *CELL, fn.col("p999").alias("beyond")
    )
    total = fn.col("repaired_ns") - fn.col("failed_ns")
    slow = (
        incidents.where(total.isNotNull())
        .join(runs, "run_id", "inner")
        .join(fn.broadcast(bounds), list(CELL), "inner")
        .where(total > fn.col("beyond"))
        .select(
            *CELL,
            "run_id",
            "incident_id",
            "seed",
            (total / NS_PER_S).alias("total_s"),
            (fn.col("beyond") / NS_PER_S).alias("beyond_s"),
        )
    )
    slowest = (fn.desc("total_s"), "run_id", "incident_id")
    ranked = slow.withColumn(
        "at", fn.row_number().over(Window.partitionBy(*CELL).orderBy(*slowest))
    )
    return expect(
        ranked.where(fn.col("at") <= PER_CELL).orderBy(*slowest).limit(IN_ALL), KeyedOutlier
    )
