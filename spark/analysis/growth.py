"""How a measure grows with the size of the ring: five laws, fitted and weighed.

For each group, measure and quantile (p50 and p99), each law is fitted by least squares to the
quantiles of the sizes. A size weighs 1 / s^2, where s is the standard error of its quantile by the
bootstrap over seeds (``replicates``). As few seeds tell little of s, half of s^2 is that of the
size itself and half what all sizes have in common, in proportion to the quantile.

The information criterion of a law with k parameters is D / c + 2 k. D is its deviance, the weighted
sum of squares. c is 1, or the deviance of the best law for each degree of freedom if that is more:
no law is the whole truth, and with many seeds the smallest departure would refute them all. With
one seed s is not known, and the criterion is Akaike's for an unknown variance: m log D + 2 k.

Each replicate is fitted as well, with the same weights. So there is a share of replicates for each
law, and an interval for what it predicts.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from spark.analysis.frames import expect
from spark.analysis.results import Law

FITTED = ("p50", "p99")  #: the quantiles whose growth is asked for
#: No quantile is taken to be known better than this share of it.
_FINEST = 1e-4
_KEY = ("group_key", "measure", "quantile")
_PARAMETERS = {law: 1 if law is Law.CONSTANT else 2 for law in Law}


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A quantile at one size: of the data (replicate 0), or of a replicate."""

    group_key: int
    measure: str
    quantile: str
    size: int
    replicate: int
    value: float


class KeyedFit(msgspec.Struct, frozen=True, kw_only=True):
    """A ``results.Fit`` before it has the columns of its group."""

    group_key: int
    measure: str
    quantile: str
    law: str
    sizes: int
    n_min: int
    n_max: int
    mean: float
    intercept: float
    slope: float
    intercept_variance: float | None
    slope_variance: float | None
    covariance: float | None
    deviance: float
    criterion: float
    share: float | None
    change: float
    change_low: float | None
    change_high: float | None


def law_of(law: Law, n: Column) -> Column:
    """Return a law's function of n."""
    functions: Mapping[Law, Column] = {
        Law.CONSTANT: fn.lit(0.0),
        Law.LOG: fn.log2(n),
        Law.LOG_SQUARED: fn.pow(fn.log2(n), fn.lit(2.0)),
        Law.SQRT: fn.sqrt(n),
        Law.LINEAR: n.cast("double"),
    }
    return functions[law]


def fits(points: DataFrame) -> DataFrame:
    """Return rows of :class:`KeyedFit` from those of :class:`Point`: five a measure and quantile.

    Points of one replicate need not be there for all sizes: a replicate is used if they are.
    """
    weighted = _weighted(points)
    solved = _solved(weighted)
    judged = _with_criteria(solved)
    return expect(_summed_up(judged), KeyedFit)


def _weighted(points: DataFrame) -> DataFrame:
    """Add each size's weight, and whether it comes from replicates."""
    cell = Window.partitionBy(*_KEY, "size")
    drawn = fn.when(fn.col("replicate") > 0, fn.col("value"))
    own = fn.max(fn.when(fn.col("replicate") == 0, fn.col("value"))).over(cell)
    spread = points.withColumn("own", own).withColumn("s", fn.stddev_samp(drawn).over(cell))
    whole = Window.partitionBy(*_KEY)
    relative = fn.when(fn.col("own") != 0, fn.pow(fn.col("s") / fn.col("own"), fn.lit(2.0)))
    pooled = fn.avg(relative).over(whole)
    known = fn.coalesce(pooled.isNotNull(), fn.lit(False))
    common = fn.coalesce(pooled, fn.lit(0.0)) * fn.pow("own", fn.lit(2.0))
    finest = fn.pow(fn.abs("own") * _FINEST, fn.lit(2.0)) + 1e-18
    mixed = (fn.coalesce(fn.pow("s", fn.lit(2.0)), common) + common) / 2
    weight = fn.when(known, 1 / fn.greatest(mixed, finest)).otherwise(fn.lit(1.0))
    return spread.withColumns({"known": known, "weight": weight})


