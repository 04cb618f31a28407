"""Fixtures of the event service's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from benchmarks.stage.brokers import Brokers, running
from benchmarks.stage.virtual import Weather
from overlay.authority.authority import Authority, create_authority, issue_identity
from overlay.security.identity import Role

DAY = timedelta(days=1)

Issue = Callable[..., Path]


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    async with running() as started:
        yield started


@pytest.fixture
def weather(monkeypatch: pytest.MonkeyPatch) -> Weather:
    """A network in memory for whole brokers, to be asked for before those."""
    return Weather(monkeypatch)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return create_authority(tmp_path / "authority", name="test", lifetime=10 * DAY)


@pytest.fixture
def issue(authority: Authority, tmp_path: Path) -> Issue:
    """Issue an identity of one authority and return its folder."""
    issued: list[Path] = []

    def issue(role: Role, lifetime: timedelta = DAY) -> Path:
        issued.append(tmp_path / f"identity-{len(issued)}")
        issue_identity(authority, issued[-1], role=role, lifetime=lifetime)
        return issued[-1]

    return issue
