"""``chordal demo`` as a user runs it: what it shows and refuses, and that it leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import REPOSITORY
from benchmarks.stage.waiting import eventually
from ges.cli.demo import MARK
from ges.operations.local_brokers import COMMAND

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]

DEMO_SECONDS = 300.0  #: for a demo on a machine that has other things to do, too
STOP_SECONDS = 30.0


class Demo:
    """A running demo; ``folder`` is all that its processes have for temporary files."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder / "temporary"
        self.folder.mkdir()
        self.told: list[str] = []
        self.process = subprocess.Popen(
            [*COMMAND, "demo", "--quick", "--out", str(folder / "out"), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, "TMPDIR": str(self.folder)},
        )

    def tells(self, step: str) -> None:
        """Wait for the line of a step."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.told.append(line)
            if line.startswith(f"{step}: "):
                return
        pytest.fail("".join(self.told))

    def ended(self, seconds: float) -> tuple[int, str, str]:
        """Wait for its end; returns exit code, standard output and all of standard error."""
        out, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, out, "".join(self.told) + err

    @property
    def others(self) -> dict[int, str]:
        """Processes it started, directly or not, with their command lines."""
        mark = f"TMPDIR={self.folder}/".encode()
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes():
                    words = (process / "cmdline").read_bytes().split(b"\0")
                    found[int(process.name)] = b" ".join(words).decode()
            except (FileNotFoundError, PermissionError, ProcessLookupError):
                continue  # it has just ended, or is another user's
        return found

    def assert_left_nothing(self) -> None:
        eventually(lambda: not self.others, 10.0, "processes left")
        assert list(self.folder.iterdir()) == []


@contextmanager
def demo(folder: Path, *arguments: str) -> Iterator[Demo]:
    """Run a demo, and whatever happens end it and what it started, by their ids."""
    running = Demo(folder, *arguments)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.communicate()
        for pid in running.others:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.soak  # CI runs ``make demo-quick`` besides
@pytest.mark.spark
def test_it_does_the_main_job_end_to_end(tmp_path: Path) -> None:
    earlier = tmp_path / "out" / "data" / "runs" / "earlier.parquet"
    earlier.parent.mkdir(parents=True)
    earlier.write_text("broken: an analysis that met this would fail")
    (tmp_path / "out" / MARK).touch()
    with demo(tmp_path, "--json") as running:
        code, out, err = running.ended(DEMO_SECONDS)
        assert code == 0, err
        running.assert_left_nothing()
    assert not earlier.exists()
    found = json.loads(out)
    assert found["ring"]["size"] == 8
    for step, brokers in (
        ("events", 8),
        ("secure events", 8),
        ("events since", 7),
        ("clusters", 9),
    ):
        sent = found[step]
        assert (sent["lost"], sent["received"], sent["brokers"]) == (0, 4 * 2000, brokers)
        assert 0 < sent["unaware"] <= brokers - 2
    assert "not secure" in found["a plain hop"]["reason"]
    killed = found["kill -9"]
    assert (killed["size"], killed["observers"] >= 2) == (7, True)
    assert 0 < killed["repaired_ms"] < 10_000
    assert 0 < killed["seconds"] < 30
    assert found["shutdown"]["brokers"] == 7
    assert found["clusters"]["clusters"] == 3
    churn = found["churn"]
    assert churn["nodes"] == 6
    assert churn["done"]["crash"] == churn["done"]["join"] > 0
    assert churn["deliveries"]["once"] > 0
    assert len(list((tmp_path / "out" / "churn" / "probes").rglob("*.parquet"))) == 1
    assert found["sweep"]["done"] == 3
    crashes = [each["broker_failed"] for each in found["analysis"]["counts"]]
    assert sum(crashes) > 1 + 2 + 3  # a twentieth of each simulated ring, and the demo's own
    assert found["analysis"]["report"] == str(tmp_path / "out" / "report" / "index.html")
    assert Path(found["analysis"]["report"]).stat().st_size > 0
    told = [line.partition(": ")[0] for line in err.splitlines() if not line.startswith("$ ")]
    assert told == [
        *("identities", "ring", "events", "secure events", "a plain hop", "kill -9"),
        *("events since", "shutdown", "clusters", "churn", "sweep", "analysis"),
    ]


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.soak),
    ],
)
def test_a_signal_ends_it_and_all_it_started(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with demo(tmp_path) as running:
        running.tells("ring")
        serving = [line for line in running.others.values() if " serve " in line]
        assert len(serving) == 8
        running.process.send_signal(number)
        ended, out, err = running.ended(STOP_SECONDS)
        assert ended == code, err
        assert out == ""
        assert "Traceback" not in err
        assert f"stopped by {number.name}" in err
        running.assert_left_nothing()


@pytest.mark.soak  # how Spark ends is tested in tests/spark/runtime
@pytest.mark.spark
def test_ctrl_c_ends_spark_too(tmp_path: Path) -> None:
    with demo(tmp_path) as running:
        running.tells("shutdown")
        eventually(
            lambda: any("org.apache.spark" in line for line in running.others.values()),
            what="Spark's JVM",
        )
        running.process.send_signal(signal.SIGINT)
        code, _, err = running.ended(STOP_SECONDS)
        assert code == 130, err
        running.assert_left_nothing()


@pytest.mark.soak
def test_a_broker_that_dies_unasked_fails_it_with_that_broker_s_last_words(tmp_path: Path) -> None:
    with demo(tmp_path) as running:
        running.tells("ring")
        serving = [pid for pid, line in running.others.items() if " serve " in line]
        os.kill(serving[-1], signal.SIGKILL)
        code, out, err = running.ended(STOP_SECONDS)
        assert code == 1, err
        assert out == ""
        assert "events: not done" in err
        assert "chordal: error: 'chordal serve " in err
        assert "ended with SIGKILL:" in err
        assert '"event": "joined"' in err
        assert "Traceback" not in err
        running.assert_left_nothing()


def test_a_folder_of_somebody_else_is_refused_and_not_touched(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "diary").write_text("mine")
    refused = chordal_here("demo", "--out", str(tmp_path))
    assert refused.returncode == 2
    assert refused.stderr.splitlines() == [
        f"chordal: error: {tmp_path} holds other things than a demo's results: name another --out "
        "[config]"
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert (tmp_path / "data" / "diary").read_text() == "mine"


def test_a_folder_of_ours_that_somebody_put_something_into_is_refused(tmp_path: Path) -> None:
    (tmp_path / MARK).touch()
    (tmp_path / "diary").write_text("mine")
    refused = chordal_here("demo", "--out", str(tmp_path))
    assert refused.returncode == 2
    assert "name another --out" in refused.stderr
    assert (tmp_path / "diary").read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = chordal_here("demo", "--out", str(tmp_path / "file" / "out"))
    assert refused.returncode == 2
    assert f"--out {tmp_path / 'file' / 'out'} cannot be used" in refused.stderr
    assert "Traceback" not in refused.stderr
