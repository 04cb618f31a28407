"""The same seed gives the same bytes, in whatever process and whatever the hashes."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

PROGRAM = """
import sys
from pathlib import Path
from sims.dataset import write
from sims.scenarios import library
from sims.scenarios.files import parse
from sims.scenarios.play import play
for what in sys.argv[2:]:
    nodes, seed, mode = what.split()
    changes = [f"nodes={nodes}", "faults.0.share=0.2", f"faults.0.mode={mode}"]
    scenario = parse(library.find("crash"), changes)
    write(play("crash", scenario, int(seed)).result, Path(sys.argv[1], what))
"""


#: Runs: brokers, seed, how some of them die.
KILL, POWER, OTHER = "30 3 kill", "30 3 power", "30 4 kill"


def written(out: Path, hash_seed: str, *experiments: str) -> dict[str, dict[str, str]]:
    """Simulate in a process of its own; return the digests of what it wrote, by file."""
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(out), *experiments],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
    )
    return {what: digests(out / what) for what in experiments}


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    return written(tmp_path_factory.mktemp("first"), "1", KILL, POWER, OTHER)


def test_the_same_seed_gives_the_same_files_in_every_process(
    first: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    second = written(tmp_path, "2", POWER, KILL)  # what went before must not matter either
    for experiment in (KILL, POWER):
        assert len(first[experiment]) == 2
        assert first[experiment] == second[experiment]


def test_another_seed_gives_other_files(first: dict[str, dict[str, str]]) -> None:
    assert first[KILL].keys() != first[OTHER].keys()
    assert set(first[KILL].values()) & set(first[OTHER].values()) == set()