def _solved(weighted: DataFrame) -> DataFrame:
    """Fit all laws to each replicate: one row a replicate and law."""
    n, w, y = fn.col("size"), fn.col("weight"), fn.col("value")
    sums = {"w": fn.sum("weight"), "y": fn.sum(w * y), "yy": fn.sum(w * y * y)}
    for law in Law:
        x = law_of(law, n)
        at = law.name.lower()
        sums |= {f"x_{at}": fn.sum(w * x), f"xx_{at}": fn.sum(w * x * x)}
        sums |= {f"xy_{at}": fn.sum(w * x * y)}
    summed = weighted.groupBy(*_KEY, "replicate").agg(
        fn.count("*").alias("sizes"),
        fn.min("size").alias("n_min"),
        fn.max("size").alias("n_max"),
        fn.bool_and("known").alias("known"),
        *(column.alias(name) for name, column in sums.items()),
    )
    all_sizes = fn.max("sizes").over(Window.partitionBy(*_KEY))
    each = fn.inline(fn.array(*(_solution(law) for law in Law)))
    return (
        summed.withColumn("all_sizes", all_sizes)
        .where("sizes = all_sizes")
        .select(*_KEY, "replicate", "sizes", "n_min", "n_max", "known", each)
    )


def _solution(law: Law) -> Column:
    at = law.name.lower()
    w, y = fn.col("w"), fn.col("y")
    x, xx, xy = (fn.col(f"{name}_{at}") for name in ("x", "xx", "xy"))
    spread, joint = xx - x * x / w, xy - x * y / w
    # With one size no slope can be told; the constant has none.
    slope = fn.when(spread > 1e-12 * xx, joint / spread).otherwise(0.0)
    left = fn.greatest(fn.col("yy") - y * y / w - slope * joint, fn.lit(0.0))
    rise = law_of(law, fn.col("n_max")) - law_of(law, fn.col("n_min"))
    mean = y / w
    return fn.struct(
        fn.lit(law.value).alias("law"),
        fn.lit(_PARAMETERS[law]).alias("parameters"),
        mean.alias("mean"),
        ((y - slope * x) / w).alias("intercept"),
        slope.alias("slope"),
        left.alias("deviance"),
        fn.coalesce(slope * rise / fn.nullif(mean, fn.lit(0.0)), fn.lit(0.0)).alias("change"),
    )


def _with_criteria(solved: DataFrame) -> DataFrame:
    """Add the criterion; its constant c is that of the data, for replicates too."""
    whole = Window.partitionBy(*_KEY)
    freedom = fn.greatest(fn.col("sizes") - fn.col("parameters"), fn.lit(1))
    each = fn.when(fn.col("replicate") == 0, fn.col("deviance") / freedom)
    inflated = fn.greatest(fn.min(each).over(whole), fn.lit(1.0))
    # Rounding leaves a perfect fit about this much; less is no evidence.
    floor = 1e-12 * fn.greatest(fn.pow("mean", fn.lit(2.0)), fn.lit(1e-12))
    log = fn.col("sizes") * fn.log(fn.greatest(fn.col("deviance"), floor))
    fit = fn.when(fn.col("known"), fn.col("deviance") / inflated).otherwise(log)
    return solved.withColumn("criterion", fit + 2 * fn.col("parameters"))


def _summed_up(judged: DataFrame) -> DataFrame:
    """Return one row a law: its fit to the data, and what the replicates say of it."""
    ranked = Window.partitionBy(*_KEY, "replicate").orderBy("criterion", "parameters", "law")
    best = judged.withColumn("best", fn.row_number().over(ranked) == 1)
    of_data, drawn = fn.col("replicate") == 0, fn.col("replicate") > 0
    kept = ("sizes", "n_min", "n_max", "mean", "intercept", "slope", "deviance", "criterion")
    slope, intercept = (fn.when(drawn, fn.col(name)) for name in ("slope", "intercept"))
    ends = fn.percentile(fn.when(drawn, fn.col("change")), [0.025, 0.975])
    return (
        best.groupBy(*_KEY, "law")
        .agg(
            *(fn.max(fn.when(of_data, fn.col(name))).alias(name) for name in (*kept, "change")),
            fn.var_samp(intercept).alias("intercept_variance"),
            fn.var_samp(slope).alias("slope_variance"),
            fn.covar_samp(slope, intercept).alias("covariance"),
            fn.avg(fn.when(drawn, fn.col("best").cast("double"))).alias("share"),
            ends.alias("ends"),
        )
        .withColumns({"change_low": fn.col("ends")[0], "change_high": fn.col("ends")[1]})
    )
