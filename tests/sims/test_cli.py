"""``chordal sim``: what it prints for people and machines, and what it refuses."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from ges.cli.main import run as run_root
from overlay.errors import ConfigError
from sims.cli import sim
from sims.errors import InvariantViolated
from sims.scenarios import library
from sims.stories import stories
from tests.mutants import MUTANTS

SMALL = ["--nodes", "12", "--set", "faults.0.share=0.25"]


def chordal(*arguments: str | Path) -> Result:
    return CliRunner().invoke(sim, [str(argument) for argument in arguments])


def printed(*arguments: str | Path) -> dict[str, Any]:
    """The one JSON object a command prints."""
    result = chordal(*arguments, "--json")
    assert result.exception is None, result.exception
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_list_names_every_scenario_and_every_story_with_one_line_each() -> None:
    lines = [each for each in chordal("list").stdout.splitlines() if not each.startswith("# ")]
    names = [line.split(": ")[0] for line in lines]
    assert names == [*library.names(), *sorted(stories.BY_NAME)]
    assert len(set(names)) == len(names)
    assert all(line.endswith(".") for line in lines[-len(stories.STORIES) :]), "whole sentences"
    told = printed("list")
    assert list(told) == names
    assert told["quiet"].startswith("Nothing is done to a ring: ")


def test_a_run_is_told_in_words_with_the_verdict_last(tmp_path: Path) -> None:
    result = chordal("run", "crash", *SMALL, "--out", tmp_path)
    assert result.exception is None, result.exception
    lines = result.stdout.splitlines()
    assert lines[0].startswith("12 brokers, 3 crashes, ")
    [name] = [path.stem for path in (tmp_path / "runs").iterdir()]
    assert name.startswith("crash-n12-s1-")
    assert lines[-1] == f"{name}: 3 of 3 crashes repaired, all promises held"
    for words in ("detected after", "confirmed after", "repaired after", "messages a crash"):
        [line] = [line for line in lines if line.startswith(words)]
        assert "median " in line
    assert f"written: {tmp_path / 'runs' / name}.parquet" in lines
    assert result.stderr == ""


def test_a_run_is_told_in_json() -> None:
    found = printed("run", "crash", *SMALL, "--seed", "7", "--set", "faults.0.mode=kill")
    assert found["run_id"].startswith("crash-n12-s7-")
    assert (found["scenario"], found["nodes"], found["seed"]) == ("crash", 12, 7)
    assert (found["crashes"], found["repaired"], found["invariants_held"]) == (3, 3, True)
    assert 0 < found["detection_s"]["p50"] <= found["repair_s"]["p50"] <= found["repair_s"]["max"]
    assert found["events"] > 1000
    assert found["files"] == dict.fromkeys(["runs", "incidents", "probes", "traffic"])


def test_files_are_where_it_says(tmp_path: Path) -> None:
    found = printed("run", "crash", *SMALL, "--out", tmp_path)
    assert parquet.read_table(found["files"]["runs"]).num_rows == 1
    assert parquet.read_table(found["files"]["incidents"]).num_rows == 3


LATE = ["--nodes", "8", "--set", "seconds=5", "--set", "faults.0.count=1"]


@pytest.mark.parametrize(
    ("when", "said"),
    [
        (["faults.0.at_s=9"], "does not happen: it is planned at 9 s, and the run ends at 5 s"),
        (
            ["faults.0.at_s=1", "faults.0.over_s=8"],
            "may not happen in full: it is spread up to 9 s, and the run ends at 5 s",
        ),
    ],
)
def test_a_fault_that_is_planned_after_the_end_is_told(
    when: list[str], said: str, tmp_path: Path
) -> None:
    given = [*LATE[2:], *(word for change in when for word in ("--set", change))]
    result = chordal("run", "crash", *LATE[:2], *given)
    told = f"not done: faults[0] (crash) {said}; give it more seconds, or 0 for as many as needed"
    assert told in result.stdout.splitlines()
    assert printed("run", "crash", *LATE[:2], *given)["late"] == [f"faults[0] (crash) {said}"]
    sizes = ["--set", "nodes=8", "--seeds", "1", "--minutes", "0", "--out", str(tmp_path / "c")]
    assert told in chordal("campaign", "crash", *given, *sizes).stderr.splitlines()


def test_the_profile_decides_the_times() -> None:
    size = ["--nodes", "40", "--set", "faults.0.share=0.3"]
    slow, fast = (printed("run", "crash", *size, "--set", f"profile={p}") for p in ("wan", "local"))
    # Those of only three crashes would be 1.0 and 0.9 s for a seed.
    assert slow["detection_s"]["p50"] > 3 * fast["detection_s"]["p50"]


def test_a_run_without_crashes_says_so() -> None:
    lines = chordal("run", "crash", "--nodes", "3", "--set", "faults.0.share=0").stdout.splitlines()
    assert len(lines) == 3
    assert lines[1] == "done: nothing; 3 brokers alive in the end"
    assert lines[-1].endswith(": all promises held")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tea"], "no scenario 'tea'; nearest is "),
        (["retruns"], "no scenario 'retruns'; nearest is 'returns'; 'chordal sim list' lists"),
        (["crush"], "nearest is 'crash'"),
        (["early_starters"], "nearest is 'early-starters'"),
        (["scopes"], "no scenario 'scopes'"),
        (["quiet", "--nodes", "64"], "--nodes: quiet is a story, and takes only --seed, --seeds"),
        (["quiet", "--set", "nodes=3"], "--set: quiet is a story"),
        (["quiet", "--out", "folder"], "--out: quiet is a story"),
        (
            ["crash", "--seeds", "2"],
            "--seeds: crash is a scenario; 'chordal sim campaign' runs many",
        ),
        (["crash", "--nodes", "0"], "crash.toml: nodes: expected int >= 1"),
        (["crash", "--set", "faults.0.share=2"], "faults[0].share: expected float <= 1"),
        (["crash", "--set", "faults.0.share=nan"], "faults[0].share: "),
        (["crash", "--set", "faults.0.mode=slowly"], "no 'slowly'; "),
        (["crash", "--set", "profile=mars"], "profile: no 'mars'; "),
        (["crash", "--seed", str(2**63)], "seed is 9223372036854775808, must be between"),
    ],
)
def test_what_makes_no_sense_is_named(arguments: list[str], words: str) -> None:
    result = chordal("run", *arguments)
    assert isinstance(result.exception, ConfigError)
    assert words in str(result.exception)
    assert "\n" not in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["crash", "--nodes", "many"], "'--nodes'"),
        (["quiet", "--seeds", "0"], "'--seeds'"),
        ([], "NAME"),
    ],
)
def test_what_cannot_be_read_is_a_usage_error(arguments: list[str], words: str) -> None:
    result = chordal("run", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_story_is_played_with_each_seed() -> None:
    result = chordal("run", "early-starters", "--seed", "4", "--seeds", "2")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "seed 4: nothing wrong",
        "seed 5: nothing wrong",
        "early-starters: nothing wrong with 2 seeds",
    ]
    assert printed("run", "early-starters", "--seed", "4") == {
        "story": "early-starters",
        "seeds": [{"seed": 4, "findings": []}],
    }


def test_what_a_story_finds_wrong_is_told_seed_by_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One seed finds much, one a ring that does not come to rest, and one nothing."""

    def sad(seed: int) -> list[str]:
        if seed == 2:
            raise InvariantViolated("not at rest")
        return [] if seed == 3 else [f"finding {number}" for number in range(12)]

    monkeypatch.setitem(stories.BY_NAME, "sad", sad)
    assert run_root(["sim", "run", "sad", "--seeds", "3"]) == 1
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "seed 1: 12 findings",
        *(f"  finding {number}" for number in range(10)),
        "  and 2 more",
        "seed 2: 1 finding",
        "  not at rest",
        "seed 3: nothing wrong",
    ]
    assert said.err == (
        "chordal: error: sad went wrong with 2 of 3 seeds; "
        "see it again with: chordal sim run sad --seed 1 [promise-broken]\n"
    )
    assert run_root(["sim", "run", "sad", "--seeds", "3", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [len(played["findings"]) for played in found["seeds"]] == [12, 1, 0]


def test_a_broken_protocol_is_found_by_the_command() -> None:
    [mutant] = [mutant for mutant in MUTANTS if mutant.name == "suspicion-is-death"]
    with mutant.applied():
        result = chordal("run", "kills")
    assert isinstance(result.exception, InvariantViolated)
    assert result.stdout.startswith("seed 1: ")


def test_shares_that_differ_have_files_of_their_own(tmp_path: Path) -> None:
    shares = ("0.25", "0.2500001")
    for share in shares:
        change = f"faults.0.share={share}"
        chordal("run", "crash", "--nodes", "4", "--set", change, "--out", tmp_path)
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_a_seed_of_any_size_that_is_taken_can_be_written(tmp_path: Path) -> None:
    for seed in (2**63 - 1, 1 - 2**63):
        found = printed("run", "crash", "--nodes", "2", "--seed", str(seed), "--out", tmp_path)
        assert parquet.read_table(found["files"]["runs"])["seed"].to_pylist() == [seed]


def test_a_place_that_cannot_be_written_is_refused_before_the_simulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: object) -> None:
        raise AssertionError("simulated in vain")

    monkeypatch.setattr("sims.scenarios.play.play", never)
    place = tmp_path / "file"
    place.write_text("")
    result = chordal("run", "crash", "--out", place)
    assert isinstance(result.exception, ConfigError)
    assert str(place) in str(result.exception)


def python(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)


def test_importing_the_commands_costs_no_more_than_click() -> None:
    heavy = "{'msgspec', 'rich', 'pyarrow', 'trio', 'random', 'ring'}"
    program = f"import sys, sims.cli; print(sorted({heavy} & set(sys.modules)))"
    allowed = python("import sys, click; print(sorted({'random'} & set(sys.modules)))")
    assert python(program).stdout == allowed.stdout


RUN = f"from sims.cli import sim; sim({['run', 'crash', *SMALL]})"


def test_in_a_pipe_there_is_no_progress_bar() -> None:
    assert python(RUN).stderr == ""


def test_on_a_terminal_the_stages_and_the_clock_are_shown() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", RUN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.close(theirs)
        shown = b"".join(everything_from(ours)).decode()
        assert process.stdout is not None
        told = process.stdout.read()
    assert "virtual" in shown
    assert "coming to rest" in shown
    assert told.splitlines()[-1].endswith("all promises held")


def everything_from(terminal: int) -> Iterator[bytes]:
    """Yield what is shown on a terminal until nobody holds its other end."""
    with os.fdopen(terminal, "rb", buffering=0) as shown, contextlib.suppress(OSError):
        while piece := shown.read(4096):
            yield piece
