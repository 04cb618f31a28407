"""Campaigns: many seeds, gone on with after an interruption; and the smallest that goes wrong."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from pyarrow.parquet import ParquetFile

from overlay.errors import ConfigError
from sims.campaign.cells import Shown, read_seeds
from sims.campaign.journal import NAME, Journal
from sims.cli import sim
from sims.errors import InvariantViolated, SimulationError
from sims.scenarios.files import parse, read

ROOT = Path(__file__).parents[3]

QUIET = """about = "two die"
nodes = 12
seconds = 3

[[faults]]
kind = "crash"
count = 2
"""
BROKEN = (
    QUIET
    + """
[[faults]]
kind = "leave"
share = 0.2

[[churn]]
kind = "arrivals"
per_minute = 60

[promises]
repair_p99_s = 0.1
"""
)


def chordal(*arguments: object) -> Result:
    return CliRunner().invoke(sim, [str(argument) for argument in arguments])


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(QUIET)
    return path


def test_a_campaign_has_a_row_for_each_scenario(scenario: Path, tmp_path: Path) -> None:
    result = chordal(
        "campaign", scenario, "--seeds", "1-3", "--workers", "1", "--out", tmp_path / "c", "--json"
    )
    assert result.exception is None, result.exception
    found: dict[str, Any] = json.loads(result.stdout)
    [row] = found["scenarios"]
    assert (row["scenario"], row["runs"], row["crashes"], row["violations"]) == ("mine", 3, 6, 0)
    assert 0 < row["repair_p50_s"] <= row["repair_p99_s"]
    assert found["met"]["crash"]["calm"] >= 3  # both die at the same moment


def test_a_campaign_leaves_the_rows_of_its_runs(scenario: Path, tmp_path: Path) -> None:
    arguments = ["--seeds", "1-2", "--workers", "1", "--out", tmp_path / "c", "--data"]
    result = chordal("campaign", scenario, *arguments)
    assert result.exception is None, result.exception
    files = sorted((tmp_path / "c").rglob("*.parquet"))
    assert [path.relative_to(tmp_path / "c").parts[0] for path in files] == [
        *["incidents"] * 2,
        *["runs"] * 2,
        *["traffic"] * 2,
    ]
    names = [{path.name for path in files if table in path.parts} for table in ("runs", "traffic")]
    assert names[0] == names[1]


def test_a_run_that_goes_wrong_is_told_with_its_command(scenario: Path, tmp_path: Path) -> None:
    arguments = ["--seeds", "4-4", "--workers", "1", "--out", tmp_path / "c"]
    change = ["--set", "promises.repair_p99_s=0.1"]
    result = chordal("campaign", scenario, *arguments, *change)
    assert isinstance(result.exception, InvariantViolated)
    command = f"chordal sim run {scenario} --seed 4 --set promises.repair_p99_s=0.1"
    assert command in result.stdout
    again = chordal(*command.split()[2:])
    assert isinstance(again.exception, InvariantViolated)
    assert f"see it again with: {command}" in str(again.exception)


def test_a_killed_campaign_goes_on_where_it_was(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "c"
    command = "import sys; from ges.cli.main import main; sys.argv[0] = 'chordal'; main()"
    arguments = ["sim", "campaign", scenario, "--seeds", "1-400", "--workers", "1", "--out", out]
    with subprocess.Popen(
        [sys.executable, "-c", command, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        while not ((out / NAME).exists() and (out / NAME).read_bytes().count(b"\n") >= 2):
            assert process.poll() is None
            os.sched_yield()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
    data = (out / NAME).read_bytes()
    (out / NAME).write_bytes(data + b'{"key": "half a li')
    with Journal(out) as journal:
        done = dict(journal.done)
    assert 2 <= len(done) < 400
    last = max(shown.seed for shown in done.values()) + 2
    result = chordal("campaign", scenario, "--seeds", f"1-{last}", "--workers", "1", "--out", out)
    assert result.exception is None, result.exception
    assert f"{len(done)} of {last} runs were done before" in result.stderr
    with Journal(out) as journal:
        assert sorted(shown.seed for shown in journal.done.values()) == list(range(1, last + 1))
        assert {key: journal.done[key] for key in done} == done


def test_another_file_is_another_run(scenario: Path, tmp_path: Path) -> None:
    arguments = ["--seeds", "1", "--workers", "1", "--out", tmp_path / "c"]
    assert chordal("campaign", scenario, *arguments).exception is None
    scenario.write_text(QUIET.replace("count = 2", "count = 3"))
    result = chordal("campaign", scenario, *arguments, "--json")
    assert json.loads(result.stdout)["scenarios"][0]["crashes"] == 3


REPLAYED = """about = "three brokers go"
nodes = 6
seconds = 5

