"""Threads of the driver, each of which waits for one job of Spark at a time."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.utils import is_remote

from overlay.errors import ChordalError, InvariantError
from spark.sweep.cells import Cell
from spark.sweep.progress import Progress
from spark.sweep.results import Outcome

TELL_S = 0.5  #: between two tellings of how far things are
MAX_TASKS = 4096
_TAG = "chordal-sweep"


@dataclass(frozen=True, slots=True)
class _Ended:
    cell: Cell
    outcome: Outcome | None
    error: Exception | None


class Pool:
    """Runs cells, so many at once.

    Args:
        spark: The session, whose cores are counted.
        tasks: Cells at once; None: as many as there are cores, also those that come later.
        work: Runs one cell, in a thread of its own.
    """

    def __init__(
        self, spark: SparkSession, tasks: int | None, work: Callable[[Cell], Outcome]
    ) -> None:
        self._spark = spark
        self._tasks = tasks
        self._work = work
        self._ended: queue.SimpleQueue[_Ended] = queue.SimpleQueue()

    def run(self, cells: Sequence[Cell], told: Callable[[Progress], None]) -> tuple[Outcome, ...]:
        """Run ``cells``, begun in this order; return what became of each, as they ended.

        After an interrupt nothing of it runs.

        Raises:
            PySparkException: Spark itself is gone.
        """
        waiting = deque(cells)
        progress = Progress(len(cells), sum(cell.cost for cell in cells), self._slots())
        progress.plan(cells)
        outcomes: list[Outcome] = []
        try:
            while waiting or progress.running:
                while waiting and len(progress.running) < progress.slots:
                    cell = waiting.popleft()
                    progress.begin(cell, time.monotonic())
                    threading.Thread(target=self._carry_out, args=(cell,), daemon=True).start()
                told(progress)
                with suppress(queue.Empty):
                    ended = self._ended.get(timeout=TELL_S)
                    outcome = _outcome(ended)
                    progress.end(ended.cell, outcome)
                    outcomes.append(outcome)
                    progress.slots = self._slots(progress.slots)
        finally:
            if progress.running:
                self._cancel()
        told(progress)
        return tuple(outcomes)

    def _carry_out(self, cell: Cell) -> None:
        outcome = error = None
        try:
            # A tag is known to the thread that adds it, so each does.
            self._spark.addTag(_TAG)
            outcome = self._work(cell)
        except (PySparkException, Py4JError, ChordalError, OSError) as caught:
            error = caught
        finally:
            self._ended.put(_Ended(cell, outcome, error))

    def _slots(self, before: int = 0) -> int:
        """Return how many cells may run at once; a cluster's cores may come one by one."""
        if self._tasks is not None:
            return self._tasks
        if not is_remote():
            return max(1, before, min(MAX_TASKS, self._spark.sparkContext.defaultParallelism))
        return before or _parallelism(self._spark)

    def _cancel(self) -> None:
        # Where the JVM is gone, so are its jobs.
        with suppress(PySparkException, Py4JError, OSError):
            self._spark.interruptTag(_TAG)


def _outcome(ended: _Ended) -> Outcome:
    if ended.error is not None:
        raise ended.error
    if ended.outcome is None:
        raise InvariantError(f"BUG: the thread of {ended.cell.run_id} ended without an outcome")
    return ended.outcome


def _parallelism(spark: SparkSession) -> int:
    """Return into how many parts a server splits what it is not told how to split: its cores."""
    parts = spark.range(MAX_TASKS).select(fn.spark_partition_id().alias("part"))
    return max(1, parts.distinct().count())
