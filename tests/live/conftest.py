"""Fixtures of the tests with real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.stage.processes import Fleet, fleet


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Fleet]:
    """Real brokers and commands; all are ended afterwards."""
    with fleet(tmp_path) as found:
        yield found
