"""The study: its grids ask the same, and the command sweeps and analyses."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from spark.cli import recovery
from spark.sweep import study
from spark.sweep.grid import Grid, cells
from spark.sweep.study import Extent, study_cells
from tests.spark.results import analysis


def settings() -> set[tuple[str, str]]:
    """Return which keys are set to what, but for sizes."""
    changes = {change for cell in study_cells(Extent.FULL) for change in cell.run.changes}
    said = (change.partition("=") for change in changes)
    return {(key, value) for key, _, value in said if key != "nodes"}


def test_the_study_asks_what_it_says() -> None:
    full = study_cells(Extent.FULL)
    assert {cell.nodes for cell in full if cell.run.given == "crash"} == {
        2**power for power in range(6, 15)
    }
    asked = settings()
    assert {value for key, value in asked if key == "ring.chords"} == {
        *("harmonic", "uniform", "none")  # by rank where nothing is said
    }
    # Two copies are the rule: those runs are the same as of the strategy rank.
    assert {value for key, value in asked if key == "ring.backups"} == {"1", "2", "3", "4"}
    assert ("profile", "wan") in asked


def test_each_extent_is_a_small_part_of_the_next() -> None:
    runs = [{cell.run_id: cell.cost for cell in study_cells(extent)} for extent in Extent]
    for part, (smaller, larger) in zip((3, 20), pairwise(runs), strict=True):
        assert smaller.keys() < larger.keys()
        assert sum(smaller.values()) < sum(larger.values()) / part


def test_each_extent_asks_all_questions() -> None:
    for extent in Extent:
        cells = study_cells(extent)
        assert {cell.run.given for cell in cells} == {
            *("crash", "arc", "churn-exponential", "delivery-under-churn")
        }
        asked = {change for cell in cells for change in cell.run.changes}
        strategies = {f"ring.chords={name}" for name in ("harmonic", "uniform", "none")}
        assert asked >= {*strategies, "profile=wan", "ring.backups=1", "ring.backups=4"}


@pytest.mark.spark
def test_the_study_leaves_data_and_a_report(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {"faults.0.count": (1,), "faults.0.over_s": (1,), "ring.forming": ("warm",)}
    grid = Grid(nodes=(8, 12), seeds=(1,), set=short)
    monkeypatch.setattr(study, "read_grids", lambda path: [grid])
    assert len(cells([grid])) == 2
    page = tmp_path / "report" / "index.html"
    for told in ("2 runs done", "0 runs done"):
        command = ["study", "--quick", "--out", str(tmp_path)]
        result = CliRunner().invoke(recovery, command, standalone_mode=False)
        assert result.exception is None
        assert result.stdout.startswith(told)
        assert page.stat().st_size > 0
        # An analysis costs too much to be done twice: the second report is of another one.
        page.write_text("")
        monkeypatch.setattr("spark.analysis.analyse.analyse", lambda *_: analysis())
    assert len(list((tmp_path / "data" / "runs").iterdir())) == 2
