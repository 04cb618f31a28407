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
from sims.experiments.experiment import Experiment, run
from sims.world.world import CrashMode
nodes, seed, mode, out = sys.argv[1:]
experiment = Experiment(
    nodes=int(nodes), seed=int(seed), crash_share=0.2, crash_mode=CrashMode(mode)
)
write(run(experiment), Path(out))
"""


def digests(out: Path, hash_seed: str, *arguments: str) -> dict[str, str]:
    """Simulate in a process of its own; return what it wrote, by file."""
    subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments, str(out)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
    )
    files = sorted(path for path in out.rglob("*") if path.is_file())
    return {str(path.relative_to(out)): sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("mode", ["kill", "power"])
def test_the_same_seed_gives_the_same_files_in_every_process(tmp_path: Path, mode: str) -> None:
    first = digests(tmp_path / "a", "1", "40", "3", mode)
    second = digests(tmp_path / "b", "2", "40", "3", mode)
    assert len(first) == 2
    assert first == second


def test_another_seed_gives_other_files(tmp_path: Path) -> None:
    first = digests(tmp_path / "a", "1", "20", "3", "kill")
    second = digests(tmp_path / "b", "1", "20", "4", "kill")
    assert first.keys() != second.keys()
    assert set(first.values()) & set(second.values()) == set()
