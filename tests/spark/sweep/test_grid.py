"""Grids: what is in them, and what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from sims.experiments.experiment import Experiment
from spark.errors import GridError
from spark.sweep.grid import cells, read_grid


def grid_file(directory: Path, text: str) -> Path:
    path = directory / "grid.toml"
    path.write_text(text)
    return path


def test_a_grid_is_the_product_of_its_lists_largest_rings_first(tmp_path: Path) -> None:
    text = "nodes = [8, 32]\nseeds = [3, 5]\ncrash_share = [0.1, 0.2]\nprofile = 'wan'\n"
    found = cells(read_grid(grid_file(tmp_path, text)))
    assert [cell.nodes for cell in found] == [32] * 4 + [8] * 4
    assert set(found) == {
        Experiment(nodes=nodes, seed=seed, crash_share=share, profile="wan")
        for nodes in (8, 32)
        for seed in (3, 5)
        for share in (0.1, 0.2)
    }


def test_one_number_of_seeds_is_how_many() -> None:
    assert sorted(cell.seed for cell in cells({"nodes": 8, "seeds": 4})) == [1, 2, 3, 4]


def test_the_defaults_make_a_grid() -> None:
    assert {cell.nodes for cell in cells({})} == {64, 256, 1024}
    assert len(cells({})) == 15


def test_a_cell_named_twice_runs_once() -> None:
    assert len(cells({"nodes": [8, 8], "seeds": [1, 1]})) == 1


def test_an_unknown_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(GridError, match=r"grid\.toml.*'nodez'.*known are.*nodes, seeds"):
        read_grid(grid_file(tmp_path, "nodez = 8\n"))


def test_what_is_no_toml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GridError, match=r"grid\.toml is no TOML.*line 2"):
        read_grid(grid_file(tmp_path, "nodes = [8]\nseeds = ]"))


def test_a_grid_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_bytes(b"nodes = [8]\xff")
    with pytest.raises(GridError, match=r"grid\.toml is no text in UTF-8"):
        read_grid(tmp_path / "grid.toml")


def test_a_missing_grid_is_named(tmp_path: Path) -> None:
    with pytest.raises(GridError, match=r"none\.toml"):
        read_grid(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("grid", "named"),
    [
        ({"nodes": []}, "nodes"),
        ({"seeds": 0}, "seeds is 0; .* at least 1"),
        ({"nodes": "many"}, "nodes"),
        ({"profile": "moon"}, "moon"),
        ({"crash_share": 1.5}, "1.5"),
    ],
)
def test_an_impossible_value_is_named(grid: dict[str, object], named: str) -> None:
    with pytest.raises(GridError, match=named):
        cells(grid)
