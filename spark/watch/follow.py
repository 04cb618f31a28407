"""The watch: each batch of new incidents is kept, then the window is held to its promises."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from pyspark.errors import AnalysisException, PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from overlay.errors import ChordalError
from overlay.wording import counted
from spark.watch.journal import Journal
from spark.watch.promise import Promise
from spark.watch.rolling import Rolling, rolling
from spark.watch.source import FOLDERS, FORMAT, TraceSource

LOOK_S = 1  #: between two looks whether the stream goes on

#: A busy machine may need longer to start Python than Spark waits: the stream is started again, so
#: often in a row at most.
TRIES = 5
#: What Spark calls an error that a program of ours has raised: it would be raised again.
_OURS = (
    "PYTHON_EXCEPTION",
    "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR",
    "PYTHON_DATA_SOURCE_ERROR",
)


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A promise, and whether it holds; a value of None: nothing is measured yet, and it holds.

    An infinite value: it is not reached, as so many are open.
    """

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
                + ", ".join(f"{at} {_seconds(recovery[at])}" for at in ("p50", "p99", "max"))
            )
        if self.window.open:
            told.append(f"{self.window.open} open")
        for kept in self.promises:
            value = "nothing to measure" if kept.value is None else f"it is {shown(kept.value)}"
            told.append(f"{kept.promise} {'holds' if kept.holds else 'is broken'}: {value}")
        return "; ".join(told)


def shown(value: float | None) -> str:
    """Return the value of a promise as people read it."""
    if value is None:
        return "nothing to measure"
    return f"{value:.6g}" if math.isfinite(value) else "not reached, as incidents are open"


def _seconds(value: float | None) -> str:
    return "not reached" if value is None else f"{value:.3f} s"


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
    failed: list[Exception] = []  #: while a batch was handled, which is no affair of the stream's
    left = [TRIES]
    judging = threading.Lock()  # batches come on a thread of Spark's

    def tell() -> None:
        last[0] = _news(spark, journal, watch)
        if not watch.told(last[0]):
            enough.append(True)

    def handle(incidents: DataFrame, batch: int) -> None:
        try:
            with judging:
                journal.write(batch, incidents)
                tell()
                journal.tidy(spark, watch.clock() - round(watch.window_s * 1e9))
        except Exception as error:
            failed.append(error)
            raise
        left[0] = TRIES

    def look() -> None:
        """Judge again once the time of an open incident is up, also if nothing new has come."""
        with judging:
            due = last[0].window.due_unix_ns
            if due is not None and watch.clock() > due and not enough:
                tell()

    while True:
        query = _start(spark, watch, handle)
        try:
            if once:
                query.processAllAvailable()
            else:
                while not enough:
                    query.awaitTermination(LOOK_S)
                    look()
            break
        except PySparkException as error:
            left[0] -= 1
            ours = [each for each in failed if isinstance(each, ChordalError)]
            if ours:
                raise ours[0] from None
            if failed or not left[0] or _is_lasting(error):
                raise
        finally:
            query.stop()
    return last[0]


def _is_lasting(error: PySparkException) -> bool:
    """Say whether it would happen again: a program of ours raised it, or a query makes no sense.

    All else is what a machine does that is too busy, and is known by no word or class of its own.
    """
    cause: object = error
    while isinstance(cause, PySparkException):
        if isinstance(cause, AnalysisException | PythonException) or cause.getCondition() in _OURS:
            return True
        cause = getattr(cause, "_cause", None)
    return False


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
    now = watch.clock()
    since = now - round(watch.window_s * 1e9)
    found = rolling(journal.incidents(spark), since, now, watch.promises)
    return News(
        total=journal.forgotten + found.fresh,
        window=found,
        promises=tuple(
            _kept(promise, statistics, watch.at_least)
            for promise, statistics in zip(watch.promises, found.promised, strict=True)
        ),
    )


def _kept(promise: Promise, statistics: Mapping[str, float | None], at_least: int) -> Kept:
    value = statistics[promise.statistic]
    is_known = value is not None and (
        promise.statistic == "count" or (statistics["count"] or 0) >= at_least
    )
    holds = not is_known or value is None or promise.holds(value)
    return Kept(promise=str(promise), value=value, holds=holds)
