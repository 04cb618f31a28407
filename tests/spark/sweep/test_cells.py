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
from spark.sweep.cells import cells_of, cost, simulate

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
