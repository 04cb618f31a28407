"""Sweeps: everything is run once, whatever fails or stops in between."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from overlay.errors import InvariantError
from overlay.trace_schema import Incident, Run
from sims.experiments.experiment import Experiment, RunResult
from sims.experiments.experiment import run as simulate
from spark.dataset.files import check_dataset, run_ids
from spark.errors import DatasetError
from spark.sweep.grid import cells
from spark.sweep.run import FAILED_FILE, Simulate, plan, sweep
from tests.spark import rows

pytestmark = pytest.mark.spark

GRID = cells({"nodes": [8, 16, 64], "seeds": 2})


def stand_in(log: Path, failing: int = 0) -> Simulate:
    """Return a simulation that notes its cells in the folder ``log``; rings of ``failing`` fail."""

    def run_cell(cell: Experiment) -> RunResult:
        (log / cell.run_id).touch(exist_ok=False)
        if cell.nodes == failing:
            raise InvariantError(f"BUG: seed {cell.seed}\n  and more")
        return rows.simulated(cell)

    return run_cell


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log").mkdir()
    return tmp_path / "log"


def noted(log: Path) -> set[str]:
    return {path.name for path in log.iterdir()}


def test_every_cell_gives_its_run_and_its_incidents(
    spark: SparkSession, tmp_path: Path, log: Path
) -> None:
    todo = plan(tmp_path / "data", GRID)
    outcomes = sweep(spark, todo, stand_in(log))
    assert {outcome.run_id for outcome in outcomes} == {cell.run_id for cell in GRID}
    assert [outcome.error for outcome in outcomes] == [None] * 6
    assert todo.finished == 6
    assert len(check_dataset(tmp_path / "data").incidents) == 6
    cell = GRID[0]
    table = pq.read_table(tmp_path / "data" / "incidents" / f"{cell.run_id}.parquet")
    found = [msgspec.convert(row, Incident) for row in table.to_pylist()]
    assert tuple(found) == rows.simulated(cell).incidents


def test_what_is_there_is_not_run_again(spark: SparkSession, tmp_path: Path, log: Path) -> None:
    sweep(spark, plan(tmp_path / "data", GRID[:4]), stand_in(log))
    again = plan(tmp_path / "data", GRID)
    assert again.cells == GRID[4:]
    assert (again.skipped, again.finished) == (4, 0)
    assert len(sweep(spark, again, stand_in(log))) == 2
    assert plan(tmp_path / "data", GRID).cells == ()
    assert len(noted(log)) == 6


def test_incidents_without_their_run_do_not_count_as_done(tmp_path: Path) -> None:
    cell = GRID[0]
    rows.write_parquet(tmp_path, rows.run(cell.run_id), rows.simulated(cell).incidents)
    (tmp_path / "runs" / f"{cell.run_id}.parquet").unlink()
    assert cell in plan(tmp_path, GRID).cells


def test_failed_cells_are_told_and_the_others_kept(
    spark: SparkSession, tmp_path: Path, log: Path
) -> None:
    data = tmp_path / "data"
    outcomes = sweep(spark, plan(data, GRID), stand_in(log, failing=16))
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    assert sorted(outcome.error or "" for outcome in failed) == [
        "InvariantError: BUG: seed 1\n  and more",
        "InvariantError: BUG: seed 2\n  and more",
    ]
    written = [msgspec.json.decode(line) for line in (data / FAILED_FILE).read_bytes().splitlines()]
    assert written == msgspec.to_builtins(failed)
    assert all("in run_cell" in row["traceback"] for row in written)
    assert len(set(run_ids(data))) == 4

    retried = plan(data, GRID)
    assert {cell.nodes for cell in retried.cells} == {16}
    for path in log.iterdir():
        path.unlink()
    sweep(spark, retried, stand_in(log))
    assert plan(data, GRID).cells == ()
    assert not (data / FAILED_FILE).exists()


def test_the_simulator_itself_fits_in(spark: SparkSession, tmp_path: Path) -> None:
    cell = Experiment(nodes=8, seed=1, crash_share=0.25)
    (outcome,) = sweep(spark, plan(tmp_path, [cell]))
    assert outcome.error is None
    row = pq.read_table(tmp_path / "runs" / f"{cell.run_id}.parquet").to_pylist()[0]
    assert msgspec.convert(row, Run) == simulate(cell).run


def test_executors_that_write_elsewhere_are_found_out(
    spark: SparkSession, tmp_path: Path, log: Path
) -> None:
    def astray(cell: Experiment) -> RunResult:
        result = rows.simulated(cell)
        renamed = msgspec.structs.replace(result.run, run_id=f"astray-{cell.run_id}")
        return RunResult(renamed, result.incidents, 0)

    with pytest.raises(DatasetError, match="share"):
        sweep(spark, plan(tmp_path / "data", GRID[:1]), astray)
