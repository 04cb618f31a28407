"""``chordal drill`` at real brokers: who consents, what is struck, and what is written."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Fleet, whole
from benchmarks.stage.waiting import eventually

pytestmark = pytest.mark.live


def rows(folder: Path) -> list[dict[str, object]]:
    return [
        json.loads(line)
        for file in folder.glob("*.jsonl")
        for line in file.read_text().splitlines()
    ]


def test_brokers_that_did_not_consent_are_left_alone(brokers: Fleet) -> None:
    ring = brokers.ring_of(3)
    done = chordal_here("drill", ring[0].url, "--kill", "1", "--gap", "0")
    assert done.returncode == 1
    assert "takes part in no drills; start it with serve --drills" in done.stderr
    assert [broker.process.poll() for broker in ring] == [None] * 3


def test_a_death_is_written_with_its_true_time_and_its_twin_stands_beside_it(
    brokers: Fleet, tmp_path: Path
) -> None:
    """By messages alone: the drill knows URLs, and no processes."""
    ring = brokers.ring_of(4, "--drills", "--profile", "local")
    urls, out = ",".join(broker.url for broker in ring), tmp_path / "data"
    options = ("--gap", "0", "--out", str(out), "--json")
    done = chordal_here("drill", urls, "--kill", "1", "--cut", "1", "--cut-for", "200ms", *options)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (death,) = (deed for deed in found["deeds"] if deed["kind"] == "kill")
    (dead,) = (broker for broker in ring if broker.uid == death["subject"])
    assert dead.ended() == -signal.SIGKILL
    assert f"{dead.uid[:8]} at {dead.url} was ended" in done.stderr, "whoever starts it must know"
    (row,) = (row for row in rows(out / "incidents") if row["failed_ns"] is not None)
    assert (row["subject"], row["n"], row["verdict"]) == (dead.uid, 4, "broker_failed")
    assert row["failed_ns"] == death["began_ns"]
    assert 0 < found["seconds"]["kill.total"][0] < 10
    assert len(rows(out / "deeds")) == 2
    twin = chordal_here("sim", "run", "--like", str(out), "--plays", "5", "--json")
    assert twin.returncode == 0, twin.stderr
    compared = {(each["kind"], each["phase"]) for each in json.loads(twin.stdout)["compared"]}
    assert {("kill", "detection"), ("kill", "total")} <= compared


def test_more_than_the_ring_survives_is_refused_before_anything_breaks(brokers: Fleet) -> None:
    ring = brokers.ring_of(3, "--drills", "--profile", "local")
    done = chordal_here("drill", ring[0].url, "--kill", "2", "--at-once", "2", "--gap", "0")
    assert done.returncode == 1
    assert "survives the loss of any 1 at once, and 2 would be struck" in done.stderr
    whole(ring[0].url, 3)


def test_an_interrupted_drill_ends_the_cut_that_it_has_made(brokers: Fleet) -> None:
    ring = brokers.ring_of(4, "--drills", "--profile", "local")
    drill = brokers.run("drill", ring[0].url, "--cut", "1", "--cut-for", "10m", "--gap", "0")
    eventually(lambda: "are cut off from each other" in drill.out)
    drill.signal(signal.SIGINT)
    assert drill.ended() == 130
    assert drill.err == ""
    here, there = drill.out.split("round 1: ")[1].split(" are cut")[0].split(" and ")

    def linked() -> bool:
        (status,) = (b.status() for b in ring if b.uid.startswith(here))
        return any(link["uid"].startswith(there) for link in status["links"])

    eventually(linked)


def test_a_ring_that_the_drill_starts_ends_with_it(tmp_path: Path) -> None:
    done = chordal_here(
        *("drill", "--start", "3", "--profile", "local", "--kill", "1", "--gap", "0", "--json"),
        *("--out", str(tmp_path)),
    )
    assert done.returncode == 0, done.stderr
    assert "the ring of 3 is whole again" in done.stderr
    assert json.loads(done.stdout)["left"] == []
    (run,) = rows(tmp_path / "runs")
    assert (run["source"], run["scenario"], run["nodes"]) == ("live", "drill", 3)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--start", "4"], "nothing is to be broken"),
        (["--start", "4", "--kill", "1", "chordal://127.0.0.1:1"], "not both"),
        (["--start", "4", "--cut", "1", "--cut-for", "2h"], "600 s at most"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], why: str) -> None:
    done = chordal_here("drill", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
