"""How far a sweep is, in words and seconds."""

from __future__ import annotations

from dataclasses import replace

from sims.scenarios import library
from spark.sweep.cells import Cell, cells_of
from spark.sweep.progress import Progress, clock
from spark.sweep.results import Outcome


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


def test_a_clock_has_hours_minutes_and_seconds() -> None:
    assert [clock(seconds) for seconds in (0.2, 61, 3661)] == ["0:00:00", "0:01:01", "1:01:01"]
