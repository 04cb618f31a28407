"""The programs on the page of the clients run as they stand, and print what stands below them."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from overlay.authority.authority import create_authority, issue_identity
from overlay.security.identity import Role
from tests.ges.conftest import DAY
from tests.helpers.broker_thread import broker_thread

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "clients.md").read_text()
#: Each program, and the indented lines that follow it.
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n((?:    [^\n]*\n)+)", PAGE, re.DOTALL)
LIMIT_SECONDS = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a client's identity is."""
    folder = tmp_path_factory.mktemp("programs")
    authority = create_authority(folder / "authority", name="test", lifetime=10 * DAY)
    issue_identity(authority, folder / "broker", role=Role.BROKER, lifetime=DAY)
    issue_identity(authority, folder / "me", role=Role.CLIENT, lifetime=DAY)
    return folder


@pytest.fixture(scope="module")
def place(folder: Path) -> Iterator[str]:
    """HOST:PORT of a broker for plain and for secure clients."""
    with broker_thread() as brokers:
        yield brokers.start(identity=folder / "broker").url.removeprefix("chordal://")


def test_every_program_has_its_output() -> None:
    assert len(PROGRAMS) == PAGE.count("```python") == 7


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program_prints_what_stands_below_it(number: int, folder: Path, place: str) -> None:
    program, output = PROGRAMS[number]
    assert "127.0.0.1:9470" in program
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program.replace("127.0.0.1:9470", place)],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == textwrap.dedent(output)
