"""``chordal sim run --like``: drills are read from files, and played again in the simulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from ges.drills.figures import measured
from ges.drills.record import Record
from overlay.errors import ConfigError
from overlay.trace_schema import Deed, Incident
from sims.cli import sim
from sims.twin.comparison import Side, compare, missing
from sims.twin.drills import read
from sims.twin.twin import Twin, play_like
from tests.helpers import rows as rows_of

MS = 10**6


def chordal(*arguments: object) -> Result:
    return CliRunner().invoke(sim, [str(argument) for argument in arguments])


def deed(run_id: str, kind: str, subject: str, step: int) -> Deed:
    return Deed(
        run_id=run_id,
        round=1,
        step=step,
        kind=kind,
        subject=subject,
        other="b" if kind == "cut" else None,
        n=6,
        began_ns=step * 10_000 * MS,
        ended_ns=None,
        uncertainty_ns=MS,
        clocks_ns=MS,
        rtt_ms=(0.4, 0.6, 0.8),
    )


@pytest.fixture
def drill(tmp_path: Path) -> Path:
    """Two kills and a pause on a ring of six, as a drill would have written them."""
    record = Record(tmp_path / "drill")
    record.begin(6, "lan", {"pause_s": 2.0, "cut_s": 2.0})
    record.add([], [deed(record.run_id, kind, "a", at) for at, kind in enumerate(("kill",) * 2, 1)])
    record.add([], [deed(record.run_id, "pause", "c", 3)])
    return tmp_path / "drill"


def test_a_deed_that_is_there_twice_is_named(drill: Path) -> None:
    (path,) = (drill / "deeds").glob("*.jsonl")
    path.with_name("copy.jsonl").write_bytes(path.read_bytes())
    with pytest.raises(ConfigError, match=r"the kill of a in step 1 of .* is there twice"):
        read(drill)


def test_what_nobody_saw_end_counts_in_both_sides_of_a_comparison() -> None:
    deeds = [deed("r", "kill", "a", at) for at in range(1, 5)]
    rows = [
        rows_of.incident(
            run_id="r",
            subject="a",
            failed_ns=each.began_ns,
            suspected_ns=each.began_ns + 500 * MS,
            confirmed_ns=each.began_ns + 600 * MS,
            repaired_ns=each.began_ns + 900 * MS if at else None,
            chords_repaired_ns=None,
        )
        for at, each in enumerate(deeds)
    ]
    whole = [
        msgspec.structs.replace(row, repaired_ns=(row.failed_ns or 0) + 900 * MS) for row in rows
    ]
    found = compare(Side(deeds, rows), Side(deeds, whole), 0.0)
    total = {each.quantile: each for each in found if each.phase == "total"}
    assert total["p50"].live == pytest.approx(0.9)
    assert total["p99"].live is None
    assert (total["p50"].verdict, total["p99"].verdict) == ("as expected", "slower")
    assert (total["p99"].seen, total["p99"].struck) == (3, 4)


def test_each_of_the_conditions_is_played_as_often_as_wanted(drill: Path) -> None:
    drills = read(drill)
    assert sorted(drills.conditions.values()) == [1, 2]
    assert drills.clocks_s == pytest.approx(0.002)
    twin = play_like(drills, 3, 1)
    assert twin.plays == 6
    assert sorted(each.kind for each in twin.deeds) == ["kill"] * 3 + ["pause"] * 3
    assert twin.broken == ()
    found = measured(twin.deeds, twin.incidents)
    assert len(found["kill", "total"]) == 3
    assert all(took.is_over and 0 < took.seconds < 5 for took in found["kill", "total"])
    assert play_like(drills, 3, 1) == twin, "the seed decides it"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Twin:
    record = Record(tmp_path_factory.mktemp("played"))
    record.begin(6, "lan", {"pause_s": 2.0, "cut_s": 2.0})
    record.add([], [deed(record.run_id, "kill", "a", 1)])
    return play_like(read(record.files["runs"].parents[1]), 20, 1)


def later(rows: tuple[Incident, ...], by_ns: int) -> list[Incident]:
    """The same incidents, with all but the deaths so much later."""
    names = ("suspected_ns", "confirmed_ns", "repaired_ns", "chords_repaired_ns")
    return [
        msgspec.structs.replace(
            row, **{n: at + by_ns for n in names if (at := getattr(row, n)) is not None}
        )
        for row in rows
    ]


def test_what_is_alike_is_as_expected_and_what_is_later_is_slower(played: Twin) -> None:
    side = Side(played.deeds, played.incidents)
    assert {each.verdict for each in compare(side, side, 0.0)} == {"as expected"}
    slow = Side(played.deeds, later(played.incidents, 500 * MS))
    found = {(each.phase, each.quantile): each.verdict for each in compare(slow, side, 0.0)}
    assert found["total", "p50"] == found["detection", "p50"] == "slower"
    assert found["confirmation", "p50"] == "as expected", "it is between two that came later"
    busy = Side(played.deeds, later(played.incidents, 200 * MS))
    told = {(each.phase, each.quantile): each for each in compare(busy, side, 0.0)}
    assert told["detection", "p50"].verdict == "work", "a socket has told of it: no timer"
    assert told["detection", "p50"].work_s == pytest.approx(0.2)
    assert "slower" not in {each.verdict for each in told.values()}
    clocks = {each.verdict for each in compare(slow, side, 0.6)}
    assert clocks == {"as expected"}, "clocks that are off by more explain it"
    assert "detection after a kill: only simulated" in missing(Side(played.deeds, []), side)


def test_both_are_printed_side_by_side_and_drawn(drill: Path, tmp_path: Path) -> None:
    plot = tmp_path / "p.svg"
    told = chordal("run", "--like", drill, "--plays", "2")
    assert told.exception is None, told.exception
    assert "live and simulated, 3 strikes on a ring of 6; 4 plays" in told.stdout
    assert "nothing to compare: no strike was noticed on both sides" in told.stdout
    (run_id,) = (path.stem for path in (drill / "runs").iterdir())
    rows = "".join(
        msgspec.json.encode(incident_of(run_id, step)).decode() + "\n" for step in (1, 2)
    )
    (drill / "incidents" / f"{run_id}.jsonl").write_text(rows)
    told = chordal("run", "--like", drill, "--plays", "2", "--json", "--plot", plot)
    assert told.exception is None, told.exception
    found: dict[str, Any] = json.loads(told.stdout)
    totals = [each for each in found["compared"] if each["phase"] == "total"]
    assert {each["live"] for each in totals} == {2.0}
    assert all(each["seen"] == each["struck"] == 2 for each in totals)
    assert "live (2)" in plot.read_text()
    lines = chordal("run", "--like", drill, "--plays", "2").stdout.splitlines()
    assert lines[1].startswith("what may differ: times by what the clocks are off; and brokers of")
    assert lines[1].endswith("took up to 0.500 s more where nobody waits for a timer")
    assert " of 12 quantiles differ by more than that: " in lines[-1]


def incident_of(run_id: str, step: int) -> Incident:
    began = step * 10_000 * MS
    return Incident(
        run_id=run_id,
        incident_id=f"a/{step}",
        verdict="broker_failed",  # type: ignore[arg-type]
        subject="a",
        subject_ring_id=1,
        observer=None,
        n=6,
        degree=4,
        failed_ns=began,
        suspected_ns=began + 1000 * MS,
        confirmed_ns=began + 1500 * MS,
        repaired_ns=began + 2000 * MS,
        chords_repaired_ns=None,
        messages=9,
        witnesses=(),
    )


@pytest.mark.parametrize(
    ("folder", "line", "why"),
    [
        ("deeds", "{", "line 4"),
        ("deeds", '{"run_id": "x"}', "missing required field"),
        ("runs", "[]", "line 2"),
    ],
)
def test_a_damaged_file_is_named(drill: Path, folder: str, line: str, why: str) -> None:
    (path,) = (drill / folder).iterdir()
    path.write_text(path.read_text() + line + "\n")
    result = chordal("run", "--like", drill)
    assert isinstance(result.exception, ConfigError)
    assert str(path) in str(result.exception)
    assert why in str(result.exception)


def test_a_newer_version_is_not_read(drill: Path) -> None:
    (path,) = (drill / "deeds").iterdir()
    path.write_text(path.read_text().replace('"schema_version":1', '"schema_version":2'))
    result = chordal("run", "--like", drill)
    assert isinstance(result.exception, ConfigError)
    assert "is of version 2" in str(result.exception)


def test_a_folder_without_a_drill_says_how_to_make_one(tmp_path: Path) -> None:
    result = chordal("run", "--like", tmp_path)
    assert isinstance(result.exception, ConfigError)
    assert "holds no drill; make one with: chordal drill" in str(result.exception)
