"""The study of ``docs/study.md``: which grid it is, and where it leaves its data and report."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from spark.sweep.cells import Cell
from spark.sweep.grid import cells, read_grids

DATA, REPORT = "data", "report"


class Extent(Enum):
    """How much of the study is run; each is a part of the next, so its runs count there, too."""

    QUICK = "study-quick.toml"  #: ten minutes on two cores
    HOUR = "study-hour.toml"  #: an hour on one core
    FULL = "study.toml"  #: a night on two cores


def study_cells(extent: Extent) -> tuple[Cell, ...]:
    """Return the runs of the study, or of that part of it."""
    return cells(read_grids(Path(__file__).with_name(extent.value)))
