"""Fixtures of the client's tests: its faces, and brokers that run in a thread of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import pytest
import trio

import ges.client
import ges.client.aio
from tests.helpers.broker_thread import BrokerThread, broker_thread

DEADLINE_SECONDS = 20

Run = Callable[[Coroutine[Any, Any, None]], None]


@dataclass(frozen=True)
class Face:
    """A kind of event loop: how a client attaches there, and how a program runs and waits."""

    connect: Callable[..., AbstractAsyncContextManager[ges.client.Client]]
    run: Run
    sleep: Callable[[float], Awaitable[None]]
    outside: Callable[..., Awaitable[Any]]  #: calls a function in another thread

    async def until(self, check: Callable[[], object]) -> None:
        """Wait until something is so, of which nobody tells."""
        while not check():
            await self.sleep(0.01)


def on_asyncio(loop: str) -> Run:
    """Return what runs a program within the deadline, and sees that no task is left."""
    runner: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run
    if loop == "uvloop":
        runner = pytest.importorskip("uvloop", reason="uvloop is not installed (extra: dev)").run

    async def limited(program: Coroutine[Any, Any, None]) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await program
        assert asyncio.all_tasks() - {asyncio.current_task()} == set()

    return lambda program: runner(limited(program))


def on_trio(program: Coroutine[Any, Any, None]) -> None:
    """Run a program within the deadline."""

    async def limited() -> None:
        with trio.fail_after(DEADLINE_SECONDS):
            await program

    trio.run(limited)


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a program of asyncio's on each event loop."""
    return on_asyncio(request.param)


@pytest.fixture(params=["trio", "asyncio", "uvloop"])
def face(request: pytest.FixtureRequest) -> Face:
    """One of the faces that are waited for."""
    if request.param == "trio":
        return Face(ges.client.connect, on_trio, trio.sleep, trio.to_thread.run_sync)
    return Face(ges.client.aio.connect, on_asyncio(request.param), asyncio.sleep, asyncio.to_thread)


@pytest.fixture
def thread() -> Iterator[BrokerThread]:
    """Brokers, in a thread of their own."""
    with broker_thread() as started:
        yield started