[[churn]]
kind = "replay"
file = "day.csv"
"""
ONE_GOES = "uid,start_s,end_s\na,0,2\nb,0,99\n"
TWO_GO = "uid,start_s,end_s\na,0,2\nb,0,3\n"


@pytest.fixture
def replayed(tmp_path: Path) -> Path:
    path = tmp_path / "replayed.toml"
    path.write_text(REPLAYED)
    return path


def crashes(found: Result) -> int:
    assert found.exception is None, found.exception
    [row] = json.loads(found.stdout)["scenarios"]
    return int(row["crashes"])


def test_what_was_missing_once_is_not_missing_for_ever(replayed: Path, tmp_path: Path) -> None:
    arguments = ["--seeds", "1-2", "--workers", "1", "--out", tmp_path / "c", "--json"]
    result = chordal("campaign", replayed, *arguments)
    assert isinstance(result.exception, ConfigError)
    assert str(result.exception) == f"cannot read {tmp_path / 'day.csv'}: No such file or directory"
    (tmp_path / "day.csv").write_text(ONE_GOES)
    result = chordal("campaign", replayed, *arguments)
    assert crashes(result) == 2
    assert "done before" not in result.stderr


def test_another_content_of_a_file_is_another_run(replayed: Path, tmp_path: Path) -> None:
    arguments = ["--seeds", "1", "--workers", "1", "--out", tmp_path / "c", "--data", "--json"]
    for content, went in ((ONE_GOES, 1), (TWO_GO, 2), (TWO_GO, 2)):
        (tmp_path / "day.csv").write_text(content)
        assert crashes(chordal("campaign", replayed, *arguments)) == went
    runs = [ParquetFile(path).read() for path in (tmp_path / "c" / "runs").iterdir()]
    told = {json.loads(run["parameters"][0].as_py())["churn.0.file"] for run in runs}
    assert len(runs) == len(told) == 2
    assert all(each.startswith("day.csv#") for each in told)


def test_another_version_of_chordal_is_another_run(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = []
    for version in ("1.0", "2.0"):
        monkeypatch.setattr("sims.scenarios.play.software_version", lambda version=version: version)
        run = json.loads(chordal("run", scenario, "--json").stdout)
        assert json.loads(run["parameters"])["version"] == version
        names.append(run["run_id"])
    assert names[0] != names[1]


def test_what_a_full_disk_has_kept_from_being_done_is_tried_again(
    scenario: Path, tmp_path: Path
) -> None:
    """The limit of a file's size stands for the disk: the kernel refuses to write on."""
    out = tmp_path / "c"
    command = "import sys; from ges.cli.main import main; sys.argv[0] = 'chordal'; main()"
    arguments = ["sim", "campaign", scenario, "--seeds", "1-2", "--workers", "1", "--data"]
    done = subprocess.run(
        [sys.executable, "-c", command, *map(str, arguments), "--out", str(out)],
        # Python itself does not see that it writes half a file of compiled code.
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)),
    )
    assert done.returncode == 1, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"chordal: error: 2 of 2 runs could not be done: cannot write {out}/")
    assert last.endswith("the same command tries them again [campaign-failed]")
    assert "File too large" in last
    result = chordal(*arguments[1:], "--out", out)
    assert result.exception is None, result.exception
    assert "done before" not in result.stderr
    assert result.stdout.splitlines()[-1] == "2 of 2 runs done, all promises held"


def test_a_run_that_an_earlier_chordal_noted_as_failed_is_tried_again(tmp_path: Path) -> None:
    failed = Shown(key="k", scenario="s", seed=1, again="", error="the disk is full")
    (tmp_path / NAME).write_bytes(msgspec.json.encode(failed) + b"\n")
    with Journal(tmp_path) as journal:
        assert journal.done == {}


