"""The watch: each batch of new incidents is kept, then the window is held to its promises."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from overlay.wording import counted
from spark.watch.journal import Journal
from spark.watch.promise import Promise
from spark.watch.rolling import Rolling, rolling
from spark.watch.source import FOLDERS, FORMAT, TraceSource

LOOK_S = 1  #: between two looks whether the stream goes on

#: A busy machine may need longer to start Python than Spark waits: the stream is started again.
TRIES = 5
_SLOW = "while waiting for the Python worker to connect back"


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A promise, and whether it holds; a value of None: nothing is measured yet, and it holds."""

    promise: str
    value: float | None
    holds: bool


class News(msgspec.Struct, frozen=True, kw_only=True):
    """What is known after a batch."""

    total: int  #: incidents seen since the checkpoint was begun
    window: Rolling
    promises: tuple[Kept, ...]

    @property
    def broken(self) -> tuple[Kept, ...]:
        """The promises that do not hold."""
        return tuple(kept for kept in self.promises if not kept.holds)

    @property
    def words(self) -> str:
        """All of it in a line."""
        recovery = self.window.measures["recovery"]
        told = [
            f"{counted(self.total, 'incident')} seen",
            f"{counted(self.window.failures, 'failure')} in the window",
        ]
        if recovery["p50"] is not None:
            told.append(
                "recovery "
                + ", ".join(f"{at} {recovery[at]:.3f} s" for at in ("p50", "p99", "max"))
            )
        for kept in self.promises:
            value = "nothing to measure" if kept.value is None else f"it is {kept.value:.6g}"
            told.append(f"{kept.promise} {'holds' if kept.holds else 'is broken'}: {value}")
        return "; ".join(told)


@dataclass(slots=True)
class Watch:
    """What is watched, and how; ``clock`` gives nanoseconds since 1970."""

    folders: Sequence[Path]
    checkpoint: Path
    promises: Sequence[Promise]
    window_s: float
    every_s: float
    at_least: int  #: values without which a promise is not judged
    told: Callable[[News], bool]  #: takes the news; tells whether to go on
    clock: Callable[[], int] = field(default=time.time_ns)


def follow(spark: SparkSession, watch: Watch, *, once: bool) -> News:
    """Follow the traces until ``told`` has enough; with ``once`` until all that is there is read.

    Returns the last news.

    Raises:
        ConfigError: The checkpoint cannot be written, or is broken.
        PySparkException: A trace is broken, or Spark gave up.
    """
    journal = Journal(watch.checkpoint)
    last = [_news(spark, journal, watch)]
    if last[0].total and not watch.told(last[0]) and not once:
        return last[0]
    enough: list[bool] = []

    def handle(incidents: DataFrame, batch: int) -> None:
        journal.write(batch, incidents)
        last[0] = _news(spark, journal, watch)
        if not watch.told(last[0]):
            enough.append(True)
        journal.tidy(spark, watch.clock() - round(watch.window_s * 1e9))

    for left in reversed(range(TRIES)):
        query = _start(spark, watch, handle)
        try:
            if once:
                query.processAllAvailable()
            else:
                while not enough:
                    query.awaitTermination(LOOK_S)
            break
        except PySparkException as error:
            if not left or _SLOW not in str(error):
                raise
        finally:
            query.stop()
    return last[0]


def _start(
    spark: SparkSession, watch: Watch, handle: Callable[[DataFrame, int], None]
) -> StreamingQuery:
    spark.dataSource.register(TraceSource)
    folders = json.dumps([str(folder.resolve()) for folder in watch.folders])
    stream = spark.readStream.format(FORMAT).option(FOLDERS, folders).load()
    return (
        stream.writeStream.foreachBatch(handle)
        .option("checkpointLocation", (watch.checkpoint / "spark").resolve().as_uri())
        .trigger(processingTime=f"{round(watch.every_s * 1000)} milliseconds")
        .start()
    )


def _news(spark: SparkSession, journal: Journal, watch: Watch) -> News:
    since = watch.clock() - round(watch.window_s * 1e9)
    found = rolling(journal.incidents(spark), since)
    return News(
        total=journal.forgotten + found.fresh,
        window=found,
        promises=tuple(_kept(promise, found, watch.at_least) for promise in watch.promises),
    )


def _kept(promise: Promise, found: Rolling, at_least: int) -> Kept:
    statistics = found.measures[promise.measure]
    value = statistics[promise.statistic]
    is_known = value is not None and (
        promise.statistic == "count" or (statistics["count"] or 0) >= at_least
    )
    holds = not is_known or value is None or promise.holds(value)
    return Kept(promise=str(promise), value=value, holds=holds)
