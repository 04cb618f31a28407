"""The sweep: the cells of a grid spread over Spark's executors.

Each cell is a job of one task, and as many jobs run at once as Spark has cores. So the driver
knows at each moment which cells run, and hears of each as it ends, in the same way from a local
Spark, a cluster and Spark Connect. The executor that has simulated a cell publishes its files
(``results``): a run that is there is done. So a sweep can be interrupted at any time and resumed,
and a task that Spark repeats does no harm.
"""

from __future__ import annotations

import os
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from overlay.errors import ChordalError
from sims import dataset
from spark.dataset.column_types import arrow_table, spark_schema
from spark.dataset.place import Place
from spark.errors import DatasetError
from spark.sweep import results
from spark.sweep.cells import Cell, simulate
from spark.sweep.pool import Pool
from spark.sweep.progress import Progress
from spark.sweep.results import Outcome

#: Carries out one cell into a data set and returns the promises it broke. Tests hand in another.
Simulate = Callable[[Cell, Path], tuple[str, ...]]

#: Expected work of a sweep that takes half a minute of a core, more or less.
SOON = 150_000.0

# What a cell may raise without taking the others down with it: what the simulation raises on
# purpose, and what a mistake in it would raise.
_CELL_ERRORS = (
    ChordalError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    MemoryError,
    NameError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sweep into ``place`` has still to do."""

    place: Place
    cells: tuple[Cell, ...]  #: to run, in this order
    skipped: int  #: cells whose run is there already
    broken: tuple[Outcome, ...]  #: what earlier runs of the grid broke, and is on record


def plan(place: Place, cells: Sequence[Cell], spark: SparkSession | None = None) -> Plan:
    """Return what is to be done to have all ``cells`` in the data set ``place``.

    ``spark`` is needed where the place is a URL.

    Raises:
        ConfigError: The data set cannot be written, or is broken.
    """
    if place.path is not None:
        dataset.prepare(place.path)
    there = results.runs_there(place, spark)
    known = {cell.run_id for cell in cells}
    missing = tuple(cell for cell in cells if cell.run_id not in there)
    told = results.failures_there(place, spark)
    broken = tuple(each for each in told if each.run_id in known and each.run_id in there)
    return Plan(place, _small_ones_first(missing), len(cells) - len(missing), broken)


def _small_ones_first(cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """Put the smallest cell of each kind before all others: they tell how long those will take.

    The others begin with the largest, as they are, and so does a sweep that is soon over.
    """
    if sum(cell.cost for cell in cells) < SOON:
        return cells
    smallest: dict[str, Cell] = {}
    for cell in cells:
        known = smallest.get(cell.kind)
        if known is None or cell.cost < known.cost:
            smallest[cell.kind] = cell
    first = {cell.run_id for cell in smallest.values()}
    return (*smallest.values(), *(cell for cell in cells if cell.run_id not in first))


def sweep(
    spark: SparkSession,
    plan: Plan,
    simulate: Simulate = simulate,
    *,
    tasks: int | None = None,
    told: Callable[[Progress], None] = lambda progress: None,
) -> tuple[Outcome, ...]:
    """Run the cells of ``plan``; return what became of each.

    Args:
        spark: The session.
        plan: What is to be done.
        simulate: Carries out one cell.
        tasks: Cells at once; None: as many as Spark has cores.
        told: Called twice a second, and as each cell ends.

    Raises:
        DatasetError: An executor wrote where this process cannot see it.
        PySparkException: Spark itself is gone.
    """
    place = Place(plan.place.url, None) if plan.place.path is not None else plan.place
    pool = Pool(spark, tasks, lambda cell: _run_in_spark(spark, place, cell, simulate))
    outcomes = pool.run(plan.cells, told)
    if plan.place.path is not None:
        for outcome in outcomes:
            at = results.run_file(plan.place.path, outcome.run_id)
            if outcome.error is None and not at.exists():
                raise DatasetError(
                    f"the executors wrote to folders of their own: {plan.place} must be on a file "
                    "system that all of them share"
                )
    return outcomes


def _run_in_spark(spark: SparkSession, place: Place, cell: Cell, simulate: Simulate) -> Outcome:
    """Run a cell as a job; what takes its process down is its error, and is recorded likewise."""
    began = time.monotonic()
    try:
        return _job(spark, lambda: _run_cell(cell, place, simulate))
    except (PySparkException, Py4JError) as error:
        lost = Outcome(
            run_id=cell.run_id,
            again=cell.again,
            seconds=time.monotonic() - began,
            error=f"the process that ran it died, or its job: {type(error).__name__}",
            traceback=str(error),
        )
        return _job(spark, lambda: _recorded(place, lost))


def _job(spark: SparkSession, work: Callable[[], Outcome]) -> Outcome:
    """Do something on an executor."""

    def carry_out(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield from arrow_table(Outcome, [work()]).to_batches()

    done = spark.range(0, 1, 1, 1).mapInArrow(carry_out, spark_schema(Outcome)).collect()
    return msgspec.convert(done[0].asDict(), Outcome)


def _run_cell(cell: Cell, place: Place, simulate: Simulate) -> Outcome:
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="chordal-run-", dir=_scratch()) as made:
            broken = simulate(cell, Path(made))
            outcome = Outcome(
                run_id=cell.run_id,
                again=cell.again,
                seconds=time.monotonic() - began,
                broken=broken,
            )
            results.publish(Path(made), place, outcome)
            return outcome
    except _CELL_ERRORS as error:
        failed = Outcome(
            run_id=cell.run_id,
            again=cell.again,
            seconds=time.monotonic() - began,
            error=f"{type(error).__name__}: {error}",
            traceback=traceback.format_exc(),
        )
        return _recorded(place, failed)


def _scratch() -> str | None:
    """Return a folder that Spark removes in the end, even if the process here is killed."""
    first = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return first if first and os.path.isdir(first) else None


def _recorded(place: Place, outcome: Outcome) -> Outcome:
    results.record(place, outcome)
    return outcome
