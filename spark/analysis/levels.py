"""Recovery by level: of the ring, and of the units that a death concerns; and records that it cost.

A death concerns the cluster of the dead broker (level 1), and each unit whose steward it was: a
super-cluster (2), a super-super-cluster (3), the whole overlay (4). Of a death the highest level
counts. Runs without units, and live brokers, do not tell a level.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as fn

from spark.analysis.quantiles import CellQuantiles, Key
from spark.analysis.recovery import CELL, NS_PER_S, Runs, row, with_told
from spark.analysis.results import Level, Records

LEVELS = (1, 2, 3, 4)
RING, UNITS = "ring", "units"
RECORDS = ("records_lost", "costly", "lost")  #: columns that ``load.check`` has counted
#: What is whole again -> the column that says when.
_ENDS = {RING: "repaired_ns", UNITS: "units_repaired_ns"}


def rows() -> list[Column]:
    """Return what ``recovery.measured`` is to measure: how long ring and units were not whole."""
    return [_row(what) for what in _ENDS]


def by_level(runs: Runs, took: Mapping[Key, CellQuantiles]) -> Iterator[Level]:
    """Yield a row for each cell and level, of the quantiles of :func:`rows`."""
    for group, size in dict.fromkeys((group, size) for group, size, _ in took):
        for level in LEVELS:
            ring, units = (took.get((group, size, _measure(what, level))) for what in _ENDS)
            if ring is None or units is None:
                continue
            yield Level(
                **runs.columns(group, size),
                level=level,
                failures=ring.count + ring.open,
                ring_open=ring.open,
                ring_p50_s=_seconds(ring.p50),
                ring_p99_s=_seconds(ring.p99),
                ring_max_s=_seconds(ring.max),
                units_open=units.open,
                units_p50_s=_seconds(units.p50),
                units_p99_s=_seconds(units.p99),
                units_max_s=_seconds(units.max),
            )


def records(runs: Runs, told: pa.Table) -> list[Records]:
    """Return a row for each cell whose brokers own records.

    ``told`` is what ``load.check`` counted of incidents.
    """
    found = with_told(runs.rows, told).group_by(list(CELL)).aggregate([(n, "sum") for n in RECORDS])
    return [
        Records(
            **runs.columns(row["group_key"], row["size"]),
            failures=row["records_lost_sum"],
            costly=row["costly_sum"],
            lost=row["lost_sum"],
        )
        for row in found.to_pylist()
        if row["records_lost_sum"]
    ]


def _measure(what: str, level: int) -> str:
    return f"{what} {level}"


def _row(what: str) -> Column:
    end, failed = fn.col(_ENDS[what]), fn.col("failed_ns")
    return row(
        fn.concat_ws(" ", fn.lit(what), fn.col("level")),
        fn.greatest(fn.coalesce(end, "duration_ns") - failed, fn.lit(0)),
        end.isNotNull(),
        failed.isNotNull() & fn.col("level").isNotNull(),
    )


def _seconds(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / NS_PER_S
