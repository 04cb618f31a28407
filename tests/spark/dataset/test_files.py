"""Data sets that cannot be analysed: each error names the file, and the column or line."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overlay.trace_schema import SCHEMA_VERSION, Incident, Run
from spark.dataset.files import VERSIONS, check_dataset, check_file, find_files, run_ids
from spark.errors import DatasetError
from tests.spark import rows
from tests.spark.study import write_rows


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows.write_parquet(tmp_path, rows.run("sim"), [rows.incident("sim")])
    rows.write_json(tmp_path, rows.run("live", source="live"), [rows.incident("live")])
    return tmp_path


def refused(path: Path, record: type[Run] | type[Incident], *parts: str) -> None:
    """Check that ``path`` is refused in one line that names it and all ``parts``."""
    with pytest.raises(DatasetError) as caught:
        check_file(path, record)
    text = str(caught.value)
    assert "\n" not in text
    assert [part for part in (str(path), *parts) if part not in text] == []


def rewrite(path: Path, change: str, column: pa.Array | None = None) -> None:
    """Write a Parquet file again with the column ``change`` replaced, or left out."""
    table = pq.read_table(path)
    kept = table.drop_columns([change])
    pq.write_table(kept if column is None else kept.append_column(change, column), path)


def test_good_files_pass(data: Path) -> None:
    files = check_dataset(data)
    for paths in (files.runs, files.incidents):
        assert [path.name for path in paths] == ["live.jsonl", "sim.parquet"]


def test_rows_are_counted_before_spark_starts(data: Path) -> None:
    assert check_dataset(data).rows == 4


@pytest.mark.parametrize("with_statistics", [True, False])
@pytest.mark.parametrize("verdicts", [["lost"], ["lost", "open"], ["open", "open", "lost"]])
def test_values_are_checked_whatever_statistics_say(
    data: Path, verdicts: list[str], with_statistics: bool
) -> None:
    path = data / "incidents" / "sim.parquet"
    one = pq.read_table(path).drop_columns(["verdict"])
    table = pa.concat_tables([one] * len(verdicts)).append_column("verdict", pa.array(verdicts))
    pq.write_table(table, path, write_statistics=with_statistics, row_group_size=2)
    refused(path, Incident, "verdict", "lost")


@pytest.mark.parametrize("name", ["runs/sim.parquet", "incidents/live.jsonl"])
def test_one_bad_file_spoils_the_data_set(data: Path, name: str) -> None:
    (data / name).write_bytes(b"nothing")
    with pytest.raises(DatasetError, match=name):
        check_dataset(data)


def test_a_file_that_may_not_be_read_is_not_called_broken(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*arguments: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(pq, "ParquetFile", locked)  # root may read everything
    refused(data / "runs" / "sim.parquet", Run, "cannot be read", "Permission denied")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=re.escape(str(tmp_path / "nowhere"))):
        find_files(tmp_path / "nowhere", Run)


def test_a_folder_that_is_no_data_set_is_named(data: Path) -> None:
    for path in (data / "incidents").iterdir():
        path.unlink()
    (data / "incidents").rmdir()
    with pytest.raises(DatasetError, match=rf"{data}.*'incidents'"):
        find_files(data, Incident)


def test_where_the_trace_of_a_broker_is_to_be_found_is_said(data: Path) -> None:
    (home := data / "home").mkdir()
    for folder in ("runs", "incidents"):
        (home / "trace" / folder).mkdir(parents=True)
    with pytest.raises(DatasetError, match=rf"{home} is no data set.*in {home / 'trace'}"):
        find_files(home, Run)


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / ".half.parquet").touch()
    with pytest.raises(DatasetError, match=rf"{tmp_path}/runs is empty"):
        find_files(tmp_path, Run)


def test_files_of_writers_at_work_are_passed_over(data: Path) -> None:
    (data / "runs" / ".sim.parquet.77").write_bytes(b"PAR1")
    (data / "runs" / "_SUCCESS").touch()
    assert len(find_files(data, Run)) == 2
    assert list(run_ids(data)) == ["sim"]


def test_a_file_of_another_kind_is_named(data: Path) -> None:
    (data / "runs" / "notes.txt").touch()
    with pytest.raises(DatasetError, match=r"notes\.txt"):
        find_files(data, Run)


@pytest.mark.parametrize("length", [0, 4, 500])
def test_half_a_parquet_file_is_named(data: Path, length: int) -> None:
    path = data / "incidents" / "sim.parquet"
    path.write_bytes(path.read_bytes()[:length])
    refused(path, Incident, "no whole Parquet file")


def test_an_older_file_is_read_and_what_it_lacks_is_unknown(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version later the column is there; of what was written before, nobody knows it."""
    for path in ((data / "incidents" / "sim.parquet"), (data / "incidents" / "live.jsonl")):
        if path.suffix == ".parquet":
            rewrite(path, "degree")
        else:
            row = msgspec.to_builtins(rows.incident("live"))
            del row["degree"]
            path.write_bytes(msgspec.json.encode(row))
        refused(path, Incident, "degree")
        monkeypatch.setitem(VERSIONS, Incident, SCHEMA_VERSION + 1)
        check_file(path, Incident)
        monkeypatch.setitem(VERSIONS, Incident, SCHEMA_VERSION)


