"""The commands of the benchmarks refuse what they cannot measure."""

from __future__ import annotations

import runpy
import sys

import pytest


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("events --events 0", "--events: 0 is too few"),
        ("live --minutes -1", "--minutes: -1 is not a number above 0"),
        ("ring.backups --only gain", "--only: no 'gain'; there are loss"),
        ("ring.backups --seeds 0", "--seeds: 0 is too few: at least 1"),
        ("ring.detection --only B99", "--only: no 'B99'; there are B13"),
        ("ring.detection --only B18 --nodes 5", "--nodes: 5 is too few"),
        ("ring.detection --only B18 --profiles moon", "--profiles: no 'moon'"),
        ("ring.detection --scale 0", "--scale: 0 is not a number above 0"),
        ("ring.hops real --pairs 0", "--pairs: 0 is too few"),
        ("ring.hops realy", "no 'realy'; there are calibration, real"),
        ("ring.invariants table", "no 'table'; there are tables"),
        ("ring.joins ids --joins x", "--joins: 'x' is no whole number"),
        ("ring.joins race --seeds -1", "--seeds: -1 is too few"),
        ("ring.links one --seeds 0", "--seeds: 0 is too few"),
        ("ring.merge --brokers 0", "--brokers: 0 is too few"),
        ("ring.merge --partition nan", "--partition: nan is not a number above 0"),
        ("ring.merge --sizes 300,", "--sizes: '' is no whole number"),
        ("ring.mutants --rounds 0", "--rounds: 0 is too few"),
        ("ring.resilience after --nodes 1", "--nodes: 1 is too few"),
        ("ring.runs --nodes 10", "--nodes: 10 is too few"),
        ("ring.runs --shares 1", "--shares: 1 is not from 0 to below 1"),
        ("ring.traffic --only B99", "--only: no 'B99'; there are B23, B25"),
        ("ring.traffic --only B23 --sizes 20", "--sizes: a line takes two of them"),
        ("simulator --nodes 0", "--nodes: 0 is too few"),
        ("ways --changes 0", "--changes: 0 is too few"),
    ],
)
def test_what_measures_nothing_is_refused(
    command: str, named: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *arguments = command.split()
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    monkeypatch.delitem(sys.modules, f"benchmarks.{name}", raising=False)  # runpy warns of those
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    assert ended.value.code == 2
    assert named in capsys.readouterr().err.splitlines()[-1]
