"""Cells: what they cost, and that they bring along what their scenario names."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from overlay.errors import ConfigError
from sims.scenarios import library
from sims.scenarios.files import parse, read
from spark.dataset.files import check_dataset
from spark.dataset.place import place
from spark.sweep.cells import Cell, cells_of, cost, simulate
from spark.sweep.results import Outcome, publish

REPLAYED = """
about = "three brokers go"
nodes = 6
seconds = 5

[[churn]]
kind = "replay"
file = "rows/day.csv"
"""


def test_large_rings_long_runs_and_whole_brokers_cost_more() -> None:
    file = library.find("delivery-under-churn")
    small = cost(parse(file, ["nodes=16", "mode=ring", "workload.rate=1"]))
    for change in ("nodes=32", "seconds=600", "mode=whole", "ring.heartbeat_s=0.1"):
        assert cost(parse(file, ["nodes=16", "mode=ring", "workload.rate=1", change])) > small


def test_files_beside_a_scenario_travel_with_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "rows").mkdir(parents=True)
    (home / "rows" / "day.csv").write_text("uid,start_s,end_s\na,0,2\nb,0,99\nc,1,99\n")
    (home / "mine.toml").write_text(REPLAYED)
    (cell,) = cells_of("mine.toml", read(home / "mine.toml"), (), [1])
    away = pickle.loads(pickle.dumps(cell))
    home.rename(tmp_path / "elsewhere")
    assert simulate(away, tmp_path / "data") == ()
    assert len(check_dataset(tmp_path / "data").runs) == 1

    lost = replace(away, beside=())
    with pytest.raises(ConfigError, match=r"day\.csv"):
        simulate(lost, tmp_path / "lost")


def test_a_file_that_is_missing_is_named_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(REPLAYED)
    with pytest.raises(ConfigError, match=r"cannot read .*day\.csv"):
        list(cells_of("mine.toml", read(tmp_path / "mine.toml"), (), [1]))


def test_two_sweeps_at_one_run_leave_it_once_and_nothing_else(tmp_path: Path) -> None:
    """They may be two tasks of one process, or executors in containers with one process id."""
    (tmp_path / "day.csv").write_text("uid,start_s,end_s\na,0,2\nb,0,99\nc,1,99\n")
    (tmp_path / "mine.toml").write_text(REPLAYED.replace("rows/", ""))
    (cell,) = cells_of("mine.toml", read(tmp_path / "mine.toml"), (), [1])
    made, there = tmp_path / "made", tmp_path / "there"
    simulate(cell, made)
    left = there / "runs" / f".{cell.run_id}.parquet.0123456789abcdef"
    left.parent.mkdir(parents=True)
    left.write_text("half a run, of a task that was killed")
    outcome = Outcome(run_id=cell.run_id, again=cell.again, seconds=1.0)
    for _ in range(2):
        publish(made, place(str(there)), outcome)
    files = [path.name for path in there.rglob("*") if path.is_file()]
    assert set(files) == {f"{cell.run_id}.parquet"}
    assert len(files) == len([path for path in made.rglob("*") if path.is_file()])


def test_another_content_of_a_file_is_another_run(tmp_path: Path) -> None:
    """Of two scenarios of one name, too, that lie in two folders."""
    found: list[Cell] = []
    for folder, end in (("one", 2), ("two", 3)):
        home = tmp_path / folder
        home.mkdir()
        (home / "day.csv").write_text(f"uid,start_s,end_s\na,0,{end}\nb,0,99\n")
        (home / "mine.toml").write_text(REPLAYED.replace("rows/", ""))
        found += cells_of("mine.toml", read(home / "mine.toml"), (), [1])
    assert len({cell.run_id for cell in found}) == 2
