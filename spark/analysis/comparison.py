"""Groups that differ in one setting, compared: by how much, how surely, and how visibly.

Where two groups were run with the same seeds, each replicate draws the same seeds of both
(``replicates``), so their differences are those of pairs.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import msgspec
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from spark.analysis.frames import expect
from spark.analysis.groups import settings
from spark.analysis.recovery import MESSAGES, KeyedGroup
from spark.analysis.replicates import high, low
from spark.analysis.results import Comparison

COMPARED = ("total", MESSAGES)
QUANTILES = ("p50", "p99")
MAX_VALUES = 12  #: of one setting; with more, only the first are compared
_AT = ("value_key", "base_key", "size", "measure")


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two groups that differ in one setting."""

    value_key: int
    base_key: int
    setting: str
    value: str
    base: str


class KeyedComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A ``results.Comparison`` before it has the columns of its group, and its words."""

    value_key: int
    base_key: int
    size: int
    measure: str
    quantile: str
    value_at: float
    base_at: float
    difference: float
    difference_low: float | None
    difference_high: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    effect: float


def pairs(groups: Iterable[KeyedGroup]) -> list[Pair]:
    """Return all pairs of groups that differ in one setting, the profile being one too."""
    told = [
        (group, {**settings(group.parameters), "profile": group.profile})
        for group in groups
        if group.parameters is not None
    ]
    families: dict[tuple[object, ...], list[tuple[str, int]]] = {}
    for group, own in told:
        for key, value in own.items():
            others = tuple(sorted((k, v) for k, v in own.items() if k != key))
            family = (group.source, group.scenario, key, others)
            families.setdefault(family, []).append((value, group.group_key))
    found = []
    for (_, _, setting, _), members in families.items():
        ranked = sorted(members, key=lambda member: _order(member[0]))[:MAX_VALUES]
        found += [
            Pair(value_key=key, base_key=base_key, setting=str(setting), value=value, base=base)
            for (base, base_key), (value, key) in combinations(ranked, 2)
        ]
    return found


def _order(value: str) -> tuple[float, str]:
    """Sort numbers by size, and texts behind them."""
    try:
        return float(value), value
    except ValueError:
        return float("inf"), value


def comparisons(pairs: DataFrame, cells: DataFrame, buckets: DataFrame) -> DataFrame:
    """Return rows of :class:`KeyedComparison`.

    Args:
        pairs: Rows of :class:`Pair`.
        cells: Quantiles in the units of people, with the arrays of replicates ``p50s`` and
            ``p99s`` as differences from them.
        buckets: Rows of ``quantiles.Bucket``.
    """
    compared = cells.where(fn.col("measure").isin(*COMPARED) & fn.col("p50").isNotNull())
    sides = [_side(compared, name) for name in ("value", "base")]
    keys = pairs.select("value_key", "base_key")
    both = (
        sides[0]
        .join(fn.broadcast(keys), "value_key", "inner")
        .join(sides[1], ["base_key", "size", "measure"], "inner")
    )
    each = both.select(*_AT, fn.inline(fn.array(*(_compared(name) for name in QUANTILES))))
    ends = {
        f"{name}_{end}": fn.col(name) + pick(f"{name}s")
        for name in ("difference", "ratio")
        for end, pick in (("low", low), ("high", high))
    }
    rows = each.withColumns(ends).join(_effects(keys, buckets), list(_AT), "inner")
    return expect(rows, KeyedComparison)


def _side(cells: DataFrame, name: str) -> DataFrame:
    columns = [
        fn.col(column).alias(f"{name}_{column}") for at in QUANTILES for column in (at, f"{at}s")
    ]
    return cells.select(fn.col("group_key").alias(f"{name}_key"), "size", "measure", *columns)


def _compared(quantile: str) -> Column:
    value, base = fn.col(f"value_{quantile}"), fn.col(f"base_{quantile}")
    drawn = (fn.col(f"value_{quantile}s"), fn.col(f"base_{quantile}s"))
    # Replicates are as many on both sides, or none on one.
    whole = (fn.size(drawn[0]) > 0) & (fn.size(drawn[1]) > 0)

    def ratio(a: Column, b: Column) -> Column:
        return fn.try_divide(value + a, base + b) - fn.try_divide(value, base)

    differences = fn.zip_with(drawn[0], drawn[1], lambda a, b: a - b)
    ratios = fn.zip_with(drawn[0], drawn[1], ratio)
    none = fn.array().cast("array<double>")
    return fn.struct(
        fn.lit(quantile).alias("quantile"),
        value.alias("value_at"),
        base.alias("base_at"),
        (value - base).alias("difference"),
        fn.try_divide(value, base).alias("ratio"),
        fn.when(whole, differences).otherwise(none).alias("differences"),
        fn.when(whole, ratios).otherwise(none).alias("ratios"),
    )


def _effects(keys: DataFrame, buckets: DataFrame) -> DataFrame:
    """Return Cliff's delta of each pair: values in one bucket count as equal."""
    closed = buckets.where(fn.col("bucket").isNotNull() & fn.col("measure").isin(*COMPARED))
    nothing = fn.lit(0).cast("long")
    sides = [
        closed.withColumnRenamed("group_key", side)
        .join(fn.broadcast(keys), side, "inner")
        .select(*_AT, "bucket", *columns)
        for side, columns in (
            ("value_key", (fn.col("count").alias("value"), nothing.alias("base"))),
            ("base_key", (nothing.alias("value"), fn.col("count").alias("base"))),
        )
    ]
    joint = (
        sides[0]
        .unionByName(sides[1])
        .groupBy(*_AT, "bucket")
        .agg(fn.sum("value").alias("value"), fn.sum("base").alias("base"))
    )
    until = (
        Window.partitionBy(*_AT)
        .orderBy("bucket")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    # Below a value are all before its bucket; above it, all after.
    whole = fn.sum("base").over(Window.partitionBy(*_AT))
    return (
        joint.withColumns({"upto": fn.sum("base").over(until), "whole": whole})
        .withColumn("below", fn.col("upto") - fn.col("base"))
        .withColumn("above", fn.col("whole") - fn.col("upto"))
        .groupBy(*_AT)
        .agg(
            fn.sum(fn.col("value").cast("double") * (fn.col("below") - fn.col("above"))).alias(
                "won"
            ),
            (fn.sum("value").cast("double") * fn.sum("base")).alias("met"),
        )
        # None meet where a size was measured of one group only.
        .select(*_AT, fn.try_divide("won", "met").alias("effect"))
    )


def in_words(row: KeyedComparison, pair: Pair) -> str:
    """Return a sentence: what the setting does, and whether that is sure."""
    what = {"total": "recovery time", MESSAGES: "messages per incident"}[row.measure]
    place = f"{what} ({row.quantile}, n = {row.size:,})"
    value, base = (f"{pair.setting} {name}" for name in (pair.value, pair.base))
    if row.ratio is None:
        return f"{value} and {base}: {place} {row.value_at:.3g} and {row.base_at:.3g}"
    if row.ratio_low is None or row.ratio_high is None:
        return f"{value} has {row.ratio:.2f} times the {place} of {base}; one seed says no more"
    interval = f"95 % interval {row.ratio_low:.2f} to {row.ratio_high:.2f}"
    if row.ratio_low <= 1 <= row.ratio_high:
        return (
            f"{value} and {base} cannot be told apart by {place}: ratio {row.ratio:.2f}, {interval}"
        )
    more = "more" if row.ratio > 1 else "less"
    return (
        f"{value} has {abs(row.ratio - 1):.0%} {more} {place} than {base} "
        f"(ratio {row.ratio:.2f}, {interval}; {_size(row.effect)} effect)"
    )


def _size(effect: float) -> str:
    """Return Cliff's delta in the usual words (Romano et al., 2006)."""
    for bound, word in ((0.147, "negligible"), (0.33, "small"), (0.474, "medium")):
        if abs(effect) < bound:
            return word
    return "large"


def told(row: KeyedComparison, pair: Pair, group: KeyedGroup) -> Comparison:
    """Return the row with the columns of its group, and its words."""
    own = {name: getattr(row, name) for name in row.__struct_fields__ if not name.endswith("_key")}
    return Comparison(
        source=group.source,
        scenario=group.scenario,
        profile=group.profile,
        parameters=group.parameters,
        setting=pair.setting,
        value=pair.value,
        base=pair.base,
        n=own.pop("size"),
        words=in_words(row, pair),
        **own,
    )
