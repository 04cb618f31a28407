"""Sweeps: everything is run once, whatever fails or stops in between."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from overlay.errors import InvariantError
from overlay.trace_schema import Incident, Run
from sims import dataset
from sims.scenarios.files import parse
from sims.scenarios.play import play
from spark.dataset.files import check_dataset, run_ids
from spark.dataset.place import place
from spark.errors import DatasetError
from spark.sweep.cells import Cell
from spark.sweep.grid import Grid, cells
from spark.sweep.progress import Progress
from spark.sweep.results import FAILED, Outcome
from spark.sweep.run import Simulate, plan, sweep
from tests.spark import rows

pytestmark = pytest.mark.spark

GRID = cells([Grid(nodes=(8, 16, 64), seeds=(1, 2))])


def stand_in(log: Path, failing: int = 0, broken: int = 0, fatal: int = 0) -> Simulate:
    """Return a simulation that notes its cells in the folder ``log``.

    Rings of the size ``failing`` raise an error, ``broken`` ones break a promise, and ``fatal``
    ones take their process with them.
    """

    def run_cell(cell: Cell, out: Path) -> tuple[str, ...]:
        (log / cell.run_id).touch(exist_ok=False)
        if cell.nodes == failing:
            raise InvariantError(f"BUG: seed {cell.run.seed}\n  and more")
        if cell.nodes == fatal:
            os._exit(9)
        dataset.write(rows.simulated(cell), out)
        return ("never whole again",) if cell.nodes == broken else ()

    return run_cell


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log").mkdir()
    return tmp_path / "log"


def noted(log: Path) -> set[str]:
    return {path.name for path in log.iterdir()}


def recorded(data: Path) -> dict[str, Outcome]:
    files = (data / FAILED).glob("*")
    return {
        path.stem: msgspec.json.decode(path.read_bytes(), type=Outcome, strict=True)
        for path in files
    }


def test_every_cell_gives_its_run_and_its_incidents_the_largest_first(
    spark: SparkSession, tmp_path: Path, log: Path
) -> None:
    data = tmp_path / "data"
    told: list[tuple[int, int]] = []

    def tell(progress: Progress) -> None:
        told.append((len(progress.running), progress.done))

    outcomes = sweep(spark, plan(place(str(data)), GRID), stand_in(log), tasks=1, told=tell)
    assert [outcome.run_id for outcome in outcomes] == [cell.run_id for cell in GRID]
    assert [cell.nodes for cell in GRID] == [64, 64, 16, 16, 8, 8]
    assert all(outcome.is_well for outcome in outcomes)
    assert told[0] == (1, 0)
    assert told[-1] == (0, 6)
    assert len(check_dataset(data).incidents) == 6
    cell = GRID[0]
    table = pq.read_table(data / "incidents" / f"{cell.run_id}.parquet")
    found = [msgspec.convert(row, Incident) for row in table.to_pylist()]
    assert tuple(found) == rows.simulated(cell).incidents


def test_what_is_there_is_not_run_again(spark: SparkSession, tmp_path: Path, log: Path) -> None:
    data = place(str(tmp_path / "data"))
    sweep(spark, plan(data, GRID[:4]), stand_in(log))
    again = plan(data, GRID)
    assert again.cells == GRID[4:]
    assert again.skipped == 4
    assert len(sweep(spark, again, stand_in(log))) == 2
    assert plan(data, GRID).cells == ()
    assert len(noted(log)) == 6


def test_a_url_is_left_to_spark_and_arrow(
    spark: SparkSession, tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver opens nothing: whatever it would open is not there for it."""
    monkeypatch.setattr("spark.sweep.results.run_ids", None)
    monkeypatch.setattr(Path, "glob", None)
    data = place(f"file://{tmp_path}/a [strange] name")
    first = plan(data, GRID[:3], spark)
    assert (len(first.cells), first.skipped) == (3, 0)
    sweep(spark, first, stand_in(log, failing=16, broken=64))
    monkeypatch.undo()
    assert len(list((tmp_path / "a [strange] name" / "runs").iterdir())) == 2

    again = plan(data, GRID[:3], spark)
    assert [cell.nodes for cell in again.cells] == [16]
    assert again.skipped == 2
    assert [outcome.broken for outcome in again.broken] == [("never whole again",)] * 2


def test_incidents_without_their_run_do_not_count_as_done(tmp_path: Path) -> None:
    cell = GRID[0]
    rows.write_parquet(tmp_path, rows.run(cell.run_id), rows.simulated(cell).incidents)
    (tmp_path / "runs" / f"{cell.run_id}.parquet").unlink()
    assert cell in plan(place(str(tmp_path)), GRID).cells


def test_what_fails_is_told_and_recorded_and_the_others_are_kept(
    spark: SparkSession, tmp_path: Path, log: Path
) -> None:
    data = tmp_path / "data"
    outcomes = sweep(
        spark, plan(place(str(data)), GRID), stand_in(log, failing=16, broken=8, fatal=64)
    )
    assert len(outcomes) == 6
    by_size = {cell.run_id: cell.nodes for cell in GRID}
    written = recorded(data)
    assert written == {outcome.run_id: outcome for outcome in outcomes}
    for outcome in outcomes:
        nodes, seed = by_size[outcome.run_id], outcome.run_id.split("-s")[1][0]
        assert outcome.again == f"chordal sim run crash --seed {seed} --set nodes={nodes}"
        match nodes:
            case 8:
                assert (outcome.error, outcome.words) == (None, "never whole again")
            case 16:
                assert outcome.error == f"InvariantError: BUG: seed {seed}\n  and more"
                assert "in run_cell" in (outcome.traceback or "")
            case _:
                assert outcome.words.startswith("the process that ran it died")
    assert {by_size[run] for run in run_ids(data)} == {8}

    retried = plan(place(str(data)), GRID)
    assert {cell.nodes for cell in retried.cells} == {16, 64}
    assert {by_size[outcome.run_id] for outcome in retried.broken} == {8}
    for path in log.iterdir():
        path.unlink()
    sweep(spark, retried, stand_in(log))
    assert plan(place(str(data)), GRID).cells == ()
    assert {by_size[run] for run in recorded(data)} == {8}


def test_the_simulator_itself_fits_in(spark: SparkSession, tmp_path: Path) -> None:
    grid = Grid(nodes=(8,), seeds=(1,), set={"faults.0.count": (2,), "faults.0.over_s": (1.5,)})
    (cell,) = cells([grid])
    (outcome,) = sweep(spark, plan(place(str(tmp_path)), [cell]))
    assert outcome.is_well
    row = pq.read_table(tmp_path / "runs" / f"{cell.run_id}.parquet").to_pylist()[0]
    scenario = parse(cell.run.file, cell.run.changes)
    assert msgspec.convert(row, Run) == play("crash", scenario, 1).result.run


def test_executors_that_write_elsewhere_are_found_out(
    spark: SparkSession, tmp_path: Path, log: Path
) -> None:
    def astray(cell: Cell, out: Path) -> tuple[str, ...]:
        return ()

    with pytest.raises(DatasetError, match="share"):
        sweep(spark, plan(place(str(tmp_path / "data")), GRID[:1]), astray)
