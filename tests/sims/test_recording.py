"""Rows that are written while a scenario is played: whole or not, in groups, by partition."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from pyarrow import parquet

from benchmarks.stage.waiting import eventually
from overlay.errors import ConfigError
from overlay.release import software_version
from overlay.trace_schema import Fate, Probe, Traffic
from sims import recording as recordings
from sims.recording import Recording
from sims.scenarios.files import ScenarioFile, parse
from sims.scenarios.play import Outcome, play, run_id
from sims.scenarios.results import RunResult
from tests.helpers.rows import incident, probe, run, traffic

RESULT = RunResult(run(), (incident(),), 1)

EVENTS = """
about = "events flow, and a broker dies"
nodes = 4
mode = "whole"
seconds = 8
[[faults]]
kind = "crash"
count = 1
at_s = 4
[workload]
publishers = 2
topics = 2
rate = 10
"""


def all_files(directory: Path) -> list[str]:
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file())


def recorded(directory: Path, text: str = EVENTS, seed: int = 1) -> tuple[Outcome, dict[str, Path]]:
    scenario = parse(ScenarioFile("mine", text, Path()))
    named = run_id("mine", scenario, seed)
    with Recording(directory, "mine", scenario.nodes, named) as recording:
        outcome = play("mine", scenario, seed, rows=recording)
        return outcome, recording.finish(outcome.result)


def test_a_run_says_of_each_event_and_subscriber_what_became_of_it(tmp_path: Path) -> None:
    outcome, files = recorded(tmp_path)
    assert outcome.verdict is not None
    rows = [
        msgspec.convert(row, Probe)
        for row in parquet.ParquetFile(files["probes"]).read().to_pylist()
    ]
    assert len(rows) == outcome.verdict.fates.total()
    assert {row.run_id for row in rows} == {outcome.result.run.run_id}
    for fate in Fate:
        assert sum(row.fate is fate for row in rows) == outcome.verdict.fates[fate]
    assert all(
        (row.delivered_ns or 0) > row.published_ns and row.copies == 1
        for row in rows
        if row.fate is Fate.ONCE
    )
    [died] = [each for each in outcome.result.incidents if each.failed_ns is not None]
    near = [row for row in rows if row.fault is not None]
    assert {(row.fault, row.fault_ns) for row in near} == {("crash", died.failed_ns)}
    assert any(row.struck == "subscriber" and row.subscriber_broker == died.subject for row in near)
    # Each publisher has one of the two topics, and each subscriber wants one.
    topics = {
        row.subscriber: {r.topic for r in rows if r.subscriber == row.subscriber} for row in rows
    }
    assert [len(held) for held in topics.values()] == [1] * 4


def test_what_brokers_sent_adds_up(tmp_path: Path) -> None:
    outcome, files = recorded(tmp_path)
    rows = [
        msgspec.convert(row, Traffic)
        for row in parquet.ParquetFile(files["traffic"]).read().to_pylist()
    ]
    assert outcome.verdict is not None
    delivered = sum(row.events_delivered or 0 for row in rows)
    assert delivered >= outcome.verdict.fates[Fate.ONCE]
    for broker in {row.broker for row in rows}:
        spans = [(row.from_ns, row.to_ns) for row in rows if row.broker == broker]
        assert [until for _, until in spans][:-1] == [since for since, _ in spans][1:]
        assert spans[0][0] == 0
    assert all(row.messages > 0 and row.bytes > row.messages and row.links for row in rows[:4])


def test_the_ring_alone_has_traffic_and_no_probes(tmp_path: Path) -> None:
    _, files = recorded(tmp_path, 'about = "x"\nnodes = 8\nseconds = 5')
    assert sorted(files) == ["incidents", "runs", "traffic"]
    rows = parquet.ParquetFile(files["traffic"]).read().to_pylist()
    assert {row["events_forwarded"] for row in rows} == {None}
    assert all(10 < row["bytes"] / row["messages"] < 200 for row in rows)


def test_other_settings_are_another_run(tmp_path: Path) -> None:
    _, files = recorded(tmp_path)
    _, others = recorded(tmp_path, EVENTS.replace("rate = 10", "rate = 5"))
    assert {path.name for path in files.values()} & {path.name for path in others.values()} == set()
    assert {path.parent for path in files.values()} == {path.parent for path in others.values()}


def test_tables_lie_in_partitions_and_the_run_comes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed: list[str] = []
    replace = os.replace

    def watched(old: Path, new: Path) -> None:
        placed.append(str(new))
        replace(old, new)

    monkeypatch.setattr("os.replace", watched)
    with Recording(tmp_path, "a b/c", 8, "r") as recording:
        recording.on_probe(probe())
        recording.on_traffic(traffic())
        recording.finish(RESULT)
    assert [str(Path(path).relative_to(tmp_path)) for path in placed] == [
        "probes/scenario=a%20b%2Fc/nodes=8/r.parquet",
        "traffic/scenario=a%20b%2Fc/nodes=8/r.parquet",
        "incidents/r.parquet",
        "runs/r.parquet",
    ]


def test_rows_leave_memory_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "GROUP_ROWS", 10)
    with Recording(tmp_path, "s", 8, "r") as recording:
        for number in range(25):
            recording.on_probe(probe(sequence=number))
            [table] = recording._tables.values()
            assert len(table._rows) < 10
        files = recording.finish(RESULT)
    file = parquet.ParquetFile(files["probes"])
    assert [file.metadata.row_group(at).num_rows for at in range(3)] == [10, 10, 5]
    assert file.read().column("sequence").to_pylist() == list(range(25))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left")])
def test_what_is_interrupted_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    monkeypatch.setattr(recordings, "GROUP_ROWS", 2)
    with Recording(tmp_path, "s", 8, "r") as recording:
        recording.on_probe(probe())
        recording.on_probe(probe())
        assert all_files(tmp_path) != []

        def broken(self: object, table: object) -> None:
            raise error

        monkeypatch.setattr(parquet.ParquetWriter, "write_table", broken)
        recording.on_probe(probe())
        with pytest.raises(
            KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else ConfigError
        ):
            recording.on_probe(probe())
    assert all_files(tmp_path) == []


def test_what_other_attempts_have_left_goes_when_the_run_is_there(tmp_path: Path) -> None:
    """Their process may have been killed, or live on another machine, with the same id."""
    folder = tmp_path / "probes" / "scenario=s" / "nodes=8"
    folder.mkdir(parents=True)
    (folder / f".r.parquet.{os.getpid()}").write_text("half, of an earlier chordal")
    (folder / ".r.parquet.0123456789abcdef").write_text("half")
    (folder / ".r2.parquet.0123456789abcdef").write_text("of another run")
    with Recording(tmp_path, "s", 8, "r") as recording:
        recording.on_probe(probe())
        recording.finish(RESULT)
    assert all_files(folder) == [".r2.parquet.0123456789abcdef", "r.parquet"]


def test_two_attempts_at_one_run_in_one_process_do_not_meet(tmp_path: Path) -> None:
    """The slower one finds its file removed, and the same run there."""
    with Recording(tmp_path, "s", 8, "r") as slow, Recording(tmp_path, "s", 8, "r") as fast:
        for number in range(recordings.GROUP_ROWS):
            for recording in (slow, fast):
                recording.on_probe(probe(sequence=number))
        files = fast.finish(RESULT)
        slow.on_probe(probe())
        assert slow.finish(RESULT) == files
    assert all_files(tmp_path / "probes") == ["scenario=s/nodes=8/r.parquet"]
    assert parquet.ParquetFile(files["probes"]).metadata.num_rows == recordings.GROUP_ROWS


def test_the_row_of_a_run_says_what_its_file_says_with_the_keys_of_set(tmp_path: Path) -> None:
    outcome, _ = recorded(tmp_path)
    assert json.loads(outcome.result.run.parameters) == {
        "faults.0.at_s": 4.0,
        "faults.0.count": 1,
        "faults.0.kind": "crash",
        "mode": "whole",
        "seconds": 8.0,
        "version": software_version(),
        "workload.topics": 2,
        "workload.publishers": 2,  # and the rate is as if it were left out
    }


def test_a_disk_that_is_full_ends_the_command_with_one_line(tmp_path: Path) -> None:
    """The limit of a file's size stands for the disk: the kernel refuses to write on."""
    (tmp_path / "mine.toml").write_text(EVENTS)
    command = "import sys; from ges.cli.main import main; sys.argv[0] = 'chordal'; main()"
    done = subprocess.run(
        [sys.executable, "-c", command, "sim", "run", "mine.toml", "--out", "data"],
        cwd=tmp_path,
        # Python itself does not see that it writes half a file of compiled code.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)),
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("chordal: error: cannot write data/")
    assert "give another folder" in done.stderr
    assert done.stderr.count("\n") == 1
    assert all_files(tmp_path / "data") == []


@pytest.mark.soak  # the first group of rows takes a minute of events
def test_ctrl_c_ends_the_command_and_leaves_no_file(tmp_path: Path) -> None:
    text = EVENTS.replace("seconds = 8", "seconds = 20000").replace("rate = 10", "rate = 200")
    (tmp_path / "mine.toml").write_text(text)
    command = "import sys; from ges.cli.main import main; sys.argv[0] = 'chordal'; main()"
    with subprocess.Popen(
        [sys.executable, "-c", command, "sim", "run", "mine.toml", "--out", "data"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        probes = tmp_path / "data" / "probes"
        eventually(lambda: probes.exists() and all_files(probes) != [], 60.0, "a first group")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert (out, "Traceback" in err) == ("", False)
    assert all_files(tmp_path / "data") == []


def test_a_long_run_keeps_no_old_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is judged while it goes on is what would have been judged in the end."""
    text = EVENTS.replace("seconds = 8", "seconds = 30").replace("rate = 10", "rate = 4")
    scenario = parse(ScenarioFile("mine", text, Path()))
    rows: list[Probe] = []

    class Rows:
        def on_probe(self, row: Probe) -> None:
            rows.append(row)

        def on_traffic(self, row: Traffic) -> None:
            pass

    whole = play("mine", scenario, 1, rows=Rows())
    late, rows = sorted(rows, key=str), []
    monkeypatch.setattr("sims.scenarios.play.HORIZON_NS", 15_000_000_000)
    by_and_by = play("mine", scenario, 1, rows=Rows())
    assert sorted(rows, key=str) == late
    assert [row.published_ns for row in rows] != [row.published_ns for row in late]
    assert whole.verdict == by_and_by.verdict
