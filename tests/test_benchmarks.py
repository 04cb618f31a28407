"""The commands of the benchmarks refuse what they cannot measure, and judge nothing by too few."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

import pytest

from benchmarks.report import Bars
from benchmarks.speed import kernel
from sims.scenarios import library
from sims.scenarios.files import parse
from sims.scenarios.play import play

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks"
#: Those that take arguments, as what stands behind ``python -m benchmarks.``.
COMMANDS = sorted(
    ".".join(path.relative_to(FOLDER).with_suffix("").parts).removesuffix(".__main__")
    for path in FOLDER.rglob("*.py")
    if "ArgumentParser(" in path.read_text()
)


def imported(folder: str) -> set[str]:
    """The first words of all that the files of a folder import."""
    found = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                found.add(node.module.split(".")[0])
    return found


def run(command: str, monkeypatch: pytest.MonkeyPatch) -> object:
    """Run a command; return its exit code."""
    name, *arguments = command.split()
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    monkeypatch.delitem(sys.modules, f"benchmarks.{name}", raising=False)  # runpy warns of those
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    return ended.value.code


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("speed.events --events 0", "--events: 0 is too few"),
        ("speed.events --brokers 3,1", "--brokers: 1 is too few: at least 2"),
        ("campaigns.moves --faults melt", "--faults: no 'melt'; there are stop, kill"),
        ("campaigns.moves --rounds 0", "--rounds: 0 is too few: at least 1"),
        ("campaigns.live --minutes -1", "--minutes: -1 is not a number above 0"),
        ("campaigns.live --faults kill,tea", "'tea' is not a valid Fault"),
        ("campaigns.live --faults cut,dark --no-proxies", "without proxies there is no cut, dark,"),
        ("campaigns.live --brokers 5", "fewer than six"),
        ("bars.backups --only gain", "--only: no 'gain'; there are loss"),
        ("bars.backups --seeds 0", "--seeds: 0 is too few: at least 1"),
        ("bars.detection --only B99", "--only: no 'B99'; there are B13"),
        ("bars.detection --only B18 --nodes 5", "--nodes: 5 is too few"),
        ("bars.detection --only B18 --profiles moon", "--profiles: no 'moon'"),
        ("bars.detection --scale 0", "--scale: 0 is not a number above 0"),
        ("bars.hops real --pairs 0", "--pairs: 0 is too few"),
        ("bars.hops realy", "no 'realy'; there are calibration, real"),
        ("bars.invariants table", "no 'table'; there are tables"),
        ("bars.joins ids --joins x", "--joins: 'x' is no whole number"),
        ("bars.joins race --seeds -1", "--seeds: -1 is too few"),
        ("bars.merge --brokers 0", "--brokers: 0 is too few"),
        ("bars.merge --partition nan", "--partition: nan is not a number above 0"),
        ("bars.merge --sizes 300,", "--sizes: '' is no whole number"),
        ("bars.resilience after --nodes 1", "--nodes: 1 is too few"),
        ("bars.runs --nodes 10", "--nodes: 10 is too few"),
        ("bars.runs --nodes 198 --shares 0.99", "--shares: of 198 brokers fewer than 5 are left"),
        ("bars.runs --shares 1", "--shares: 1 is not from 0 to below 1"),
        ("bars.traffic --only B99", "--only: no 'B99'; there are B23, B25"),
        ("bars.traffic --only B23 --sizes 20", "--sizes: a line takes two of them"),
        ("speed.links table --rounds 0", "--rounds: 0 is too few: at least 1"),
        ("speed.links table --seconds x", "--seconds: 'x' is no whole number"),
        ("speed.links --only 256,512", "--only: no '512'; there are 256, 4k, 256-secure"),
        ("speed.links tabel", "no 'tabel'; there are table, throughput"),
        ("speed.matching --topics 0", "--topics: 0 is too few"),
        ("speed.subscriptions --kinds x", "--kinds: no 'x'; there are others, same, wild"),
        ("speed.simulator --nodes 0", "--nodes: 0 is too few"),
        ("speed.simulator --quiet 9", "--quiet: 9 is too few: at least 100"),
        ("speed.simulator --span 0", "--span: 0 is not a number above 0"),
        ("speed.kernel --queues 0", "--queues: 0 is too few"),
        ("bars.gaps --seeds 0", "--seeds: 0 is too few"),
        ("speed.clients --events 1", "--events: 1 is too few: at least 2"),
    ],
)
def test_what_measures_nothing_is_refused(
    command: str, named: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command, monkeypatch) == 2
    assert named in capsys.readouterr().err.splitlines()[-1]


def test_the_clock_and_simpy_come_to_the_same() -> None:
    """M/M/1 at a load of 0.7: a customer waits 0.7 * 0.7 / 0.3 s, in the mean."""
    queues = kernel.draw(20, 2000)
    shown = kernel.on_timeline(queues)
    assert shown == kernel.on_simpy(queues)
    assert shown.waited / 40_000 / 1e9 == pytest.approx(0.7 * 0.7 / 0.3, rel=0.1)
    assert shown.alarms > 0


def test_benchmarks_do_without_the_tests_and_packages_without_both() -> None:
    assert "tests" not in imported("benchmarks")
    for package in ("overlay", "ring", "ges", "sims", "spark"):
        assert not {"tests", "benchmarks"} & imported(package)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_says_how_it_is_called(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"{name} --help", monkeypatch) == 0
    assert capsys.readouterr().out.startswith(f"usage: python -m benchmarks.{name} ")


@pytest.mark.parametrize(
    "path", sorted((FOLDER / "bars").glob("*.toml")), ids=lambda path: path.stem
)
def test_a_bar_that_is_a_scenario_is_kept_where_less_is_played(path: Path) -> None:
    scenario = parse(library.find(str(path)), ["nodes=12", "seconds=20"])
    outcome = play(path.stem, scenario, 1)
    assert outcome.broken == []
    assert outcome.done


def test_none_found_meets_a_bar_only_where_enough_was_drawn(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bars = Bars()
    bars.rate("B", "of enough", 0, 300, 0.01)
    assert bars.exit_code == 0
    bars.rate("B", "of few", 0, 299, 0.01)
    assert bars.exit_code == 1
    bars.rate("B", "found", 1, 10, 0.01)
    assert [
        line.rsplit("threshold 0.01  ")[1] for line in capsys.readouterr().out.splitlines()
    ] == [
        "met",
        "not judged: too little was drawn",
        "NOT MET",
    ]
