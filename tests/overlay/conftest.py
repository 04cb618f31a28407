"""Fixtures of the overlay's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

from tests.helpers.stations import Overlay


@pytest.fixture
async def overlay() -> AsyncIterator[Overlay]:
    async with trio.open_nursery() as nursery:
        yield Overlay(nursery)
        nursery.cancel_scope.cancel()
