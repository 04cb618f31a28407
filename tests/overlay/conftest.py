"""Fixtures of the overlay's tests."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import trio

from overlay.authority.authority import Authority, create_authority, issue_identity
from overlay.security.identity import Identity, Role
from tests.helpers.stations import Overlay

DAY = timedelta(days=1)

Issue = Callable[..., Identity]


@pytest.fixture
async def overlay() -> AsyncIterator[Overlay]:
    async with trio.open_nursery() as nursery:
        yield Overlay(nursery)
        nursery.cancel_scope.cancel()


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of one connection; the first does not block."""
    here, there = socket.socketpair()
    here.setblocking(False)
    with here, there:
        yield here, there


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return create_authority(tmp_path / "authority", name="test", lifetime=100 * DAY)


@pytest.fixture
def issue(authority: Authority, tmp_path: Path) -> Issue:
    """Issue an identity for a day, by default a broker's and by the one authority."""

    def issue(name: str, role: Role = Role.BROKER, signer: Authority = authority) -> Identity:
        return issue_identity(signer, tmp_path / name, role=role, lifetime=DAY)

    return issue


@pytest.fixture
def foreign(tmp_path: Path) -> Authority:
    """An authority that the other one's holders do not know."""
    return create_authority(tmp_path / "foreign", name="test", lifetime=100 * DAY)
