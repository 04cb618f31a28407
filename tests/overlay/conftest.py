"""Fixtures of the overlay's tests."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator

import pytest
import trio

from tests.helpers.stations import Overlay


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
