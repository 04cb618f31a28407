"""The analysis of a data set: Spark reduces it to a few small tables, and these are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from spark.analysis import (
    churn,
    comparison,
    delivery,
    growth,
    judging,
    outliers,
    quantiles,
    survival,
)
from spark.analysis import recovery as measures
from spark.analysis.analysis import Analysis
from spark.analysis.delivery import Delivery, Interruption
from spark.analysis.frames import Row, collect, expect, ordered, table
from spark.analysis.groups import Grouped
from spark.analysis.recovery import GROUP, MEASURES
from spark.analysis.replay import command
from spark.analysis.replicates import BOOTSTRAPPED, high, low, replicates, with_replicates
from spark.analysis.results import (
    Churn,
    Comparison,
    Counts,
    Facts,
    Fit,
    Law,
    Outlier,
    Quantiles,
    Survival,
    Survived,
)
from spark.dataset.load import Dataset


def analyse(spark: SparkSession, data: Dataset) -> Analysis:
    """Analyse a data set."""
    with _reduced(data) as small:
        fits = _fits(small)
        return Analysis(
            facts=collect(measures.facts(data), Facts)[0],
            counts=_sorted(collect(measures.counts(data), Counts)),
            quantiles=_sorted(collect(_quantiles(small), Quantiles)),
            survival=_sorted(collect(_named(small, small.steps), Survival)),
            survived=_sorted(collect(_named(small, survival.summaries(small.steps)), Survived)),
            fits=fits,
            verdicts=judging.judge_all(fits),
            churn=_sorted(collect(_named(small, small.churn), Churn)),
            delivery=_delivered(small, delivery.deliveries, Delivery),
            interruptions=_delivered(small, delivery.interruptions, Interruption),
            comparisons=_comparisons(spark, small),
            outliers=_outliers(data, small),
            skipped=data.skipped,
        )


@dataclass(frozen=True, slots=True)
class _Small:
    """What the rows of a data set come down to: tables that fit into memory many times over."""

    runs: DataFrame  #: ``recovery.KeyedRun`` with source, seed and duration_ns
    groups: DataFrame
    buckets: DataFrame
    exact: DataFrame  #: ``quantiles.CellQuantiles``
    cells: DataFrame  #: the same in the units of people, with the replicates of the quantiles
    steps: DataFrame
    churn: DataFrame
    probes: DataFrame | None  #: not small: ``delivery.KeyedProbe``


@contextmanager
def _reduced(data: Dataset) -> Iterator[_Small]:
    """Reduce the rows to small tables, each computed once."""
    keyed = measures.keyed_runs(data.runs)
    runs = keyed.join(data.runs.select("run_id", "source", "seed", "duration_ns"), "run_id")
    groups = measures.keyed_groups(data.runs).persist()
    measured = measures.measured(data.incidents, keyed)
    buckets = quantiles.buckets(measured).persist()
    exact = quantiles.cell_quantiles(measured, buckets).persist()
    cells = with_replicates(exact, replicates(measured)).persist()
    lived = keyed.join(data.runs.select("run_id", "duration_ns"), "run_id")
    steps = survival.steps(survival.lifetimes(data.incidents, lived)).persist()
    try:
        yield _Small(
            runs=runs,
            groups=groups,
            buckets=buckets,
            exact=exact,
            cells=cells,
            steps=steps,
            churn=churn.churn(data.incidents, runs),
            probes=delivery.keyed_probes(data.probes, keyed) if data.probes else None,
        )
    finally:
        for kept in (groups, buckets, exact, cells, steps):
            kept.unpersist()


def _named(small: _Small, frame: DataFrame) -> DataFrame:
    return measures.named(frame, small.groups)


def _quantiles(small: _Small) -> DataFrame:
    ends = {
        f"{name}_{end}": fn.col(name) + pick(f"{name}s")
        for name in BOOTSTRAPPED
        for end, pick in (("low", low), ("high", high))
    }
    return _named(small, small.cells.withColumns(ends))


def _fits(small: _Small) -> tuple[Fit, ...]:
    fits = growth.fits(growth_points(small.cells))
    return _sorted(collect(_named(small, fits), Fit))


def growth_points(cells: DataFrame) -> DataFrame:
    """Return rows of ``growth.Point`` from cells with replicates, where the size is known."""
    none = fn.array(fn.lit(0.0))
    each = (
        fn.struct(
            fn.lit(name).alias("quantile"),
            fn.col(name).alias("own"),
            fn.concat(none, fn.col(f"{name}s")).alias("differences"),
        )
        for name in growth.FITTED
    )
    known = (fn.col("size") > 0) & fn.col("p50").isNotNull()
    points = (
        cells.where(known)
        .select("group_key", "measure", "size", fn.inline(fn.array(*each)))
        .select(
            *("group_key", "measure", "quantile", "size", "own"),
            fn.posexplode("differences").alias("replicate", "difference"),
        )
        .withColumns(
            {
                "value": fn.col("own") + fn.col("difference"),
                "replicate": fn.col("replicate").cast("long"),
            }
        )
    )
    return expect(points, growth.Point)


def _delivered(
    small: _Small, reduce: Callable[[DataFrame], DataFrame], record: type[Row]
) -> tuple[Row, ...]:
    if small.probes is None:
        return ()
    return _sorted(collect(_named(small, reduce(small.probes)), record))


def _comparisons(spark: SparkSession, small: _Small) -> tuple[Comparison, ...]:
    groups = collect(small.groups, measures.KeyedGroup)
    by_key = {group.group_key: group for group in groups}
    found = {(pair.value_key, pair.base_key): pair for pair in comparison.pairs(groups)}
    if not found:
        return ()
    pairs = table(spark, comparison.Pair, list(found.values()))
    rows = collect(
        comparison.comparisons(pairs, small.cells, small.buckets), comparison.KeyedComparison
    )
    told = [
        comparison.told(row, found[row.value_key, row.base_key], by_key[row.value_key])
        for row in rows
        if row.size > 0
    ]
    keys = ("scenario", "setting", "profile", "measure", "quantile", "n", "base", "value")
    return ordered(told, *keys, "parameters")


def _outliers(data: Dataset, small: _Small) -> tuple[Outlier, ...]:
    found = measures.named(outliers.outliers(data.incidents, small.runs, small.exact), small.groups)
    shown = [
        Outlier(
            **{name: getattr(row, name) for name in (*GROUP, "run_id", "incident_id", "seed")},
            n=row.size if row.size > 0 else None,
            total_s=row.total_s,
            beyond_s=row.beyond_s,
            command=command(row.group, row.size, row.seed),
        )
        for row in collect(found, _NamedOutlier)
    ]
    return tuple(sorted(shown, key=lambda row: (-row.total_s, row.run_id, row.incident_id)))


class _NamedOutlier(Grouped, frozen=True, kw_only=True):
    """An outlier with the columns of its group."""

    size: int
    run_id: str
    incident_id: str
    seed: int | None
    total_s: float
    beyond_s: float


def _sorted(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return rows sorted by group, measure, quantile and size."""
    laws = list(Law)

    def key(row: msgspec.Struct) -> tuple[object, ...]:
        measure, law, n = (getattr(row, name, None) for name in ("measure", "law", "n"))
        return (
            *(getattr(row, name, None) or "" for name in GROUP),
            MEASURES.index(measure) if measure else 0,
            getattr(row, "quantile", ""),
            -1 if n is None else n,
            laws.index(law) if law else 0,
            getattr(row, "after_s", 0.0),
            *(getattr(row, name, "") for name in ("link_class", "fault", "struck")),
        )

    return tuple(sorted(rows, key=key))
