"""Grids: what is in them, and what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from sims.scenarios import library
from sims.scenarios.files import parse
from spark.errors import GridError
from spark.sweep.cells import Cell
from spark.sweep.grid import Grid, cells, over, read_grids, read_seeds, read_setting


def grid_file(directory: Path, text: str) -> Path:
    path = directory / "grid.toml"
    path.write_text(text)
    return path


def told(found: tuple[Cell, ...]) -> list[tuple[str, ...]]:
    return [(cell.run.given, *cell.run.changes, f"seed {cell.run.seed}") for cell in found]


def test_a_grid_is_the_product_of_its_lists_most_work_first(tmp_path: Path) -> None:
    text = (
        "scenario = ['crash', 'arc']\nnodes = [8, 32]\nseeds = [3, 5]\n"
        "[set]\nprofile = 'wan'\n'faults.0.count' = [1, 2]\n"
    )
    found = cells(read_grids(grid_file(tmp_path, text)))
    assert set(told(found)) == {
        (scenario, f"nodes={nodes}", "profile=wan", f"faults.0.count={count}", f"seed {seed}")
        for scenario in ("crash", "arc")
        for nodes in (8, 32)
        for count in (1, 2)
        for seed in (3, 5)
    }
    costs = [cell.cost for cell in found]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1]
    assert len({cell.run_id for cell in found}) == 16


def test_a_table_may_be_written_as_tables(tmp_path: Path) -> None:
    text = "nodes = 8\nseeds = 1\n[set.ring]\nchords = ['rank', 'none']\nbackups = 3\n"
    assert {cell.run.changes for cell in cells(read_grids(grid_file(tmp_path, text)))} == {
        ("nodes=8", f"ring.chords={chords}", "ring.backups=3") for chords in ("rank", "none")
    }


def test_a_file_may_hold_several_grids(tmp_path: Path) -> None:
    text = "[[grid]]\nnodes = 8\nseeds = 2\n[[grid]]\nscenario = 'arc'\nseeds = [2]\n"
    found = cells(read_grids(grid_file(tmp_path, text)))
    assert sorted(cell.run.file.name for cell in found) == ["arc", "crash", "crash"]
    assert [cell.nodes for cell in found if cell.run.given == "arc"] == [128]


def test_a_scenario_of_ones_own_lies_beside_the_grid(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(library.find("arc").text)
    (cell,) = cells(read_grids(grid_file(tmp_path, "scenario = 'mine.toml'\nseeds = 1\n")))
    assert cell.run.file.name == "mine"
    assert Path(cell.run.given).samefile(tmp_path / "mine.toml")


def test_the_defaults_make_a_grid() -> None:
    found = cells([Grid()])
    assert sorted({cell.nodes for cell in found}) == [64, 256, 1024]
    assert len(found) == 15


def test_what_is_said_on_the_command_line_comes_before_the_file(tmp_path: Path) -> None:
    text = "nodes = 8\nseeds = 1\n[set]\nprofile = 'wan'\n'faults.0.count' = 3\n"
    grids = over(
        read_grids(grid_file(tmp_path, text)),
        nodes=(16,),
        seeds=None,
        set=dict([read_setting("profile=lan,local")]),
    )
    assert {cell.run.changes for cell in cells(grids)} == {
        ("nodes=16", f"profile={profile}", "faults.0.count=3") for profile in ("lan", "local")
    }


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("3", (1, 2, 3)), ("3,7", (3, 7)), ("5-8", (5, 6, 7, 8))],
)
def test_seeds_are_a_number_a_list_or_from_and_to(text: str, seeds: tuple[int, ...]) -> None:
    assert read_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("profile=lan,wan", ("lan", "wan")),
        ("faults.0.share=0.1, 0.25", (0.1, 0.25)),
        ("faults.0.groups=[0.5,0.5],[0.3,0.7]", ([0.5, 0.5], [0.3, 0.7])),
        ("churn.0.replace=true", (True,)),
        ("about='a, b'", ("a, b",)),
    ],
)
def test_a_setting_is_a_key_and_its_values(text: str, values: tuple[object, ...]) -> None:
    assert read_setting(text) == (text.partition("=")[0], values)


def test_values_reach_the_scenario_as_they_are(tmp_path: Path) -> None:
    text = "scenario='partition-and-merge'\nseeds=1\n[set]\nabout='a \"b\", true'\n"
    text += "'faults.0.groups'=[[0.25, 0.75]]\n"
    (cell,) = cells(read_grids(grid_file(tmp_path, text)))
    scenario = parse(cell.run.file, cell.run.changes)
    assert scenario.about == 'a "b", true'
    assert getattr(scenario.faults[0], "groups", None) == (0.25, 0.75)


def test_a_cell_named_twice_runs_once() -> None:
    said = {"faults.0.count": (3, 3)}
    assert len(cells([Grid(nodes=(8, 8), seeds=(1, 1), set=said)])) == 1


def test_a_key_of_a_scenario_says_where_it_belongs(tmp_path: Path) -> None:
    with pytest.raises(GridError, match=r"grid\.toml .*'crash_share'; .* belongs under \[set\]"):
        read_grids(grid_file(tmp_path, "crash_share = 0.1\n"))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("nodes = [8]\nseeds = ]", r"is no TOML.*line 2"),
        ("nodes = []", "nodes names no value"),
        ("nodes = 'many'", "nodes"),
        ("seeds = 0", "seeds is 0; .* or a list"),
        ("seeds = 10_000_000", "seeds is 10000000"),
        ("nodes = 8\n[[grid]]\nnodes = 9", "nothing beside them"),
        ("grid = [3]", "must be a table"),
    ],
)
def test_an_impossible_file_is_named(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(GridError, match=rf"(grid .*grid\.toml.*)?{named}"):
        read_grids(grid_file(tmp_path, text))


def test_a_grid_that_is_no_text_or_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_bytes(b"nodes = [8]\xff")
    with pytest.raises(GridError, match=r"grid\.toml is no text in UTF-8"):
        read_grids(tmp_path / "grid.toml")
    with pytest.raises(GridError, match=r"none\.toml cannot be read"):
        read_grids(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("grid", "named"),
    [
        (Grid(scenario=("crahs",)), "nearest is 'crash'"),
        (Grid(nodes=(0,)), "nodes"),
        (Grid(set={"profile": ("moon",)}), "'moon'"),
        (Grid(set={"fault.0.count": (1,)}), "nearest is 'faults'"),
        (Grid(set={"faults.0.count": (1.5,)}), r"crash\.toml: .*count"),
        (Grid(scenario=("none.toml",)), r"cannot read none\.toml"),
    ],
)
def test_an_impossible_value_is_named(grid: Grid, named: str) -> None:
    with pytest.raises(GridError, match=named):
        cells([grid])


def test_seeds_are_written_in_a_file_as_in_a_command(tmp_path: Path) -> None:
    text = "\ufeffscenario = 'arc'\nnodes = 8\nseeds = '5-7'\n"
    found = cells(read_grids(grid_file(tmp_path, text)))
    assert sorted(cell.run.seed for cell in found) == [5, 6, 7]


@pytest.mark.parametrize("text", ["1,many", "0", "9-3", "1-99999999", ""])
def test_seeds_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(GridError, match="seeds"):
        read_seeds(text)


@pytest.mark.parametrize("text", ["profile", "=lan", "profile=", "profile=lan,"])
def test_a_setting_without_key_or_value_is_refused(text: str) -> None:
    with pytest.raises(GridError, match="give key=value"):
        read_setting(text)


def test_units_and_records_are_axes_like_others() -> None:
    axes = {"units.limit": (4, 5), "records.each": (2, 8), "seconds": (5,)}
    found = cells([Grid(scenario=("units-under-churn",), seeds=(1,), set=axes)])
    assert len({cell.run_id for cell in found}) == 4
    named = {"units.named": (["eu/a", "us"],)}
    with pytest.raises(GridError, match="leave out levels or named"):
        cells([Grid(scenario=("units-under-churn",), seeds=(1,), set=named)])