def test_an_older_file_without_a_column_that_must_have_a_value_is_refused(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VERSIONS, Incident, SCHEMA_VERSION + 1)
    path = data / "incidents" / "sim.parquet"
    rewrite(path, "messages")
    refused(path, Incident, "no column 'messages'")


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (7, "reads versions up to 2: a newer chordal wrote it"),
        (0, "has schema version 0, which no chordal has written"),
    ],
)
def test_a_version_that_cannot_be_read_is_told_in_words(
    data: Path, version: int, words: str
) -> None:
    path = data / "runs" / "sim.parquet"
    rewrite(path, "schema_version", pa.array([version]))
    refused(path, Run, words)


def test_what_is_broken_is_left_out_with_all_of_its_run(data: Path) -> None:
    rows.write_parquet(data, rows.run("whole"), [rows.incident("whole")])
    path = data / "incidents" / "sim.parquet"
    path.write_bytes(path.read_bytes()[:-5])
    (data / "runs" / "notes.txt").touch()
    with pytest.raises(DatasetError, match=r"notes\.txt"):
        check_dataset(data)
    left = check_dataset(data, skip_broken=True)
    assert left.skipped == ("incidents/sim.parquet", "runs/notes.txt", "runs/sim.parquet")
    names = ["live.jsonl", "whole.parquet"]
    assert [p.name for p in left.runs] == [p.name for p in left.incidents] == names


def test_where_all_is_broken_nothing_is_analysed(data: Path) -> None:
    for path in (data / "incidents").iterdir():
        path.write_bytes(b"no rows")
    with pytest.raises(DatasetError, match=f"nothing is left of {data}"):
        check_dataset(data, skip_broken=True)


def test_a_missing_column_is_named(data: Path) -> None:
    path = data / "incidents" / "sim.parquet"
    rewrite(path, "repaired_ns")
    refused(path, Incident, "'repaired_ns'")


def test_a_column_of_the_wrong_type_is_named(data: Path) -> None:
    path = data / "incidents" / "sim.parquet"
    rewrite(path, "repaired_ns", pa.array(["soon"]))
    refused(path, Incident, "'repaired_ns'", "string", "integer")


def test_an_unknown_verdict_is_named(data: Path) -> None:
    path = data / "incidents" / "sim.parquet"
    rewrite(path, "verdict", pa.array(["perhaps"]))
    refused(path, Incident, "'verdict'", "'perhaps'")


def test_another_schema_version_is_named_before_its_columns(data: Path) -> None:
    path = data / "runs" / "sim.parquet"
    rewrite(path, "schema_version", pa.array([7]))
    rewrite(path, "scenario")
    refused(path, Run, "schema version 7")


@pytest.mark.parametrize("tail", [b'{"schema_version":1,"run_id":"li', b"\xff\xfe\n"])
def test_a_broken_line_is_named(data: Path, tail: bytes) -> None:
    path = data / "runs" / "live.jsonl"
    path.write_bytes(path.read_bytes() + tail)
    refused(path, Run, "line 2", "remove that line")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"messages": "many"}, "messages"),
        ({"verdict": "perhaps"}, "verdict"),
        ({"schema_version": 7}, "schema version 7"),
    ],
)
def test_a_line_that_is_no_row_is_named(data: Path, change: dict[str, object], named: str) -> None:
    path = data / "incidents" / "live.jsonl"
    row = msgspec.to_builtins(rows.incident("live")) | change
    path.write_bytes(b"\n" + msgspec.json.encode(row) + b"\n")
    refused(path, Incident, "line 2", named)


def test_a_line_without_a_column_is_named(data: Path) -> None:
    path = data / "incidents" / "live.jsonl"
    row = msgspec.to_builtins(rows.incident("live"))
    del row["repaired_ns"]
    path.write_bytes(msgspec.json.encode(row))
    refused(path, Incident, "line 1", "repaired_ns")


def test_a_run_whose_incidents_are_missing_is_named(tmp_path: Path) -> None:
    """It would look like one without failures; a run without failures has a file with no rows."""
    rows.write_parquet(tmp_path, rows.run("r1"), [rows.incident("r1")])
    rows.write_parquet(tmp_path, rows.run("r2"))
    assert len(check_dataset(tmp_path).runs) == 2
    (tmp_path / "incidents" / "r1.parquet").unlink()
    with pytest.raises(DatasetError, match=r"runs/r1.parquet has no file of incidents"):
        check_dataset(tmp_path)
    left = check_dataset(tmp_path, skip_broken=True)
    assert [path.name for path in left.runs] == ["r2.parquet"]
    assert left.skipped == ("runs/r1.parquet",)


def test_rows_that_were_put_together_have_any_name(tmp_path: Path) -> None:
    write_rows(tmp_path / "runs" / "all.parquet", Run, [rows.run("r1"), rows.run("r2")])
    write_rows(tmp_path / "incidents" / "part-0.parquet", Incident, [rows.incident("r1")])
    assert len(check_dataset(tmp_path).runs) == 1
