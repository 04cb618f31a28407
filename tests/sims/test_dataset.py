"""The data set on disk: its columns, its bytes, and what happens when it cannot be written."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from typing import IO, TypeVar

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from overlay.errors import ConfigError, InvariantError
from overlay.trace_schema import Incident, Run, Verdict
from sims.dataset import arrow_schema, prepare, write
from sims.scenarios.results import RunResult
from tests.helpers.rows import incident, run

S = TypeVar("S", bound=msgspec.Struct)

RESULT = RunResult(run(), (incident(), incident(incident_id="c/1", failed_ns=None)), 1)


def rows(path: Path, kind: type[S]) -> list[S]:
    return [msgspec.convert(row, kind) for row in parquet.read_table(path).to_pylist()]


def all_files(directory: Path) -> list[str]:
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file())


def refused(directory: Path, *words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        write(RESULT, directory)
    text = str(caught.value)
    assert "\n" not in text
    assert [word for word in words if word not in text] == [], text


# What is written


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    run_file, incident_file = write(RESULT, tmp_path / "new" / "set")
    assert rows(run_file, Run) == [RESULT.run]
    assert rows(incident_file, Incident) == list(RESULT.incidents)
    assert all_files(tmp_path) == ["new/set/incidents/r.parquet", "new/set/runs/r.parquet"]


def test_a_run_without_incidents_has_an_empty_table_of_them(tmp_path: Path) -> None:
    _, incident_file = write(RunResult(run(), (), 1), tmp_path)
    table = parquet.read_table(incident_file)
    assert (table.num_rows, table.schema.names) == (0, list(Incident.__struct_fields__))


def test_runs_of_other_names_are_left_alone(tmp_path: Path) -> None:
    write(RESULT, tmp_path)
    write(RunResult(run(run_id="s"), (), 1), tmp_path)
    write(RunResult(run(seed=2), (), 1), tmp_path)
    assert len(all_files(tmp_path)) == 4
    assert rows(tmp_path / "runs" / "r.parquet", Run)[0].seed == 2


def test_columns_follow_from_the_structs() -> None:
    columns = {field.name: field for field in arrow_schema(Incident)}
    assert list(columns) == list(Incident.__struct_fields__)
    assert columns["failed_ns"].type == pa.int64()
    assert columns["failed_ns"].nullable
    assert columns["verdict"].type == pa.string()
    assert not columns["verdict"].nullable
    assert columns["witnesses"].type == pa.list_(pa.string())
    assert [f.name for f in arrow_schema(Run) if f.nullable] == [
        "nodes",
        "seed",
        "started_unix_ns",
        "duration_ns",
    ]


def test_reals_have_a_column_type() -> None:
    class Measured(msgspec.Struct):
        mean: float | None
        curve: tuple[float, ...]

    columns = {field.name: field for field in arrow_schema(Measured)}
    assert (columns["mean"].type, columns["mean"].nullable) == (pa.float64(), True)
    assert (columns["curve"].type, columns["curve"].nullable) == (pa.list_(pa.float64()), False)


def test_a_field_without_a_column_type_is_our_bug() -> None:
    class Strange(msgspec.Struct):
        when: complex

    with pytest.raises(InvariantError, match="BUG"):
        arrow_schema(Strange)


def test_the_same_result_makes_the_same_bytes(tmp_path: Path) -> None:
    first = [path.read_bytes() for path in write(RESULT, tmp_path / "a")]
    assert [path.read_bytes() for path in write(RESULT, tmp_path / "b")] == first
    assert [path.read_bytes() for path in write(RESULT, tmp_path / "a")] == first
    changed = RunResult(run(), (incident(verdict=Verdict.OPEN),), 1)
    assert [path.read_bytes() for path in write(changed, tmp_path / "c")] != first


# What cannot be written


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    place = tmp_path / "set"
    place.write_text("mine")
    refused(place, str(place), "Not a directory")
    assert place.read_text() == "mine"


def test_a_file_in_place_of_a_sub_folder(tmp_path: Path) -> None:
    (tmp_path / "incidents").write_text("mine")
    refused(tmp_path, str(tmp_path / "incidents"), "there is a file of that name")


def test_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "incidents" / "r.parquet").mkdir(parents=True)
    refused(tmp_path, "r.parquet", "Is a directory")
    assert all_files(tmp_path) == []


def test_a_disk_that_is_full_leaves_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(table: object, file: IO[bytes], **settings: object) -> None:
        file.write(b"PAR1 and then")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(parquet, "write_table", full)
    refused(tmp_path, "r.parquet", "No space left on device")
    assert all_files(tmp_path) == []


def test_an_interruption_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(RESULT, tmp_path)
    before = (tmp_path / "incidents" / "r.parquet").read_bytes()

    def interrupted(table: object, file: IO[bytes], **settings: object) -> None:
        file.write(b"PAR1 and then")
        raise KeyboardInterrupt

    monkeypatch.setattr(parquet, "write_table", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(RESULT, tmp_path)
    assert (tmp_path / "incidents" / "r.parquet").read_bytes() == before
    assert len(all_files(tmp_path)) == 2


def test_the_incidents_are_there_before_their_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader who finds a run may count on its incidents."""
    write_table = parquet.write_table
    written: list[list[str]] = []

    def watched(table: pa.Table, file: IO[bytes], **settings: object) -> None:
        written.append(table.schema.names)
        write_table(table, file, **settings)

    monkeypatch.setattr(parquet, "write_table", watched)
    write(RESULT, tmp_path)
    assert written == [list(Incident.__struct_fields__), list(Run.__struct_fields__)]


def test_prepare_makes_the_folders_and_fails_early(tmp_path: Path) -> None:
    prepare(tmp_path / "set")
    assert sorted(p.name for p in (tmp_path / "set").iterdir()) == ["incidents", "runs"]
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file"):
        prepare(tmp_path / "file")


def test_without_pyarrow_the_extra_is_named(tmp_path: Path) -> None:
    program = f"""
import sys
sys.modules["pyarrow"] = None
from pathlib import Path
from overlay.errors import ConfigError
from sims.dataset import prepare
try:
    prepare(Path({str(tmp_path)!r}))
except ConfigError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        "writing a data set needs the sim extra; in a checkout: pip install '.[sim]'\n"
    )
    assert all_files(tmp_path) == []
