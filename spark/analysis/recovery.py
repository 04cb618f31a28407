"""Recovery, measured: from rows of a data set to one row for each incident and measure.

A broker *fails* at t_f. Another first *suspects* it at t_s; its failure is *confirmed* at t_c; the
ring around it is *repaired*, all four pointers on both sides, at t_r; the last chord that led to
it is *replaced* at t_x. Of these times an incident's phases are made, in seconds:

=============  ===========  =====================================================
detection      t_s - t_f    how long nobody noticed
confirmation   t_c - t_s    how long it took to be sure
repair         t_r - t_c    how long it took to close the ring
total          t_r - t_f    the recovery time: the ring had a hole this long
chords         t_x - t_f    how long some long-distance pointer led nowhere
=============  ===========  =====================================================

and one more measure, ``messages``: all that were sent on account of the incident.

Only incidents whose verdict is ``broker_failed`` enter. A phase that lacks an end, because the run
was over first or because its observer could not know, is *open*: its value is null.

Runs belong to a *group* (``groups``), and those of one size to a *cell* of it. The unit of all
statistics is the seed: incidents of one run are not independent of each other.
"""

from __future__ import annotations

import msgspec
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from overlay.trace_schema import Source, Verdict
from spark.analysis.frames import expect
from spark.analysis.groups import Group
from spark.analysis.results import Counts, Facts
from spark.dataset.load import Dataset

#: Phase -> the columns of its start and its end.
PHASES = {
    "detection": ("failed_ns", "suspected_ns"),
    "confirmation": ("suspected_ns", "confirmed_ns"),
    "repair": ("confirmed_ns", "repaired_ns"),
    "total": ("failed_ns", "repaired_ns"),
    "chords": ("failed_ns", "chords_repaired_ns"),
}
MESSAGES = "messages"
NUMBERS = (MESSAGES,)  #: measures that are no times
MEASURES = (*PHASES, *NUMBERS)

GROUP = Group.__struct_fields__
#: A cell: a group's key and a size; UNKNOWN where nobody counted the brokers.
CELL = ("group_key", "size")
UNKNOWN = -1

MAX_UNITS = 500  #: in a cell of more runs than this, seeds are put together into so many units

NS_PER_S = 1e9


class KeyedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run with the keys by which its rows are grouped: numbers, which move faster than texts."""

    run_id: str
    group_key: int
    size: int  #: brokers the ring was formed of, not those of the moment of the failure
    unit: int  #: what is drawn again by a bootstrap: the seed, or else the run


class KeyedGroup(Group, frozen=True, kw_only=True):
    """A group and its key."""

    group_key: int


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One measure of one incident: nanoseconds, or a number; None where it is open."""

    group_key: int
    size: int
    unit: int
    measure: str
    value: int | None


def grouped(runs: DataFrame) -> DataFrame:
    """Return ``runs`` with what they are grouped by.

    Every live broker has its own settings, so the parameters of live runs do not divide them.
    """
    simulated = fn.col("source") == Source.SIMULATOR.value
    told = runs.withColumn("parameters", fn.when(simulated, fn.col("parameters")))
    return told.withColumns(
        {
            "group_key": fn.xxhash64(*GROUP),
            "size": fn.coalesce("nodes", fn.lit(UNKNOWN)).cast("long"),
        }
    )


def keyed_runs(runs: DataFrame) -> DataFrame:
    """Return rows of :class:`KeyedRun`."""
    unit = fn.when(fn.col("seed").isNull(), fn.xxhash64("run_id")).otherwise(fn.xxhash64("seed"))
    many = fn.count("*").over(Window.partitionBy(*CELL)) > MAX_UNITS
    keyed = grouped(runs).withColumn("unit", unit)
    pooled = fn.pmod("unit", fn.lit(MAX_UNITS).cast("long"))
    return expect(keyed.withColumn("unit", fn.when(many, pooled).otherwise(unit)), KeyedRun)


def keyed_groups(runs: DataFrame) -> DataFrame:
    """Return rows of :class:`KeyedGroup`: few, one a group."""
    return expect(grouped(runs).select("group_key", *GROUP).distinct(), KeyedGroup)


def named(frame: DataFrame, groups: DataFrame) -> DataFrame:
    """Return the rows of a small ``frame`` with the columns of their groups, and with n."""
    n = fn.when(fn.col("size") != UNKNOWN, fn.col("size"))
    told = frame.withColumn("n", n) if "size" in frame.columns else frame
    return told.join(fn.broadcast(groups), "group_key", "inner")


def facts(data: Dataset) -> DataFrame:
    """Return the one row of ``results.Facts``."""
    runs = data.runs.agg(
        fn.count("*").alias("runs"),
        fn.count_if(fn.col("source") == Source.SIMULATOR.value).alias("simulated"),
        fn.count_if(fn.col("source") == Source.LIVE.value).alias("live"),
        fn.countDistinct("seed").alias("seeds"),
        fn.sort_array(fn.collect_set("version")).alias("versions"),
    )
    known = data.runs.select("run_id", fn.lit(True).alias("known"))
    incidents = data.incidents.join(known, on="run_id", how="left").agg(
        fn.count("*").alias("incidents"), fn.count_if(fn.col("known").isNull()).alias("strays")
    )
    return expect(runs.crossJoin(incidents), Facts)


def counts(data: Dataset) -> DataFrame:
    """Return rows of ``results.Counts``: one a cell, those without incidents too."""
    verdicts = [verdict.value for verdict in Verdict]
    per_run = data.incidents.groupBy("run_id").agg(
        *(fn.count_if(fn.col("verdict") == verdict).alias(verdict) for verdict in verdicts)
    )
    found = (
        grouped(data.runs)
        .join(per_run, on="run_id", how="left")
        .fillna(0, verdicts)
        .groupBy(*GROUP, fn.col("nodes").alias("n"))
        .agg(
            fn.count("*").alias("runs"),
            fn.countDistinct("seed").alias("seeds"),
            *(fn.sum(verdict).alias(verdict) for verdict in verdicts),
        )
    )
    return expect(found, Counts)


def measured(incidents: DataFrame, runs: DataFrame) -> DataFrame:
    """Return rows of :class:`Measured` from incidents and :class:`KeyedRun`."""
    failed = incidents.where(fn.col("verdict") == Verdict.BROKER_FAILED.value)
    phases = [(fn.col(end) - fn.col(start)).alias(name) for name, (start, end) in PHASES.items()]
    wide = failed.join(runs, "run_id", "inner").select(
        *CELL, "unit", *phases, *(fn.col(number) for number in NUMBERS)
    )
    return expect(wide.unpivot([*CELL, "unit"], list(MEASURES), "measure", "value"), Measured)


def in_units(value: Column | str, measure: Column | str = "measure") -> Column:
    """Return a value as people read it: seconds for times, numbers as they are."""
    column = fn.col(value) if isinstance(value, str) else value
    name = fn.col(measure) if isinstance(measure, str) else measure
    return fn.when(name.isin(*NUMBERS), column.cast("double")).otherwise(column / NS_PER_S)
