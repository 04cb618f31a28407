"""The sweep: a grid of experiments spread over Spark's executors.

Each cell is a task of its own. The executor that has simulated it writes its incidents and then
its run, each whole, under names made from the cell (``sims.dataset``): a run that is there is done,
with all its incidents, and to run it again would write the same bytes. So a sweep can be
interrupted at any time and resumed, and a task that Spark repeats does no harm. All executors must
see the folder.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from overlay.errors import ChordalError
from sims import dataset
from sims.experiments.experiment import Experiment, RunResult
from sims.experiments.experiment import run as run_experiment
from spark.dataset.column_types import arrow_table, spark_schema
from spark.dataset.files import PARQUET, run_ids
from spark.errors import DatasetError

FAILED_FILE = "failed.jsonl"

#: Carries out one cell. Tests hand in another one.
Simulate = Callable[[Experiment], RunResult]

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


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a cell; ``error`` is None if all went well."""

    run_id: str
    error: str | None
    traceback: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sweep into ``directory`` has still to do."""

    directory: Path
    cells: tuple[Experiment, ...]  #: to run, in this order
    skipped: int  #: cells whose run is there already

    @property
    def finished(self) -> int:
        """How many of the cells are finished by now."""
        runs = self.directory / dataset.RUNS
        return sum((runs / f"{cell.run_id}{PARQUET}").exists() for cell in self.cells)


def plan(directory: Path, cells: Sequence[Experiment]) -> Plan:
    """Return what is to be done to have all ``cells`` in the data set ``directory``.

    Raises:
        ConfigError: The data set cannot be written, or is broken.
    """
    dataset.prepare(directory)
    there = set(run_ids(directory))
    missing = tuple(cell for cell in cells if cell.run_id not in there)
    return Plan(directory.resolve(), missing, len(cells) - len(missing))


def sweep(
    spark: SparkSession, plan: Plan, simulate: Simulate = run_experiment
) -> tuple[Outcome, ...]:
    """Run the cells of ``plan``, and write those that failed to ``failed.jsonl``.

    Raises:
        DatasetError: An executor wrote where this process cannot see it.
    """
    failed_file = plan.directory / FAILED_FILE
    failed_file.unlink(missing_ok=True)
    if not plan.cells:
        return ()
    # One partition a cell, and Spark starts partitions in order.
    numbers = spark.range(0, len(plan.cells), 1, len(plan.cells))
    done = numbers.mapInArrow(_mapper(plan, simulate), spark_schema(Outcome)).collect()
    outcomes = tuple(msgspec.convert(row.asDict(), Outcome) for row in done)
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if failed:
        failed_file.write_bytes(msgspec.json.Encoder().encode_lines(failed))
    if plan.finished < len(outcomes) - len(failed):
        raise DatasetError(
            f"the executors wrote to folders of their own: {plan.directory} must be on a file "
            "system that all of them share"
        )
    return outcomes


def _mapper(
    plan: Plan, simulate: Simulate
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    cells, directory = plan.cells, plan.directory

    def run_cells(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column("id").to_pylist()
            rows = [_run_cell(cells[number], directory, simulate) for number in numbers]
            yield from arrow_table(Outcome, rows).to_batches()

    return run_cells


def _run_cell(cell: Experiment, directory: Path, simulate: Simulate) -> Outcome:
    try:
        dataset.write(simulate(cell), directory)
    except _CELL_ERRORS as error:
        return Outcome(
            run_id=cell.run_id,
            error=f"{type(error).__name__}: {error}",
            traceback=traceback.format_exc(),
        )
    return Outcome(run_id=cell.run_id, error=None, traceback=None)
