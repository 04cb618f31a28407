"""How far a sweep is, in words and seconds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sims.scenarios import library
from spark.dataset.place import place
from spark.sweep.cells import Cell, cells_of
from spark.sweep.grid import Grid, cells
from spark.sweep.progress import Progress, clock
from spark.sweep.results import Outcome
from spark.sweep.run import plan


def four_cells() -> list[Cell]:
    cells = cells_of("crash", library.find("crash"), ("nodes=8",), range(1, 5))
    return [replace(cell, cost=10.0) for cell in cells]


def test_time_left_follows_from_what_the_first_cells_took() -> None:
    one, two, three, _ = cells = four_cells()
    progress = Progress(total=4, waiting=40.0, slots=2)
    for cell in (one, two):
        progress.begin(cell, now=0.0)
    assert progress.left_s(1.0) is None
    assert progress.words(1.0) == "0 of 4 done, 2 running, 0 failed, time left unknown"
    progress.end(one, Outcome(run_id=one.run_id, again="", seconds=30.0))
    progress.begin(three, now=30.0)
    # 10 of work take 30 s: the second is due now, the third and fourth have two slots.
    assert progress.left_s(30.0) == 30.0
    broken = Outcome(run_id=two.run_id, again="", seconds=30.0, broken=("never whole",))
    progress.end(two, broken)
    assert progress.words(40.0) == "2 of 4 done, 1 running, 1 failed, 0:00:25 left"
    assert len(cells) == 4


def test_a_late_cell_does_not_make_time_run_backwards() -> None:
    one, two, *_ = four_cells()
    progress = Progress(total=2, waiting=20.0, slots=2)
    for cell in (one, two):
        progress.begin(cell, now=0.0)
    progress.end(one, Outcome(run_id=one.run_id, again="", seconds=1.0))
    assert progress.left_s(500.0) == 0.0


def cells_of_sizes(*sizes: int, scenario: str = "crash") -> list[Cell]:
    return [
        cell
        for nodes in sizes
        for cell in cells_of(scenario, library.find(scenario), (f"nodes={nodes}",), [1])
    ]


def test_what_is_left_is_weighed_by_kind_and_size() -> None:
    """The small ring of a kind took a second, one four times as large eight: 64 s come next."""
    cells = [*cells_of_sizes(64, 256, 1024), *cells_of_sizes(64, scenario="arc")]
    progress = Progress(total=4, waiting=sum(cell.cost for cell in cells), slots=1)
    progress.plan(cells)
    for cell, seconds in zip(cells, (1.0, 8.0), strict=False):
        progress.begin(cell, now=0.0)
        progress.end(cell, Outcome(run_id=cell.run_id, again="", seconds=seconds))
    arc = cells[3]
    progress.begin(arc, now=9.0)
    progress.end(arc, Outcome(run_id=arc.run_id, again="", seconds=5.0))
    assert progress.left_s(14.0) == pytest.approx(64.0)
    progress.begin(cells[2], now=14.0)
    assert progress.words(44.0) == "3 of 4 done, 1 running, 0 failed, 0:00:34 left"
    assert progress.words(90.0).endswith("1 running, 0 failed, the last take longer than expected")


def test_a_long_sweep_begins_with_a_small_run_of_each_kind(tmp_path: Path) -> None:
    grid = Grid(scenario=("crash", "arc"), nodes=(64, 1024), seeds=(1, 2, 3))
    todo = plan(place(str(tmp_path)), cells([grid])).cells
    assert {(cell.run.given, cell.nodes) for cell in todo[:2]} == {("crash", 64), ("arc", 64)}
    rest = [cell.cost for cell in todo[2:]]
    assert rest == sorted(rest, reverse=True)
    assert len({cell.run_id for cell in todo}) == 12


def test_a_clock_has_hours_minutes_and_seconds() -> None:
    assert [clock(seconds) for seconds in (0.2, 61, 3661)] == ["0:00:00", "0:01:01", "1:01:01"]
