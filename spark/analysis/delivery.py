"""What became of events: delivered, lost, late, twice; and how long each kind of fault interrupts.

The rows are probes (``docs/traces.md``): one for each event and each subscriber that was owed it.
An *interruption* is seen by one flow, from a publisher to a subscriber over one class of links: the
longest time between two events that came one after the other, of which the second is near a fault
and came after it. Between events of a flow that is not interrupted there is the *usual gap*.
"""

from __future__ import annotations

from statistics import NormalDist

import msgspec
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from spark.analysis.frames import expect
from spark.analysis.groups import Grouped
from spark.analysis.recovery import CELL, NS_PER_S
from spark.analysis.replicates import CONFIDENCE

_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
_ACCURACY = 100_000  #: of quantiles of latencies: they are off by one rank in so many
_CLASS = (*CELL, "link_class")
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
    p50_s: float | None  #: from the publication to the subscriber
    p99_s: float | None
    max_s: float | None


class Interruption(Grouped, frozen=True, kw_only=True):
    """How long flows of one class of links were interrupted by one kind of fault, in a cell."""

    n: int | None
    link_class: str
    fault: str
    struck: str  #: whom it befell: the broker of the ``publisher``, ``subscriber``, or ``other``
    flows: int  #: a flow counts once for each fault near it
    silent: int  #: of these, flows of which nothing came any more while it was near
    p50_s: float | None
    p99_s: float | None
    max_s: float | None
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
    p50_s: float | None
    p99_s: float | None
    max_s: float | None


class KeyedInterruption(msgspec.Struct, frozen=True, kw_only=True):
    """An :class:`Interruption` before it has the columns of its group."""

    group_key: int
    size: int
    link_class: str
    fault: str
    struck: str
    flows: int
    silent: int
    p50_s: float | None
    p99_s: float | None
    max_s: float | None
    usual_s: float | None


def keyed_probes(probes: DataFrame, runs: DataFrame) -> DataFrame:
    """Return rows of :class:`KeyedProbe`; ``runs`` are rows of ``recovery.KeyedRun``."""
    return expect(probes.join(runs, "run_id", "inner"), KeyedProbe)


def deliveries(probes: DataFrame) -> DataFrame:
    """Return rows of :class:`KeyedDelivery` from those of :class:`KeyedProbe`."""
    fate = fn.col("fate")
    took = fn.col("delivered_ns") - fn.col("published_ns")
    whole = probes.groupBy(*_CLASS).agg(
        fn.count("*").alias("events"),
        fn.count_if(fate == "once").alias("once"),
        fn.count_if(fate == "lost").alias("lost"),
        fn.count_if((fate == "lost") & (fn.col("why") == "unexplained")).alias("unexplained"),
        fn.count_if("is_late").alias("late"),
        fn.count_if(fate == "twice").alias("twice"),
        fn.count_if(fate == "disordered").alias("disordered"),
        (fn.percentile_approx(took, 0.5, _ACCURACY) / NS_PER_S).alias("p50_s"),
        (fn.percentile_approx(took, 0.99, _ACCURACY) / NS_PER_S).alias("p99_s"),
        (fn.max(took) / NS_PER_S).alias("max_s"),
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
    flow = Window.partitionBy(*_FLOW).orderBy("delivered_ns", "published_ns")
    came = fn.col("delivered_ns").isNotNull()
    # Events that never came stand first in a flow, and have no time that could be one's before.
    gaps = probes.withColumn("gap", fn.col("delivered_ns") - fn.lag("delivered_ns").over(flow))
    after = came & (fn.col("delivered_ns") >= fn.col("fault_ns"))
    of_fault = (
        gaps.where(fn.col("fault").isNotNull())
        .groupBy(
            *CELL,
            *_FLOW,
            "fault",
            "fault_ns",
            fn.coalesce("struck", fn.lit("other")).alias("struck"),
        )
        .agg(fn.max(fn.when(after, fn.col("gap"))).alias("gap"))
    )
    usual = (
        gaps.where(fn.col("fault").isNull()).groupBy(*_CLASS).agg(_seconds(0.5).alias("usual_s"))
    )
    found = of_fault.groupBy(*_CLASS, "fault", "struck").agg(
        fn.count("*").alias("flows"),
        fn.count_if(fn.col("gap").isNull()).alias("silent"),
        _seconds(0.5).alias("p50_s"),
        _seconds(0.99).alias("p99_s"),
        (fn.max("gap") / NS_PER_S).alias("max_s"),
    )
    return expect(found.join(usual, list(_CLASS), "left"), KeyedInterruption)


def _seconds(share: float) -> Column:
    return fn.percentile_approx("gap", share, _ACCURACY) / NS_PER_S
