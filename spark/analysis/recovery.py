"""Recovery, measured: pure functions from tables to tables.

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
was over first or because its observer could not know, is left out and counted as ``open``.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from overlay.trace_schema import Source, Verdict
from spark.analysis.results import Group
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
MEASURES = (*PHASES, MESSAGES)

GROUP = Group.__struct_fields__
SIZE = (*GROUP, "n")

_NS_PER_S = 1e9


def keyed_runs(runs: DataFrame) -> DataFrame:
    """Return a run's id, seed, group and size: one row a run.

    The size is that of the run, not of the moment of the failure. Every live broker has its own
    settings, so the parameters of live runs do not divide them.
    """
    simulated = fn.col("source") == Source.SIMULATOR.value
    return runs.select(
        "run_id",
        "seed",
        "source",
        "scenario",
        "profile",
        fn.when(simulated, fn.col("parameters")).alias("parameters"),
        fn.col("nodes").alias("n"),
    )


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
    return runs.crossJoin(incidents)


def counts(data: Dataset) -> DataFrame:
    """Return rows of ``results.Counts``: one a group and size, those without incidents too."""
    verdicts = [verdict.value for verdict in Verdict]
    per_run = data.incidents.groupBy("run_id").agg(
        *(fn.count_if(fn.col("verdict") == verdict).alias(verdict) for verdict in verdicts)
    )
    return (
        keyed_runs(data.runs)
        .join(per_run, on="run_id", how="left")
        .fillna(0, verdicts)
        .groupBy(*SIZE)
        .agg(
            fn.count("*").alias("runs"),
            fn.countDistinct("seed").alias("seeds"),
            *(fn.sum(verdict).alias(verdict) for verdict in verdicts),
        )
    )


def measures(data: Dataset) -> DataFrame:
    """Return one row an incident and measure: group, size, ``measure`` and ``value``.

    ``value`` is in seconds, or a count of messages; null where the measure is open.
    """
    seconds = [
        ((fn.col(end) - fn.col(start)) / _NS_PER_S).alias(phase)
        for phase, (start, end) in PHASES.items()
    ]
    return (
        data.incidents.where(fn.col("verdict") == Verdict.BROKER_FAILED.value)
        .drop("n")
        .join(keyed_runs(data.runs), on="run_id", how="inner")
        .select(*SIZE, *seconds, fn.col(MESSAGES).cast("double"))
        .unpivot(list(SIZE), list(MEASURES), "measure", "value")
    )


def quantiles(measured: DataFrame) -> DataFrame:
    """Return rows of ``results.Quantiles``, with the column ``curve`` of ``results.Curve``.

    Quantiles are exact; between two incidents they are interpolated linearly.
    """
    curve = fn.percentile("value", [per_cent / 100 for per_cent in range(101)])
    return (
        measured.groupBy(*SIZE, "measure")
        .agg(
            fn.count("value").alias("count"),
            fn.count_if(fn.col("value").isNull()).alias("open"),
            fn.avg("value").alias("mean"),
            fn.max("value").alias("max"),
            curve.alias("curve"),
        )
        .withColumns({f"p{at}": fn.col("curve")[at] for at in (50, 95, 99)})
    )
