"""Quantiles of recovery over the last hour or day: frame to frame, then one small row.

An incident that was not seen repaired is open. While it is younger than what a promise allows, it
says nothing of that promise; then its time is up, and it counts as one that never ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from overlay.trace_schema import MOMENTS, PHASES, Verdict
from spark.analysis.recovery import MESSAGES
from spark.watch.promise import MEASURES, PERCENTILES, RECOVERY, Promise

_NS_PER_S = 1e9


class Rolling(msgspec.Struct, frozen=True, kw_only=True):
    """What the window holds: failures, and per measure its statistics; None: not reached, or none.

    In the statistics of measures open incidents count as never ended, whatever their age.
    """

    fresh: int  #: incidents that were not put together, in the window or not
    incidents: int  #: of any verdict, as each broker saw them
    failures: int  #: confirmed deaths, each once however many brokers saw it
    refuted: int  #: suspicions that proved wrong
    measures: dict[str, dict[str, float | None]]
    open: int = 0  #: failures and suspicions that were not seen repaired, or decided
    promised: tuple[dict[str, float | None], ...] = ()  #: what each promise is judged by
    due_unix_ns: int | None = None  #: when the time of the next open incident is up, for a promise


@dataclass(frozen=True, slots=True)
class _Value:
    """A measure of an incident: what it took, and whether it has begun, is over, and since when."""

    took: Column
    is_open: Column
    begun_unix_ns: Column


def rolling(
    seen: DataFrame | None, since_unix_ns: int, now_unix_ns: int, promises: Sequence[Promise] = ()
) -> Rolling:
    """Return the statistics of the incidents that ended since then, as of now.

    ``seen`` has rows of ``source.Seen`` and the column ``fresh``. One pass over the rows; nothing
    comes here but the one row of results. All neighbours of a broker see it die: a failure lasts
    until the last of them is done with it, and costs what all of them send.
    """
    if seen is None:
        return Rolling(
            fresh=0,
            incidents=0,
            failures=0,
            refuted=0,
            measures=dict.fromkeys(MEASURES, _NOTHING),
            promised=(_NOTHING,) * len(promises),
        )
    inside = fn.col("ended_unix_ns") >= since_unix_ns
    verdict = fn.col("verdict")
    failed = inside & (verdict == Verdict.BROKER_FAILED.value)
    is_open = inside & verdict.isin(Verdict.BROKER_FAILED.value, Verdict.OPEN.value)
    refuted = inside & (verdict == Verdict.REFUTED.value)
    values = _values(failed, is_open)
    counts = {"fresh": fn.col("fresh"), "incidents": inside, "refuted": refuted}
    took = {
        measure: _of_all(measure, _never_ended(value, value.is_open))
        for measure, value in values.items()
    }
    dues = [fn.lit(None).cast("long")] * 2  # the least of one column is an error
    for at, promise in enumerate(promises):
        value = values[promise.measure]
        due = value.begun_unix_ns + round(promise.bound * _NS_PER_S)
        is_up = value.is_open & (due < now_unix_ns)
        took[f"promise_{at}"] = _of_all(promise.measure, _never_ended(value, is_up))
        dues.append(fn.min(fn.when(value.is_open & ~is_up, due)))
    each = seen.groupBy(fn.when(is_open, fn.col("incident_id")).alias("failure")).agg(
        *(fn.count_if(column).alias(name) for name, column in counts.items()),
        fn.bool_or(failed).alias("failed"),
        fn.bool_or(values[RECOVERY].is_open).alias("open"),
        *(column.alias(name) for name, column in took.items()),
        fn.least(*dues).alias("due"),
    )
    wanted = [
        *(fn.coalesce(fn.sum(name), fn.lit(0)).alias(name) for name in counts),
        fn.count_if("failed").alias("failures"),
        fn.count_if("open").alias("open"),
        fn.min("due").alias("due"),
    ]
    for name in took:
        wanted += _wanted(name, fn.col(name))
    row = each.agg(*wanted).collect()[0].asDict()
    return Rolling(
        fresh=row["fresh"],
        incidents=row["incidents"],
        failures=row["failures"],
        refuted=row["refuted"],
        open=row["open"],
        measures={measure: _told(_statistics(row, measure)) for measure in MEASURES},
        promised=tuple(_statistics(row, f"promise_{at}") for at in range(len(promises))),
        due_unix_ns=row["due"],
    )


_NOTHING: dict[str, float | None] = {**dict.fromkeys((*PERCENTILES, "mean", "max")), "count": 0}


def _values(failed: Column, is_open: Column) -> Mapping[str, _Value]:
    """Return each measure of an incident, in seconds or messages.

    A live broker does not know when another died. For it, recovery begins with the suspicion.
    """
    last = fn.greatest("failed_ns", *MOMENTS)  # nulls are passed over
    spans = {
        phase: (fn.col(told.start), fn.col(told.end))
        for phase, told in PHASES.items()
        if phase in MEASURES
    }
    spans[RECOVERY] = fn.coalesce("failed_ns", "suspected_ns"), fn.col("repaired_ns")
    found = {}
    for measure, (start, end) in spans.items():
        # What was repaired without it has no such phase any more.
        is_missing = end.isNull() & fn.col("repaired_ns").isNull()
        if measure == "chords":
            is_missing = end.isNull() & fn.col("failed_ns").isNotNull()
        found[measure] = _Value(
            took=fn.when(failed, (end - start) / _NS_PER_S),
            is_open=is_open & start.isNotNull() & is_missing,
            begun_unix_ns=fn.col("ended_unix_ns") - (last - start),
        )
    found[MESSAGES] = _Value(
        took=fn.when(failed, fn.col(MESSAGES).cast("double")),
        is_open=fn.lit(False),
        begun_unix_ns=fn.lit(None).cast("long"),
    )
    return found


def _of_all(measure: str, value: Column) -> Column:
    """Return what a failure took, of what each broker that saw it has measured."""
    return fn.sum(value) if measure == MESSAGES else fn.max(value)


def _never_ended(value: _Value, which: Column) -> Column:
    return fn.when(which, fn.lit(math.inf)).otherwise(value.took)


def _wanted(name: str, value: Column) -> list[Column]:
    return [
        fn.percentile(value, list(PERCENTILES.values())).alias(f"{name}_at"),
        fn.avg(value).alias(f"{name}_mean"),
        fn.max(value).alias(f"{name}_max"),
        fn.count(value).alias(f"{name}_count"),
    ]


def _statistics(row: Mapping[str, object], measure: str) -> dict[str, float | None]:
    at = row[f"{measure}_at"]
    found = list(at) if isinstance(at, list) else [None] * len(PERCENTILES)
    rest = {name: row[f"{measure}_{name}"] for name in ("mean", "max", "count")}
    return msgspec.convert(
        {**dict(zip(PERCENTILES, found, strict=True)), **rest}, dict[str, float | None]
    )


def _told(statistics: Mapping[str, float | None]) -> dict[str, float | None]:
    return {
        name: value if value is not None and math.isfinite(value) else None
        for name, value in statistics.items()
    }
