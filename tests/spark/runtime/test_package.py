"""chordal as one file: what is in it runs without the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from spark.cli import recovery
from spark.errors import PackError
from spark.runtime.package import write_archive

SHOWN = "import spark.sweep.cells as cells; print(cells.__file__)"


def test_an_executor_imports_from_the_archive(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "chordal.zip")
    ran = subprocess.run(
        [sys.executable, "-c", SHOWN],
        cwd=tmp_path,
        env={"PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == f"{archive}/spark/sweep/cells.py\n"


def test_the_same_code_makes_the_same_archive(tmp_path: Path) -> None:
    one, two = (write_archive(tmp_path / name).read_bytes() for name in ("one", "two"))
    assert one == two


def test_the_job_runs_any_command_with_nothing_but_the_archive(tmp_path: Path) -> None:
    """It does what spark-submit does in Python: the archive on the path, and then the job."""
    made = CliRunner().invoke(recovery, ["pack", str(tmp_path / "job")], standalone_mode=False)
    assert made.exception is None
    assert f"--py-files {tmp_path / 'job' / 'chordal.zip'} {tmp_path / 'job' / 'job.py'}" in (
        made.stdout
    )
    (tmp_path / "tmp").mkdir()
    ran = subprocess.run(
        [sys.executable, tmp_path / "job" / "job.py", "sim", "list"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "job" / "chordal.zip"), "TMPDIR": str(tmp_path / "tmp")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "crash-many: a share of all" in ran.stdout
    assert list((tmp_path / "tmp").iterdir()) == []


def test_where_nothing_can_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(PackError, match=r"missing/chordal\.zip cannot be written: No such"):
        write_archive(tmp_path / "missing" / "chordal.zip")
