"""Fixtures of the tests of clients that do not run on trio: their brokers are in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from tests.helpers.broker_thread import BrokerThread, broker_thread

DEADLINE_SECONDS = 20

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a program on each event loop, within the deadline, and sees that no task is left."""
    runner: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run
    if request.param == "uvloop":
        runner = pytest.importorskip("uvloop", reason="uvloop is not installed (extra: dev)").run

    async def limited(program: Coroutine[Any, Any, None]) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await program
        assert asyncio.all_tasks() - {asyncio.current_task()} == set()

    return lambda program: runner(limited(program))


@pytest.fixture
def thread() -> Iterator[BrokerThread]:
    """Brokers, in a thread of their own."""
    with broker_thread() as started:
        yield started
