"""What became of events: delivered, lost, late, twice; and how long each kind of fault interrupts.

The rows are probes (``docs/traces.md``): one for each event and each subscriber that was owed it.
An *interruption* is seen by one flow, from a publisher to a subscriber over one class of links: the
longest time between two events that came one after the other, of which the second is near a fault
and came after it. Between events of a flow that is not interrupted there is the *usual gap*.
"""

from __future__ import annotations

from functools import reduce
from statistics import NormalDist

import msgspec
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from spark.analysis.frames import expect
from spark.analysis.groups import Grouped
from spark.analysis.recovery import CELL, Measured
from spark.analysis.replicates import CONFIDENCE

_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
_CLASS = (*CELL, "link_class")
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
    fate: str
    is_late: bool
    why: str | None
    fault: str | None
    fault_ns: int | None
    struck: str | None


class KeyedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A :class:`Delivery` before it has the columns of its group."""

    group_key: int
    size: int
    link_class: str
    events: int
    once_share: float
    lost: int
    lost_share: float
    lost_low: float | None
    lost_high: float | None
    unexplained: int
    late: int
    twice: int
    disordered: int


class KeyedInterruption(msgspec.Struct, frozen=True, kw_only=True):
    """An :class:`Interruption` before it has the columns of its group."""

    group_key: int
    size: int
    link_class: str
    fault: str
    struck: str
    flows: int
    silent: int


def keyed_probes(probes: DataFrame, runs: DataFrame) -> DataFrame:
    """Return rows of :class:`KeyedProbe`; ``runs`` are rows of ``recovery.KeyedRun``."""
    return expect(probes.join(runs, "run_id", "inner"), KeyedProbe)


def deliveries(probes: DataFrame) -> DataFrame:
    """Return rows of :class:`KeyedDelivery` from those of :class:`KeyedProbe`."""
    fate = fn.col("fate")
    whole = probes.groupBy(*_CLASS).agg(
        fn.count("*").alias("events"),
        fn.count_if(fate == "once").alias("once"),
        fn.count_if(fate == "lost").alias("lost"),
        fn.count_if((fate == "lost") & (fn.col("why") == "unexplained")).alias("unexplained"),
        fn.count_if("is_late").alias("late"),
        fn.count_if(fate == "twice").alias("twice"),
        fn.count_if(fate == "disordered").alias("disordered"),
    )
    shares = whole.withColumns(
        {
            "once_share": fn.col("once") / fn.col("events"),
            "lost_share": fn.col("lost") / fn.col("events"),
        }
    )
    known, reach = fn.col("error").isNotNull(), _Z * fn.col("error")
    told = shares.join(_errors(probes), list(_CLASS), "inner").withColumns(
        {
            "lost_low": fn.when(known, fn.greatest(fn.col("lost_share") - reach, fn.lit(0.0))),
            "lost_high": fn.when(known, fn.least(fn.col("lost_share") + reach, fn.lit(1.0))),
        }
    )
    return expect(told, KeyedDelivery)


def _errors(probes: DataFrame) -> DataFrame:
    """Return the standard error of the share lost: that of a ratio of sums over seeds."""
    cell = Window.partitionBy(*_CLASS)
    units = fn.count("*").over(cell)
    lost, events = fn.sum("lost").over(cell), fn.sum("events").over(cell)
    off = fn.col("lost") - fn.col("events") * lost / events
    per_unit = probes.groupBy(*_CLASS, "unit").agg(
        fn.count("*").alias("events"), fn.count_if(fn.col("fate") == "lost").alias("lost")
    )
    return (
        per_unit.withColumns({"off": off, "units": units, "all": events})
        .groupBy(*_CLASS, "units", "all")
        .agg(fn.sum(fn.col("off") * fn.col("off")).alias("squares"))
        .select(
            *_CLASS,
            fn.when(
                fn.col("units") > 1,
                fn.sqrt(fn.col("squares") * fn.col("units") / (fn.col("units") - 1))
                / fn.col("all"),
            ).alias("error"),
        )
    )


def interruptions(probes: DataFrame) -> DataFrame:
    """Return rows of :class:`KeyedInterruption` from those of :class:`KeyedProbe`."""
    found = (
        _of_fault(probes)
        .groupBy(*_CLASS, "fault", "struck")
        .agg(fn.count("*").alias("flows"), fn.count_if(fn.col("gap").isNull()).alias("silent"))
    )
    return expect(found, KeyedInterruption)


def took(probes: DataFrame) -> DataFrame:
    """Return rows of ``recovery.Measured``: latencies, interruptions and usual gaps.

    Their measures are those of :func:`latency`, :func:`interruption` and :func:`usual`. An event
    that is lost never came, and a flow of which nothing came any more was never taken up again.
    """
    one = fn.lit(0).cast("long")
    name = fn.concat_ws(_APART, fn.lit(_LATENCY), "link_class")
    came = fn.col("delivered_ns") - fn.col("published_ns")
    usual = (
        _gaps(probes)
        .where(fn.col("fault").isNull() & fn.col("gap").isNotNull())
        .select(*CELL, fn.concat_ws(_APART, fn.lit(_USUAL), "link_class").alias("measure"), "gap")
    )
    broken = fn.concat_ws(_APART, fn.lit(_BROKEN), "link_class", "fault", "struck")
    parts = [
        probes.select(*CELL, name.alias("measure"), came.alias("value")),
        usual.withColumnRenamed("gap", "value"),
        _of_fault(probes).select(*CELL, broken.alias("measure"), fn.col("gap").alias("value")),
    ]
    rows = reduce(DataFrame.unionByName, parts).withColumns(
        {"unit": one, "over": fn.col("value").isNotNull()}
    )
    return expect(rows, Measured)


def latency(link_class: str) -> str:
    """Return the measure of how long events took."""
    return _APART.join((_LATENCY, link_class))


def interruption(link_class: str, fault: str, struck: str) -> str:
    """Return the measure of how long flows were interrupted by a fault."""
    return _APART.join((_BROKEN, link_class, fault, struck))


def usual(link_class: str) -> str:
    """Return the measure of gaps in flows away from faults."""
    return _APART.join((_USUAL, link_class))


def _gaps(probes: DataFrame) -> DataFrame:
    flow = Window.partitionBy(*_FLOW).orderBy("delivered_ns", "published_ns")
    # Events that never came stand first in a flow, and have no time that could be one's before.
    return probes.withColumn("gap", fn.col("delivered_ns") - fn.lag("delivered_ns").over(flow))


def _of_fault(probes: DataFrame) -> DataFrame:
    """Return the longest gap of each flow after each fault near it."""
    came = fn.col("delivered_ns").isNotNull()
    after = came & (fn.col("delivered_ns") >= fn.col("fault_ns"))
    return (
        _gaps(probes)
        .where(fn.col("fault").isNotNull())
        .groupBy(
            *CELL,
            *_FLOW,
            "fault",
            "fault_ns",
            fn.coalesce("struck", fn.lit("other")).alias("struck"),
        )
        .agg(fn.max(fn.when(after, fn.col("gap"))).alias("gap"))
    )
