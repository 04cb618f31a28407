"""Incidents that took longer than almost all others of their cell, and how to see them again."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from spark.analysis.frames import expect
from spark.analysis.quantiles import CellQuantiles
from spark.analysis.recovery import CELL, NS_PER_S

ENOUGH = 1000  #: incidents of a cell; with fewer, p99.9 says no more than the maximum
PER_CELL = 3
IN_ALL = 30


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """The time beyond which an incident of a cell is an outlier."""

    group_key: int
    size: int
    beyond: float  #: nanoseconds


class KeyedOutlier(msgspec.Struct, frozen=True, kw_only=True):
    """A ``results.Outlier`` before it has the columns of its group, and its command."""

    group_key: int
    size: int
    run_id: str
    incident_id: str
    seed: int | None
    total_s: float
    repaired: bool
    beyond_s: float


def bounds(exact: Iterable[CellQuantiles]) -> list[Bound]:
    """Return the bounds of the cells that have enough incidents, and whose p99.9 is reached."""
    return [
        Bound(group_key=row.group_key, size=row.size, beyond=row.p999)
        for row in exact
        if row.measure == "total" and row.count + row.open >= ENOUGH and row.p999 is not None
    ]


def outliers(incidents: DataFrame, runs: DataFrame, bounds: DataFrame) -> DataFrame:
    """Return rows of :class:`KeyedOutlier`: the slowest of each cell, and of these the slowest.

    Failures that were not repaired come first. ``runs`` are rows of ``recovery.KeyedRun``.
    """
    total = fn.coalesce("repaired_ns", "duration_ns") - fn.col("failed_ns")
    slow = (
        incidents.join(runs, "run_id", "inner")
        .join(fn.broadcast(bounds), list(CELL), "inner")
        .where(total > fn.col("beyond"))
        .select(
            *CELL,
            "run_id",
            "incident_id",
            "seed",
            (total / NS_PER_S).alias("total_s"),
            fn.col("repaired_ns").isNotNull().alias("repaired"),
            (fn.col("beyond") / NS_PER_S).alias("beyond_s"),
        )
    )
    slowest = ("repaired", fn.desc("total_s"), "run_id", "incident_id")
    ranked = slow.withColumn(
        "at", fn.row_number().over(Window.partitionBy(*CELL).orderBy(*slowest))
    )
    return expect(
        ranked.where(fn.col("at") <= PER_CELL).orderBy(*slowest).limit(IN_ALL), KeyedOutlier
    )
