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

Deaths enter: incidents with a time of failure, and those whose verdict is ``broker_failed``. A
phase that has begun and has no end is *open*, and was seen until the ring was whole, or else until
the run was over (``overlay.trace_schema.lasted``). A phase whose start nobody knows is left out.

Runs belong to a *group* (``groups``), and those of one size to a *cell* of it. The unit of all
statistics is the seed: incidents of one run are not independent of each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from overlay.trace_schema import PHASES, Phase, Source, Verdict
from spark.analysis.frames import expect
from spark.analysis.groups import Group
from spark.analysis.results import Counts, Facts
from spark.dataset.column_types import spark_schema

MESSAGES = "messages"
NUMBERS = (MESSAGES,)  #: measures that are no times
MEASURES = (*PHASES, *NUMBERS)
#: The total once more, to be counted finely: what a survival curve is made of.
CURVE = "curve"

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
    source: str
    seed: int | None
    duration_ns: int | None


_KEYED = list(KeyedRun.__struct_fields__)


class KeyedGroup(Group, frozen=True, kw_only=True):
    """A group and its key."""

    group_key: int


@dataclass(frozen=True, slots=True)
class Runs:
    """All runs: few, beside their incidents, and so they are here."""

    frame: DataFrame  #: rows of :class:`KeyedRun`
    rows: pa.Table  #: the same, with ``version``
    groups: Mapping[int, KeyedGroup]

    def columns(self, group_key: int, size: int) -> dict[str, Any]:
        """Return the columns of a cell: those of its group, and n."""
        return self.groups[group_key].columns() | {"n": None if size == UNKNOWN else size}


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One measure of one incident: nanoseconds, or a number.

    One that is not over has lasted so long at least; None: nobody knows how long it was seen.
    """

    group_key: int
    size: int
    unit: int
    measure: str
    value: int | None
    over: bool


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
    return expect(_keyed(runs), KeyedRun)


def runs_here(runs: DataFrame) -> Runs:
    """Bring runs here; what is made of them then reads no file again."""
    rank = fn.row_number().over(Window.partitionBy("group_key").orderBy("run_id"))
    group = fn.when(rank == 1, fn.struct(*GROUP[1:]))
    told = _keyed(runs).withColumn("group", group).select(*_KEYED, "version", "group.*")
    rows = told.toArrow().combine_chunks()
    named = rows.select(["group_key", *GROUP]).filter(pc.is_valid(rows.column("scenario")))
    rows = rows.select([*_KEYED, "version"])
    schema = spark_schema(KeyedRun)
    return Runs(
        frame=runs.sparkSession.createDataFrame(rows.select(_KEYED), schema),
        rows=rows,
        groups={row["group_key"]: KeyedGroup(**row) for row in named.to_pylist()},
    )


def _keyed(runs: DataFrame) -> DataFrame:
    unit = fn.when(fn.col("seed").isNull(), fn.xxhash64("run_id")).otherwise(fn.xxhash64("seed"))
    many = fn.count("*").over(Window.partitionBy(*CELL)) > MAX_UNITS
    keyed = grouped(runs).withColumn("unit", unit)
    pooled = fn.pmod("unit", fn.lit(MAX_UNITS).cast("long"))
    return keyed.withColumn("unit", fn.when(many, pooled).otherwise(unit))


def facts(runs: pa.Table, told: pa.Table) -> Facts:
    """Return ``results.Facts`` from ``Runs.rows`` and what ``load.check`` counted of incidents."""
    known = with_told(runs, told)
    is_simulated = pc.equal(known.column("source"), Source.SIMULATOR.value)
    incidents = pc.sum(told.column("rows")).as_py() or 0
    return Facts(
        runs=len(runs),
        simulated=pc.sum(is_simulated).as_py() or 0,
        live=pc.sum(pc.equal(known.column("source"), Source.LIVE.value)).as_py() or 0,
        seeds=pc.count_distinct(known.column("seed")).as_py(),
        versions=tuple(sorted(pc.unique(known.column("version")).to_pylist())),
        incidents=incidents,
        strays=incidents - (pc.sum(known.column("rows")).as_py() or 0),
        in_units=pc.sum(told.column("level")).as_py() or 0,
        with_records=pc.sum(told.column("records_lost")).as_py() or 0,
        bare=pc.sum(pc.and_(is_simulated, pc.is_null(known.column("rows")))).as_py() or 0,
    )


def counts(runs: Runs, told: pa.Table) -> list[Counts]:
    """Return a row a cell, also for those without incidents."""
    found = (
        with_told(runs.rows, told)
        .group_by(list(CELL))
        .aggregate(
            [
                ("run_id", "count"),
                ("seed", "count_distinct"),
                *((verdict.value, "sum") for verdict in Verdict),
            ]
        )
    )
    return [
        Counts(
            **runs.columns(row["group_key"], row["size"]),
            runs=row["run_id_count"],
            seeds=row["seed_count_distinct"],
            broker_failed=row["broker_failed_sum"] or 0,
            link_failed=row["link_failed_sum"] or 0,
            refuted=row["refuted_sum"] or 0,
            open=row["open_sum"] or 0,
        )
        for row in found.to_pylist()
    ]


def with_told(runs: pa.Table, told: pa.Table) -> pa.Table:
    """Return ``Runs.rows`` with what is told of each run's incidents; null where there are none."""
    return runs.join(told, "run_id", join_type="left outer")


def measured(
    incidents: DataFrame, runs: DataFrame, *, with_curve: bool = False, more: Sequence[Column] = ()
) -> DataFrame:
    """Return rows of :class:`Measured` from incidents and :class:`KeyedRun`.

    With the curve there is one row more of each incident, for ``CURVE``; and one for each of
    ``more``, which are made by :func:`row`.
    """
    failed = fn.col("verdict") == Verdict.BROKER_FAILED.value
    # Of a simulated run it is known that the broker lived where no time of failure is told.
    is_death = fn.col("failed_ns").isNotNull() | (fn.col("source") == Source.LIVE.value)
    rows = [_phase(name, phase, is_death) for name, phase in PHASES.items()]
    is_open = is_death & fn.col("repaired_ns").isNull()
    rows += [row(fn.lit(name), fn.col(name), ~is_open, fn.lit(True)) for name in NUMBERS]
    if with_curve:
        rows.append(_phase(CURVE, PHASES["total"], is_death))
    found = (
        incidents.where(failed | fn.col("failed_ns").isNotNull())
        .join(runs, "run_id", "inner")
        .select(*CELL, "unit", fn.inline(fn.array(*rows, *more)))
        .where("begun")
    )
    return expect(found, Measured)


def _phase(name: str, phase: Phase, is_death: Column) -> Column:
    start, end = fn.col(phase.start), fn.col(phase.end)
    whole = () if phase.end == "chords_repaired_ns" else ("repaired_ns",)
    seen = fn.coalesce(end, *whole, "duration_ns") - start
    begun = start.isNotNull() & (end.isNotNull() | is_death)
    value = fn.when(end.isNotNull(), seen).otherwise(fn.greatest(seen, fn.lit(0)))
    # The greatest of null and a number is the number.
    return row(fn.lit(name), fn.when(seen.isNotNull(), value), end.isNotNull(), begun)


def row(measure: Column, value: Column, over: Column, begun: Column) -> Column:
    """Return a row of :class:`Measured` of one incident, which is left out if it has not begun."""
    return fn.struct(
        measure.alias("measure"),
        value.cast("long").alias("value"),
        over.alias("over"),
        begun.alias("begun"),
    )
