"""``chordal bench ges22``: the published experiment with its 25 processes."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
from pathlib import Path

import pytest

from benchmarks.stage.processes import REPOSITORY, chordal
from benchmarks.stage.waiting import eventually
from ges.operations.local_brokers import COMMAND

pytestmark = pytest.mark.live

MARK = "GES22_TEST"


def marked(value: str) -> list[int]:
    """The processes that have a mark in their environment."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                environment = (folder / "environ").read_bytes()
            except OSError:
                continue  # it is gone, or another's
            if f"{MARK}={value}".encode() in environment:
                found.append(int(folder.name))
    return found


@pytest.mark.soak
def test_the_quick_run_measures_the_hops_that_the_paper_states(tmp_path: Path) -> None:
    value = secrets.token_hex(16)
    done = subprocess.run(
        [*COMMAND, "bench", "ges22", "--quick", "--out", str(tmp_path)],
        env={**os.environ, MARK: value},
        capture_output=True,
        text=True,
        timeout=540,
        cwd=REPOSITORY,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert marked(value) == []
    one, two = json.loads((tmp_path / "ges22.json").read_bytes())
    assert one["hops"] == {"10": 9}
    assert two["hops"] == {"10": 4, "1": 2, "22": 1}
    for results in (one, two):
        assert len(results["played"]) == 8
        for played in results["played"]:
            assert played["crowd_received"] == played["crowd_expected"] > 0
            for sample in played["samples"]:
                assert sample["received"] == sample["expected"] > 0
    for played in two["played"]:
        if played["cell"]["is_half"]:
            by_broker = {sample["broker"]: sample["mean_ms"] for sample in played["samples"]}
            assert by_broker[10] > by_broker[1] > by_broker[22], "latency falls with hops"
    names = {path.name for path in tmp_path.iterdir()}
    assert {"ges22.csv", "latency-1.svg", "throughput-1.svg", "hops.svg"} <= names


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_ends_it_leaves_no_process_behind(number: signal.Signals) -> None:
    value = secrets.token_hex(16)
    process = subprocess.Popen(
        [*COMMAND, "bench", "ges22", "--quick", "--topology", "1"],
        env={**os.environ, MARK: value},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )
    try:
        eventually(lambda: len(marked(value)) > 4, 60.0)
        process.send_signal(number)
        _, told = process.communicate(timeout=30)
        assert process.returncode == (130 if number is signal.SIGINT else 1)
        assert "Traceback" not in told
        assert marked(value) == []
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--match", "33"), "a match rate is one of 100, 50, 25, 10"),
        (("--size", "20"), "an event has 30 to 500 bytes"),
        (("--rate", "5000"), "a rate is 1 to 1000 events a second, or 'half'"),
        (("--topology", "3"), "'3' is not one of"),
    ],
)
def test_what_is_not_of_the_experiment_is_refused(options: tuple[str, ...], said: str) -> None:
    found = chordal("bench", "ges22", *options)
    assert found.returncode == 2
    assert said in found.stderr
