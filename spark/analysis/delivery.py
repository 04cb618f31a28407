"""What became of events: delivered, lost, late, twice; and how long each kind of fault interrupts.

The rows are probes (``docs/traces.md``): one for each event and each subscriber that was owed it.
An *interruption* is seen by one flow, from a publisher to a subscriber over one class of links: the
longest time between two events that came one after the other, of which the second is near a fault
and came after it. Between events of a flow that is not interrupted there is the *usual gap*.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import NormalDist
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from spark.analysis.frames import expect
from spark.analysis.groups import Grouped
from spark.analysis.quantiles import CellQuantiles, Key
from spark.analysis.recovery import CELL, NS_PER_S, Measured, Runs
from spark.analysis.replicates import CONFIDENCE

_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
_CLASS = (*CELL, "link_class")
#: Field of :class:`Events` -> the column in which ``load.check`` has counted it.
_COUNTED = {"events": "rows"} | {
    name: name for name in ("once", "lost", "unexplained", "late", "twice", "disordered")
}
_STRUCK = "struck"
_APART, _LATENCY, _USUAL, _BROKEN = "\n", "latency", "usual", "broken"
_FLOW = ("run_id", "publisher", "link_class", "subscriber")


class Delivery(Grouped, frozen=True, kw_only=True):
    """What became of the events of one class of links, in a cell."""

    n: int | None
    link_class: str
    events: int
    once_share: float
    lost: int
    lost_share: float
    lost_low: float | None  #: the 95 % interval, over seeds
    lost_high: float | None
    unexplained: int  #: lost, although nothing excuses it
    late: int
    twice: int
    disordered: int
    p50_s: float | None  #: to the subscriber, of all events; None: so many were lost
    p99_s: float | None
    max_s: float | None  #: None where one was lost


class Interruption(Grouped, frozen=True, kw_only=True):
    """How long flows of one class of links were interrupted by one kind of fault, in a cell."""

    n: int | None
    link_class: str
    fault: str
    struck: str  #: whom it befell: the broker of the ``publisher``, ``subscriber``, or ``other``
    flows: int  #: a flow counts once for each fault near it
    silent: int  #: of these, flows of which nothing came any more while it was near
    p50_s: float | None  #: of all flows; None: so many were silent
    p99_s: float | None
    max_s: float | None  #: None where one was silent
    usual_s: float | None  #: the median gap of such flows away from faults


class KeyedProbe(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed of a probe, with the keys of its run."""

    group_key: int
    size: int
    unit: int
    run_id: str
    publisher: str
    link_class: str
    subscriber: str
    published_ns: int
    delivered_ns: int | None
    fault: str | None
    fault_ns: int | None
    struck: str | None


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the events of one unit over one class of links, in a cell."""

    group_key: int
    size: int
    link_class: str
    unit: int
    events: int
    once: int
    lost: int
    unexplained: int
    late: int
    twice: int
    disordered: int


def keyed_probes(probes: DataFrame, runs: DataFrame) -> DataFrame:
    """Return rows of :class:`KeyedProbe`; ``runs`` are rows of ``recovery.KeyedRun``."""
    return expect(probes.join(runs, "run_id", "inner"), KeyedProbe)


def events(runs: pa.Table, told: pa.Table) -> list[Events]:
    """Return what became of the events of each unit.

    ``runs`` are ``recovery.Runs.rows``, and ``told`` is what ``load.check`` counted of probes.
    """
    found = (
        told.join(runs, "run_id", join_type="inner")
        .group_by([*_CLASS, "unit"])
        .aggregate([(column, "sum") for column in _COUNTED.values()])
    )
    return [
        Events(
            **{name: row[name] for name in (*_CLASS, "unit")},
            **{name: row[f"{column}_sum"] for name, column in _COUNTED.items()},
        )
        for row in found.to_pylist()
    ]


def deliveries(
    runs: Runs, events: Iterable[Events], took: Mapping[Key, CellQuantiles]
) -> list[Delivery]:
    """Return a row a cell and class of links; ``took`` are the quantiles of :func:`took`."""
    by_class: dict[tuple[int, int, str], list[Events]] = {}
    for row in events:
        by_class.setdefault((row.group_key, row.size, row.link_class), []).append(row)
    return [
        Delivery(
            **runs.columns(group_key, size),
            **_counted(units),
            link_class=link_class,
            **_seconds(took.get((group_key, size, latency(link_class)))),
        )
        for (group_key, size, link_class), units in by_class.items()
    ]


def _counted(units: list[Events]) -> dict[str, Any]:
    """Return the columns of a :class:`Delivery` that are counted, and their shares."""
    total = {name: sum(getattr(unit, name) for unit in units) for name in _COUNTED}
    count, once = total["events"], total.pop("once")
    share, error = total["lost"] / count, _error(units)
    return total | {
        "once_share": once / count,
        "lost_share": share,
        "lost_low": None if error is None else max(share - _Z * error, 0.0),
        "lost_high": None if error is None else min(share + _Z * error, 1.0),
    }


def _seconds(found: CellQuantiles | None) -> dict[str, Any]:
    nanoseconds = {name: getattr(found, name, None) for name in ("p50", "p99", "max")}
    return {f"{n}_s": None if v is None else v / NS_PER_S for n, v in nanoseconds.items()}


def _error(units: list[Events]) -> float | None:
    """Return the standard error of the share lost: that of a ratio of sums over seeds."""
    count = len(units)
    if count < 2:
        return None
    every, lost = (sum(getattr(unit, name) for unit in units) for name in ("events", "lost"))
    squares = math.fsum((unit.lost - unit.events * lost / every) ** 2 for unit in units)
    return math.sqrt(squares * count / (count - 1)) / int(every)


def interruptions(runs: Runs, took: Mapping[Key, CellQuantiles]) -> list[Interruption]:
    """Return a row a cell, class of links, kind of fault and side, from quantiles of `took`."""
    found = []
    for (group_key, size, measure), row in took.items():
        kind, *rest = measure.split(_APART)
        if kind == _BROKEN:
            link_class, fault, struck = rest
            found.append(
                Interruption(
                    **runs.columns(group_key, size),
                    link_class=link_class,
                    fault=fault,
                    struck=struck,
                    flows=row.count + row.open,
                    silent=row.open,
                    **_seconds(row),
                    usual_s=_seconds(took.get((group_key, size, usual(link_class))))["p50_s"],
                )
            )
    return found


def took(probes: DataFrame) -> DataFrame:
    """Return rows of ``recovery.Measured``: latencies, interruptions and usual gaps.

    Their measures are those of :func:`latency` and :func:`usual`, and one for each interruption.
    An event that is lost never came, and a flow of which nothing came any more was never taken up
    again.
    """
    came = fn.col("delivered_ns") - fn.col("published_ns")
    fault, gap = fn.col("fault"), fn.col("gap")
    broken = fn.concat_ws(_APART, fn.lit(_BROKEN), "link_class", "fault", _STRUCK)
    each = (
        _named(_LATENCY, came),
        fn.when(fault.isNull() & gap.isNotNull(), _named(_USUAL, gap)),
        fn.when(fault.isNotNull() & fn.col("is_first"), _row(broken, fn.col("longest"))),
    )
    rows = (
        _gaps(probes)
        .select(*CELL, fn.inline(fn.array(*each)))
        .where(fn.col("measure").isNotNull())
        .withColumns({"unit": fn.lit(0).cast("long"), "over": fn.col("value").isNotNull()})
    )
    return expect(rows, Measured)


def _row(measure: Column, value: Column) -> Column:
    return fn.struct(measure.alias("measure"), value.alias("value"))


def _named(kind: str, value: Column) -> Column:
    return _row(fn.concat_ws(_APART, fn.lit(kind), "link_class"), value)


def latency(link_class: str) -> str:
    """Return the measure of how long events took."""
    return _APART.join((_LATENCY, link_class))


def usual(link_class: str) -> str:
    """Return the measure of gaps in flows away from faults."""
    return _APART.join((_USUAL, link_class))


def _gaps(probes: DataFrame) -> DataFrame:
    """Return each event with the ``gap`` before it in its flow, and of a fault near it the longest.

    The first event of a flow that is near a fault speaks for all of these.
    """
    flow = Window.partitionBy(*_FLOW).orderBy("delivered_ns", "published_ns")
    near = Window.partitionBy(*_FLOW, "fault", "fault_ns", _STRUCK)
    came = fn.col("delivered_ns").isNotNull()
    after = came & (fn.col("delivered_ns") >= fn.col("fault_ns"))
    # Events that never came stand first in a flow, and have no time that could be one's before.
    gap = fn.col("delivered_ns") - fn.lag("delivered_ns").over(flow)
    told = probes.withColumns({"gap": gap, _STRUCK: fn.coalesce(_STRUCK, fn.lit("other"))})
    return told.withColumns(
        {
            "longest": fn.max(fn.when(after, fn.col("gap"))).over(near),
            "is_first": fn.row_number().over(near.orderBy("published_ns")) == 1,
        }
    )
