"""Files that grow: whole lines, each once, whatever comes in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark.errors import DatasetError
from spark.watch import source
from spark.watch.source import Piece, TraceReader, files, read_piece
from tests.spark import rows


def trace(folder: Path, run_id: str, count: int) -> Path:
    """Write a trace of ``count`` failures; return the file with them."""
    run = rows.live_run(run_id)
    incidents = [rows.seen_live(run_id, number) for number in range(count)]
    rows.write_json(folder, run, incidents)
    return folder / "incidents" / f"{run_id}.jsonl"


def pieces(reader: TraceReader, start: dict[str, int]) -> tuple[list[str], dict[str, int]]:
    end = reader.latestOffset(start, None)
    found = [
        incident.incident_id
        for piece in reader.partitions(start, end)
        for incident in read_piece(piece)
    ]
    return found, end


def test_traces_are_found_at_brokers_and_at_several_of_them(tmp_path: Path) -> None:
    made = [
        trace(tmp_path, "live-a", 1),
        trace(tmp_path / "trace", "live-b", 1),
        trace(tmp_path / "one", "live-c", 1),
        trace(tmp_path / "two" / "trace", "live-d", 1),
    ]
    (tmp_path / "incidents" / ".unfinished.jsonl").touch()
    assert files([str(tmp_path)]) == sorted(map(str, made))


def test_each_line_comes_once_and_a_half_one_later(tmp_path: Path) -> None:
    path = trace(tmp_path, "live-a", 2)
    reader = TraceReader([str(tmp_path)])
    found, offset = pieces(reader, reader.initialOffset())
    assert found == ["u0/1", "u1/1"]
    assert pieces(reader, offset) == ([], offset)

    whole = rows.line(rows.seen_live("live-a", 2))
    with path.open("ab") as file:
        file.write(whole[:30])
    assert pieces(reader, offset) == ([], offset)
    with path.open("ab") as file:
        file.write(whole[30:])
    trace(tmp_path / "later", "live-b", 1)
    found, _ = pieces(reader, offset)
    assert found == ["u2/1", "u0/1"]
    assert pieces(reader, offset)[0] == found


def test_a_long_file_comes_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace(tmp_path, "live-a", 5)
    monkeypatch.setattr(source, "MAX_BYTES", 2 * len(rows.line(rows.seen_live("live-a", 0))) + 9)
    reader, seen = TraceReader([str(tmp_path)]), []
    offset: dict[str, int] = {}
    while True:
        found, offset = pieces(reader, offset)
        if not found:
            break
        seen.append(found)
    assert seen == [["u0/1", "u1/1"], ["u2/1", "u3/1"], ["u4/1"]]


def test_the_end_of_an_incident_is_a_time_of_day(tmp_path: Path) -> None:
    path = trace(tmp_path, "live-a", 1)
    (seen,) = read_piece(Piece(str(path), 0, path.stat().st_size))
    assert seen.ended_unix_ns == rows.STARTED_UNIX_NS + (seen.chords_repaired_ns or 0)


def test_a_time_that_cannot_be_read_now_is_not_guessed(tmp_path: Path) -> None:
    """A guess would be kept for ever; of a run that is not there none is known."""
    path = tmp_path / "incidents" / "a.jsonl"
    path.parent.mkdir()
    path.write_bytes(rows.line(rows.seen_live("a", 1)))
    piece = Piece(str(path), 0, path.stat().st_size)
    assert len(list(read_piece(piece))) == 1
    (tmp_path / "runs" / "a.jsonl").mkdir(parents=True)
    with pytest.raises(DatasetError, match="Is a directory"):
        list(read_piece(piece))


def test_a_file_that_was_cut_is_named(tmp_path: Path) -> None:
    path = trace(tmp_path, "live-a", 2)
    reader = TraceReader([str(tmp_path)])
    _, offset = pieces(reader, {})
    path.write_bytes(b"")
    with pytest.raises(DatasetError, match=r"live-a\.jsonl is shorter .* another --checkpoint"):
        reader.latestOffset(offset, None)


@pytest.mark.parametrize(
    ("line", "named"),
    [(b"{\n", "has a broken line"), (b'{"schema_version":99}\n', "has schema version 99")],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path: Path, line: bytes, named: str) -> None:
    path = trace(tmp_path, "live-a", 0)
    path.write_bytes(line)
    with pytest.raises(DatasetError, match=rf"live-a\.jsonl {named}"):
        list(read_piece(Piece(str(path), 0, len(line))))
