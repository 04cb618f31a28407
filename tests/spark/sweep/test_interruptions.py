"""A real sweep that is killed and started again runs nothing twice, and leaves nothing half."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spark.dataset.files import check_dataset
from tests.spark.conftest import JVM_OF_SECONDS

pytestmark = [pytest.mark.spark, pytest.mark.soak]

SWEEP = ("-m", "ges.cli.main", "recovery", "sweep", "--master", "local[1]")
GRID = ("--nodes", "8,16", "--seeds", "3", "--set", "faults.0.over_s=2")


def written(data: Path) -> dict[str, int]:
    """Return when the row of each run was written, nanoseconds since 1970."""
    return {path.stem: path.stat().st_mtime_ns for path in (data / "runs").glob("[!.]*")}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_sweep_that_is_stopped_goes_on_where_it_was(tmp_path: Path, number: int) -> None:
    data = tmp_path / "data"
    command = [sys.executable, *SWEEP, "--out", str(data), *GRID]
    environment = {**os.environ, **JVM_OF_SECONDS}
    with subprocess.Popen(command, env=environment, start_new_session=True) as process:
        deadline = time.monotonic() + 200
        while len(written(data)) < 2:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.killpg(process.pid, number)
    assert process.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 130)
    before = written(data)
    assert 2 <= len(before) < 6
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert f"{6 - len(before)} run" in again.stdout
    assert f"{len(before)} there already" in again.stdout
    after = written(data)
    assert len(after) == 6
    assert {run: after[run] for run in before} == before
    assert len(check_dataset(data).incidents) == 6
