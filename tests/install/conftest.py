"""Wheels that are built of this checkout, and environments that they are installed into."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("overlay", "ring", "ges", "sims", "spark")
BUILD_SECONDS = 300.0  #: it may have to fetch setuptools


def run(
    *command: str | Path, cwd: Path | None = None, timeout: float = BUILD_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; it knows nothing of this environment or of this checkout."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("CHORDAL_", "PYTHON"))}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=own,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is built, as other tests may build at the same time."""
    folder = tmp_path_factory.mktemp("source")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, folder)
    return folder


class Environment:
    """A fresh virtual environment."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True)
        self.folder = folder

    def install(self, *what: str | Path) -> None:
        """Install packages with the versions that were tested."""
        quiet = ("--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt")
        run(self.folder / "bin" / "python", "-m", "pip", "install", *quiet, *what)

    def chordal(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the installed command to its end, far from this checkout."""
        return run(self.folder / "bin" / "chordal", *arguments, cwd=self.folder)


def build(source: Path, out: Path, *options: str) -> None:
    """Build with ``python -m build``."""
    run(sys.executable, "-m", "build", *options, "--outdir", out, source)
