"""A broken promise: what is told of it, and that the command that is printed shows it again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from overlay.ids import Peer
from overlay.release import software_version
from ring.facts import Joined, Suspected
from ring.wire.messages import Member
from sims.cli import sim
from sims.errors import InvariantViolated
from sims.scenarios import steps
from sims.scenarios.deeds import Deed
from sims.scenarios.steps import Steps
from tests.mutants import MUTANTS

PLANTED = """about = "brokers stand still for a moment, and are not dead"
nodes = 16
seconds = 15

[[faults]]
kind = "pause"
share = 0.5
for_s = 0.9
over_s = 10

[promises]
false_deaths = 0
"""


def member(uid: str, ring_id: int) -> Member:
    return Member(Peer(uid, 1, "chordal://a:1"), ring_id)


def chordal(*arguments: str) -> Result:
    return CliRunner().invoke(sim, list(arguments))


def test_a_planted_violation_is_told_and_seen_again_by_the_printed_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The protocol is broken on purpose: whoever is suspected is held for dead."""
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(PLANTED)
    given = ["run", "mine.toml", "--seed", "5", "--set", "faults.0.for_s=0.95"]
    assert chordal(*given).exception is None  # it is the mutant that breaks it
    [mutant] = [mutant for mutant in MUTANTS if mutant.name == "suspicion-is-death"]
    with mutant.applied():
        first = chordal(*given, "--out", "data")
        said = str(first.exception)
        command = said.split("see it again with: ")[1]
        assert command == f"chordal {shlex.join(['sim', *given])}"
        again = chordal(*shlex.split(command)[2:])
    assert isinstance(first.exception, InvariantViolated)
    assert str(again.exception) == said
    assert "\n" not in said  # errors are one line
    lines = first.stderr.splitlines()
    broken = next(line for line in lines if "live brokers were held for dead" in line)
    assert broken.strip() in said
    name = broken.rpartition("[")[2][:8]
    at = lines.index(f"the last steps around it, with seed 5 and chordal {software_version()}:")
    assert 5 < len(lines) - at - 1 <= steps.TOLD
    assert all(" s  " in line for line in lines[at + 1 :])
    assert any(name in line for line in lines[at + 1 :])
    assert len(list(Path("data").rglob("*.parquet"))) == 3  # what went wrong can be analysed


def test_the_same_is_told_in_json(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(PLANTED.replace("for_s = 0.9", "for_s = 8"))
    result = chordal("run", str(tmp_path / "mine.toml"), "--json")
    found = json.loads(result.stdout)
    assert not found["invariants_held"]
    assert found["broken"]
    assert found["steps"]


def test_steps_are_those_of_the_brokers_that_a_sentence_names() -> None:
    uids = [f"{number:032x}"[::-1] for number in range(1, 5)]
    kept = Steps()
    for at, uid in enumerate(uids):
        kept.add(at, Joined(member(uid, at), None, None), uid)
    kept.add(10, Suspected(member(uids[0], 0), "silent"), uids[1])
    kept.add(11, Deed.CUT, uids[2], uids[3])
    [joined, suspected] = kept.around(f"broker {uids[0][:8]} is wrong")
    assert "has its place" in joined
    assert f"{uids[1][:8]} suspects {uids[0][:8]}: silent" in suspected
    assert kept.around(f"{uids[3][:8]}")[-1].endswith(f"link cut: {uids[2][:8]}, {uids[3][:8]}")
    assert len(kept.around("nobody is named")) == 6


def test_no_more_than_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "KEPT", 5)
    kept = Steps()
    for at in range(9):
        kept.add(at, Deed.JOIN, f"{at:032x}")
    assert len(kept.around("all")) == 5
