"""Exact quantiles of any number of values, with bounded memory, in two passes.

The first pass counts values in *buckets*, each about half a per cent wide, and those that are not
over in the bucket in which they were seen last. So one knows in which bucket the value of each rank
is (``ranks``), which is found out here and not in Spark. The second pass looks only at the values
of these few buckets, and of these only at the ranks that are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

import msgspec
import numpy as np
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from spark.analysis.frames import collect, expect, table
from spark.analysis.ranks import Places, Reals, between, locate
from spark.analysis.recovery import CELL, CURVE

#: Column -> the quantile it holds.
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}

_PER_DOUBLING = 128  #: buckets each time a value doubles
_SCALE = _PER_DOUBLING / math.log(2)
_KEY = (*CELL, "measure")
NS_PER_MS = 10**6

Key = tuple[int, int, str]  #: group, size, measure


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """The values of one cell and measure in one bucket; None: those that may never be over."""

    group_key: int
    size: int
    measure: str
    bucket: int | None
    over: int
    still: int
    total: float | None  #: of those that are over, as are least and most
    least: int | None
    most: int | None


class CellQuantiles(msgspec.Struct, frozen=True, kw_only=True):
    """A measure in a cell; a quantile is None where it is not reached."""

    group_key: int
    size: int
    measure: str
    count: int  #: values that are over
    open: int
    mean: float | None  #: None if something is open, as is ``max``
    max: float | None
    least: float | None  #: of those that are over, as ``most``
    most: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    p999: float | None


@dataclass(frozen=True, slots=True)
class Counts:
    """The buckets of one cell and measure, in order; the last may be without a number."""

    numbers: tuple[int | None, ...]
    over: Reals
    still: Reals
    least: Reals
    most: Reals
    total: float


class _Rank(msgspec.Struct, frozen=True, kw_only=True):
    """A value that is asked for: the one of this rank in its bucket."""

    group_key: int
    size: int
    measure: str
    bucket: int
    rank: int


class _Found(_Rank, frozen=True, kw_only=True):
    value: int


def bucket(value: str) -> Column:
    """Return the bucket of a value: it never falls while the value grows."""
    column = fn.col(value)
    width = fn.floor(fn.log1p(fn.abs(column).cast("double")) * _SCALE)
    return fn.when(column < 0, -width).otherwise(width).cast("long")


def bucket_of(value: float) -> int:
    """Return the bucket of one value."""
    width = math.floor(math.log1p(abs(value)) * _SCALE)
    return -width if value < 0 else width


def buckets(measured: DataFrame, *more: str) -> DataFrame:
    """Return rows of :class:`Bucket` from those of ``recovery.Measured``, and by ``more`` columns.

    Measures in ``recovery.CURVE`` are counted by the millisecond, and not by unit.
    """
    is_curve = fn.col("measure") == CURVE
    place = fn.when(is_curve, fn.ceil(fn.col("value") / NS_PER_MS)).otherwise(bucket("value"))
    placed = measured.withColumn("bucket", place)
    if "unit" in more:
        none = fn.lit(0).cast("long")
        placed = placed.withColumn("unit", fn.when(is_curve, none).otherwise(fn.col("unit")))
    return placed.groupBy(*_KEY, *more, "bucket").agg(*sums())


def sums() -> list[Column]:
    """Return what is counted in a :class:`Bucket`."""
    over = fn.when(fn.col("over"), fn.col("value"))
    return [
        fn.count_if("over").alias("over"),
        fn.count_if(~fn.col("over")).alias("still"),
        fn.sum(over.cast("double")).alias("total"),
        fn.min(over).alias("least"),
        fn.max(over).alias("most"),
    ]


def counts(rows: DataFrame) -> dict[Key, Counts]:
    """Bring rows of :class:`Bucket` here, by cell and measure."""
    return counts_of(collect(expect(rows, Bucket), Bucket))


def counts_of(rows: Iterable[Bucket]) -> dict[Key, Counts]:
    """Return rows by cell and measure."""
    found = sorted(rows, key=lambda row: (*_key(row), row.bucket is None, row.bucket or 0))
    return {key: _counts(list(alike)) for key, alike in groupby(found, key=_key)}


def _key(row: Bucket | _Rank) -> Key:
    return row.group_key, row.size, row.measure


def _counts(rows: list[Bucket]) -> Counts:
    def column(values: Iterable[float]) -> Reals:
        return np.array(list(values), dtype=np.float64)

    return Counts(
        numbers=tuple(row.bucket for row in rows),
        over=column(row.over for row in rows),
        still=column(row.still for row in rows),
        least=column(row.least or 0 for row in rows),
        most=column(row.most or 0 for row in rows),
        total=sum(row.total or 0.0 for row in rows),
    )


def cell_quantiles(measured: DataFrame, known: Mapping[Key, Counts]) -> list[CellQuantiles]:
    """Return the quantiles of each cell and measure, in the units of the values.

    Args:
        measured: Rows of ``recovery.Measured``; they are read again where values are asked for.
        known: Their counts.
    """
    places = {
        (key, name): locate(own.over[None, :], own.still[None, :], share)
        for key, own in known.items()
        for name, share in QUANTILES.items()
    }
    asked: dict[_Rank, float | None] = {}
    for (key, _), place in places.items():
        for rank in _ranks(key, known[key], place):
            asked[rank] = _at_an_end(known[key], rank)
    unknown = [rank for rank, value in asked.items() if value is None]
    values = {rank: value for rank, value in asked.items() if value is not None}
    values |= _exact(measured, unknown)
    return [_cell(key, own, places, values) for key, own in known.items()]


def _ranks(key: Key, own: Counts, place: Places) -> Iterable[_Rank]:
    """Yield the values between which a quantile lies, if it is reached."""
    if not np.isfinite(place.part[0]):
        return
    group_key, size, measure = key
    for at, rank in ((place.low, place.low_rank), (place.high, place.high_rank)):
        number = own.numbers[int(at[0])]
        if number is not None:
            yield _Rank(
                group_key=group_key,
                size=size,
                measure=measure,
                bucket=number,
                rank=int(rank[0]),
            )


def _at_an_end(own: Counts, rank: _Rank) -> float | None:
    """Return the value of a rank if it is the first or the last of its bucket, or all are alike."""
    at = own.numbers.index(rank.bucket)
    if rank.rank == 0 or own.least[at] == own.most[at]:
        return float(own.least[at])
    return float(own.most[at]) if rank.rank == own.over[at] - 1 else None


def _exact(measured: DataFrame, asked: list[_Rank]) -> dict[_Rank, float]:
    """Read the values of some ranks."""
    if not asked:
        return {}
    place = [*_KEY, "bucket"]
    until = (
        Window.partitionBy(*place)
        .orderBy("value")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    ranks = fn.broadcast(table(measured.sparkSession, _Rank, asked))
    ranked = (
        measured.where("over")
        .withColumn("bucket", bucket("value"))
        .join(fn.broadcast(ranks.select(*place).distinct()), place, "left_semi")
        .groupBy(*place, "value")
        .count()
        .withColumn("after", fn.sum("count").over(until))
    )
    inside = (fn.col("rank") < fn.col("after")) & (
        fn.col("rank") >= fn.col("after") - fn.col("count")
    )
    found = ranked.join(ranks, place, "inner").where(inside)
    return {
        _Rank(
            group_key=row.group_key,
            size=row.size,
            measure=row.measure,
            bucket=row.bucket,
            rank=row.rank,
        ): float(row.value)
        for row in collect(found, _Found)
    }


def _cell(
    key: Key,
    own: Counts,
    places: Mapping[tuple[Key, str], Places],
    values: Mapping[_Rank, float],
) -> CellQuantiles:
    found: dict[str, float | None] = {}
    for name in QUANTILES:
        place = places[key, name]
        ends = [values[rank] for rank in _ranks(key, own, place)]
        found[name] = (
            float(between(np.array(ends[:1]), np.array(ends[1:]), place.part)[0]) if ends else None
        )
    count, still = int(own.over.sum()), int(own.still.sum())
    seen = own.over > 0
    least, most = (
        (float(own.least[seen].min()), float(own.most[seen].max())) if count else (None, None)
    )
    group_key, size, measure = key
    return CellQuantiles(
        group_key=group_key,
        size=size,
        measure=measure,
        count=count,
        open=still,
        mean=own.total / count if count and not still else None,
        max=None if still else most,
        least=least,
        most=most,
        **found,
    )
