"""Real clusters on loopback: the same commands, chordal handed to executors, paths as URLs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.errors import SparkFailed
from spark.runtime.session import open_session
from tests.spark import clusters

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]

#: Where the executors' chordal comes from, and then a command: in one process, which is quicker.
DRIVER = """
import sys
from ges.cli.main import run
from spark.runtime.session import open_session

def where(batches):
    import os, spark, pyarrow
    for _ in batches:
        yield pyarrow.RecordBatch.from_pydict({"at": [spark.__file__], "in": [os.getcwd()]})

url, *command = sys.argv[1:]
with open_session(url) as spark:
    rows = spark.range(0, 8, 1, 8).mapInArrow(where, "at string, `in` string").collect()
    print(sorted({row["at"].rpartition("chordal.zip")[2] for row in rows}))
    print(len({row["in"] for row in rows}))
    sys.exit(run([*command, "--master", url]))
"""
GRID = (
    "--nodes",
    "8,16",
    "--seeds",
    "2",
    "--set",
    "faults.0.over_s=2",
    "--set",
    "faults.0.count=2",
)


def carried_out(folder: Path, *command: object, path: Path = ROOT) -> list[str]:
    """Run Python as a user of the cluster does; return what it printed."""
    ran = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env={**clusters.environment(folder), "PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def runs_in(data: Path) -> set[str]:
    return {path.stem for path in (data / "runs").glob("*.parquet")}


@pytest.mark.soak  # two JVMs; test_package has executors import from the archive
def test_a_connect_server_sweeps(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with clusters.connect(tmp_path) as url:
        sweep = ("recovery", "sweep", "--out", f"file://{data}", *GRID)
        at, _, last = carried_out(tmp_path, "-c", DRIVER, url, *sweep)
    assert at == "['/spark/__init__.py']"
    assert last.startswith("4 runs done")
    assert len(runs_in(data)) == 4


@pytest.mark.soak
def test_a_master_with_two_workers_sweeps_and_analyses(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with clusters.standalone(tmp_path) as url:
        sweep = ("recovery", "sweep", "--out", f"file://{data}", *GRID)
        at, executors, last = carried_out(tmp_path, "-c", DRIVER, url, *sweep)
        assert (at, executors) == ("['/spark/__init__.py']", "2")
        assert last.startswith("4 runs done")
        there = analysed(tmp_path, data, "--master", url)
    here = analysed(tmp_path, data)
    assert there["facts"] == here["facts"]
    assert there["quantiles"] == here["quantiles"]


def analysed(folder: Path, data: Path, *options: str) -> dict[str, Any]:
    command = ("recovery", "analyze", data, "--out", folder / "report", "--json", *options)
    (printed,) = carried_out(folder, "-m", "ges.cli.main", *command)
    found: dict[str, Any] = json.loads(printed)
    return found


@pytest.mark.soak
def test_spark_submit_needs_only_the_two_files(tmp_path: Path) -> None:
    data, job = tmp_path / "data", tmp_path / "job"
    carried_out(tmp_path, "-m", "ges.cli.main", "recovery", "pack", job)
    with clusters.standalone(tmp_path) as url:
        submit = (clusters.HOME / "bin" / "spark-submit", "--master", url)
        files = ("--py-files", job / "chordal.zip", job / "job.py")
        sweep = ("recovery", "sweep", "--out", f"file://{data}", *GRID)
        ran = subprocess.run(
            [str(word) for word in (*submit, *files, *sweep)],
            cwd=tmp_path,
            env=clusters.environment(tmp_path),
            capture_output=True,
            text=True,
        )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1].startswith("4 runs done")
    assert len(runs_in(data)) == 4


@pytest.mark.parametrize("scheme", ["sc", "spark"])
def test_a_cluster_that_is_not_there_is_named_at_once(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", staticmethod(lambda: None))
    url = f"{scheme}://127.0.0.1:{clusters.free_port()}"
    with (
        pytest.raises(SparkFailed, match=f"Spark at {url} cannot be reached: "),
        open_session(url),
    ):
        pass