def test_a_journal_that_is_something_else_is_named(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("not json\n")
    with pytest.raises(ConfigError, match=rf"{NAME}, line 1: "):
        Journal(tmp_path)
    assert (tmp_path / NAME).read_text() == "not json\n"


@pytest.fixture
def full_disk() -> Iterator[Callable[[int], None]]:
    """Let no file grow beyond so many bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_is_named_and_nothing_is_lost(
    tmp_path: Path, full_disk: Callable[[int], None]
) -> None:
    first, second = (Shown(key=str(n), scenario="s", seed=n, again="") for n in (1, 2))
    with Journal(tmp_path) as journal:
        journal.add(first)
        full_disk((tmp_path / NAME).stat().st_size + 10)
        with pytest.raises(ConfigError, match="the disk is full"):
            journal.add(second)
    with Journal(tmp_path) as journal:
        assert list(journal.done.values()) == [first]


@pytest.mark.parametrize(
    "text", ["", "a", "0", "3-1", "1-", "1-99999999999", "99999999999", "1,,2"]
)
def test_seeds_that_make_no_sense_are_named(text: str) -> None:
    with pytest.raises(ConfigError, match="seeds are"):
        read_seeds(text)


def test_seeds_are_so_many_or_these() -> None:
    assert list(read_seeds("3")) == [1, 2, 3]
    assert list(read_seeds("3", 7)) == [7, 8, 9]
    assert list(read_seeds("2-4")) == [2, 3, 4]
    assert list(read_seeds("7,3,7")) == [7, 3]
    assert list(read_seeds("-2--1")) == [-2, -1]


# ── the smallest that goes wrong ──────────────────────────────────────────────────────────────


def test_a_scenario_is_made_smaller_while_it_still_goes_wrong(tmp_path: Path) -> None:
    path, small = tmp_path / "mine.toml", tmp_path / "small.toml"
    path.write_text(BROKEN)
    result = chordal("shrink", path, "--seed", "1", "--out", small)
    assert result.exception is None, result.exception
    left = parse(read(small))
    assert (len(left.faults), left.churn) == (1, ())
    assert left.nodes < 12
    assert f"chordal sim run {small} --seed 1" in result.stdout
    again = chordal("run", small, "--seed", "1")
    assert isinstance(again.exception, InvariantViolated)
    assert "repair took" in str(again.exception)


def test_workers_of_a_campaign_that_is_killed_end_as_well(scenario: Path, tmp_path: Path) -> None:
    """``kill -9`` of the command alone: the end of the pipe that all of them hold says so."""
    command = "import sys; from ges.cli.main import main; sys.argv[0] = 'chordal'; main()"
    arguments = ["sim", "campaign", scenario, "--seeds", "1-100000", "--workers", "2"]
    held, given = os.pipe()
    out = tmp_path / "c"
    with subprocess.Popen(
        [sys.executable, "-c", command, *map(str, arguments), "--out", str(out)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=given,
        stderr=given,
        start_new_session=True,
    ) as process:
        os.close(given)
        while not ((out / NAME).exists() and (out / NAME).read_bytes().count(b"\n") >= 2):
            assert process.poll() is None
            os.sched_yield()
        process.kill()
    try:
        while select.select([held], [], [], 30.0)[0]:
            if not os.read(held, 65536):
                return
        pytest.fail("a worker lives on")
    finally:
        os.close(held)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def test_one_that_goes_wrong_with_changes_is_made_smaller_with_them(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has changed a scenario by --set alone need not write a file first."""
    monkeypatch.chdir(tmp_path)
    given = ["--seed", "4", "--set", "promises.repair_p99_s=0.1"]
    result = chordal("shrink", scenario, *given, "--tries", "5")
    assert result.exception is None, result.exception
    assert isinstance(chordal("run", "mine-small.toml", "--seed", "4").exception, InvariantViolated)


def test_files_that_a_scenario_names_are_found_from_the_smaller_one(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "m.csv").write_text("a,b\n0.5,40\n40,0.5\n")
    path = tmp_path / "there" / "far.toml"
    path.write_text(
        BROKEN.replace("seconds = 3", 'seconds = 3\n[network]\nmatrix = "m.csv"', 1)
        + "whole_within_s = 0.001\n"
    )
    small = tmp_path / "small.toml"
    result = chordal("shrink", path, "--seed", "1", "--tries", "2", "--out", small)
    assert result.exception is None, result.exception
    again = chordal("run", small, "--seed", "1")
    assert isinstance(again.exception, InvariantViolated), again.exception


def test_a_campaign_that_is_out_of_time_says_that_it_is_not_done(
    scenario: Path, tmp_path: Path
) -> None:
    result = chordal("campaign", scenario, "--seeds", "1-3", "--minutes", "0", "--out", tmp_path)
    assert result.stdout.splitlines()[-1] == "0 of 3 runs done; the same command goes on"


def test_what_goes_right_has_nothing_smaller(scenario: Path) -> None:
    result = chordal("shrink", scenario, "--seed", "1")
    assert isinstance(result.exception, SimulationError)
    assert "breaks no promise with seed 1" in str(result.exception)


def test_without_its_extra_it_is_named(
    scenario: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "tomli_w", None)
    result = chordal("shrink", scenario, "--seed", "1", "--out", tmp_path / "s.toml")
    assert isinstance(result.exception, ConfigError)
    assert "needs the sim extra" in str(result.exception)
