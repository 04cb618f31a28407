"""Fixtures of the event service's tests."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from benchmarks.stage.brokers import Brokers, running
from benchmarks.stage.virtual import Weather
from ges.access.token_file import issue_token
from overlay.authority.authority import Authority, create_authority, issue_identity
from overlay.net.transport import MakeTransport, TcpTransport
from overlay.security.identity import Role

DAY = timedelta(days=1)

Issue = Callable[..., Path]


@pytest.fixture
def weather() -> Weather:
    """A network in memory; whole brokers are on it in a test that asks for it."""
    return Weather()


@pytest.fixture
def transport(request: pytest.FixtureRequest) -> MakeTransport:
    """How whole brokers make their connections: in memory where there is weather, else over TCP."""
    if "weather" not in request.fixturenames:
        return TcpTransport
    weather: Weather = request.getfixturevalue("weather")
    return weather.transport


@pytest.fixture
async def brokers(transport: MakeTransport) -> AsyncIterator[Brokers]:
    async with running(transport) as started:
        yield started


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


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """Where the tokens of brokers are to be."""
    return tmp_path / "tokens.json"


@pytest.fixture
def token(book: Path) -> str:
    """A token of that book."""
    return issue_token(book, "line-1", int(time.time()), None)
