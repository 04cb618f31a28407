"""The study of ``docs/study.md``: which grid it is, and where it leaves its data and report."""

from __future__ import annotations

from pathlib import Path

from spark.sweep.cells import Cell
from spark.sweep.grid import cells, read_grids

FULL, QUICK = "study.toml", "study-quick.toml"
DATA, REPORT = "data", "report"


def study_cells(*, quick: bool) -> tuple[Cell, ...]:
    """Return the runs of the study: a night of them, or ten minutes, on two cores."""
    return cells(read_grids(Path(__file__).with_name(QUICK if quick else FULL)))
