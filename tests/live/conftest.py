"""Fixtures of the tests with real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.stage.forked import Stem
from benchmarks.stage.processes import Fleet, fleet


@pytest.fixture
def brokers(tmp_path: Path, stem: Stem | None) -> Iterator[Fleet]:
    """Real brokers and commands, forked; all are ended afterwards."""
    with fleet(tmp_path, stem) as found:
        yield found


@pytest.fixture
def started_brokers(tmp_path: Path) -> Iterator[Fleet]:
    """Real brokers and commands, for each of which Python starts, as for a user."""
    with fleet(tmp_path) as found:
        yield found
