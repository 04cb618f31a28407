"""Quantiles of recovery over the last hour or day: frame to frame, then one small row."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from overlay.trace_schema import Verdict
from spark.analysis.recovery import MESSAGES, PHASES
from spark.watch.promise import MEASURES, PERCENTILES, RECOVERY


class Rolling(msgspec.Struct, frozen=True, kw_only=True):
    """What the window holds: failures, and per measure its statistics; None: nothing to measure."""

    fresh: int  #: incidents that were not put together, in the window or not
    incidents: int  #: of any verdict
    failures: int  #: confirmed deaths, which are what is measured
    refuted: int  #: suspicions that proved wrong
    measures: dict[str, dict[str, float | None]]


def rolling(seen: DataFrame | None, since_unix_ns: int) -> Rolling:
    """Return the statistics of the incidents that ended since then.

    ``seen`` has rows of ``source.Seen`` and the column ``fresh``. One pass over the rows; nothing
    comes here but the one row of results.
    """
    if seen is None:
        nothing: dict[str, float | None] = {
            **dict.fromkeys((*PERCENTILES, "mean", "max")),
            "count": 0,
        }
        measures = dict.fromkeys(MEASURES, nothing)
        return Rolling(fresh=0, incidents=0, failures=0, refuted=0, measures=measures)
    inside = fn.col("ended_unix_ns") >= since_unix_ns
    failed = inside & (fn.col("verdict") == Verdict.BROKER_FAILED.value)
    values = {measure: fn.when(failed, column) for measure, column in _values().items()}
    shares = list(PERCENTILES.values())
    wanted = [
        fn.count_if("fresh").alias("fresh"),
        fn.count_if(inside).alias("incidents"),
        fn.count_if(failed).alias("failures"),
        fn.count_if(inside & (fn.col("verdict") == Verdict.REFUTED.value)).alias("refuted"),
    ]
    for measure, value in values.items():
        wanted += [
            fn.percentile(value, shares).alias(f"{measure}_at"),
            fn.avg(value).alias(f"{measure}_mean"),
            fn.max(value).alias(f"{measure}_max"),
            fn.count(value).alias(f"{measure}_count"),
        ]
    row = seen.agg(*wanted).collect()[0].asDict()
    return Rolling(
        fresh=row["fresh"],
        incidents=row["incidents"],
        failures=row["failures"],
        refuted=row["refuted"],
        measures={measure: _statistics(row, measure) for measure in MEASURES},
    )


def _values() -> Mapping[str, Column]:
    """Return each measure of an incident, in seconds or messages.

    A live broker does not know when another died. For it, recovery begins with the suspicion.
    """
    begun = fn.coalesce("failed_ns", "suspected_ns")
    spans = {
        phase: fn.col(end) - fn.col(start)
        for phase, (start, end) in PHASES.items()
        if phase in MEASURES
    }
    spans[RECOVERY] = fn.col("repaired_ns") - begun
    seconds = {phase: span / 1e9 for phase, span in spans.items()}
    return {**seconds, MESSAGES: fn.col(MESSAGES).cast("double")}


def _statistics(row: Mapping[str, object], measure: str) -> dict[str, float | None]:
    at = row[f"{measure}_at"]
    found = list(at) if isinstance(at, list) else [None] * len(PERCENTILES)
    rest = {name: row[f"{measure}_{name}"] for name in ("mean", "max", "count")}
    return msgspec.convert(
        {**dict(zip(PERCENTILES, found, strict=True)), **rest}, dict[str, float | None]
    )
