"""Processes of clients: the command tells each what to do, and each answers, a line of JSON each.

What to do comes on standard input, so that no token is seen in a list of processes; the first line
is the order. A process that cannot do its part says why, and ends. It also ends at the end of its
standard input: so none outlives the command.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TypeVar

import msgspec
import trio

from ges.errors import BenchFailed
from overlay.errors import ChordalError

Receive = Callable[[], Coroutine[object, object, bytes | bytearray]]
Said = TypeVar("Said", bound=msgspec.Struct)


class Ready(msgspec.Struct, frozen=True, tag=True):
    """All clients of a process are attached, and all its subscriptions are active."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """A process could not do it."""

    problem: str


class LineReader:
    """Lines from a worker, as they come."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._rest = bytearray()

    async def line(self) -> bytes | None:
        """Return the next line; None at the end."""
        while (at := self._rest.find(b"\n")) < 0:
            data = await self._receive()
            if not data:
                return None
            self._rest += data
        found = bytes(self._rest[:at])
        del self._rest[: at + 1]
        return found


# ── at the command ────────────────────────────────────────────────────────────────────────────────


class Worker:
    """One process; made by :func:`run_worker`."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._lines = LineReader(process.stdout.receive_some)

    async def tell(self, line: msgspec.Struct) -> None:
        """Say something to it; one that has ended has said why."""
        with suppress(trio.BrokenResourceError):
            await self._stdin.send_all(msgspec.json.encode(line) + b"\n")

    async def hear(self, kind: type[Said], seconds: float = float("inf")) -> Said:
        """Return what it says next.

        Raises:
            BenchFailed: it could not do what it was to do, or says nothing.
        """
        with trio.move_on_after(seconds) as limit:
            line = await self._lines.line()
        if limit.cancelled_caught:
            raise BenchFailed(f"a process of clients has said nothing for {seconds:g} s")
        if line is None:
            raise BenchFailed("a process of clients has ended without a word")
        said: Said | Failed = msgspec.json.decode(line, type=kind | Failed)
        if isinstance(said, Failed):
            raise BenchFailed(said.problem)
        return said


async def run_worker(
    module: str,
    order: msgspec.Struct,
    *,
    task_status: trio.TaskStatus[Worker] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a process with an order, until it ends or this is cancelled."""
    # In a session of its own: an interrupt is for the command, which ends its processes.
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        worker = Worker(process)
        await worker.tell(order)
        task_status.started(worker)
        await process.wait()
    finally:
        if process.poll() is None:
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


# ── in the process ────────────────────────────────────────────────────────────────────────────────


def work(doing: Callable[[LineReader], Awaitable[None]]) -> None:
    """Do what standard input tells; exit code 1 where that cannot be done."""

    async def run() -> None:
        async with trio.lowlevel.FdStream(os.dup(sys.stdin.fileno())) as stream:
            await doing(LineReader(stream.receive_some))

    try:
        trio.run(run)
    except* ChordalError as group:
        found: BaseException = group
        while isinstance(found, BaseExceptionGroup):
            found = found.exceptions[0]
        say(Failed(str(found)))
        sys.exit(1)


def say(line: msgspec.Struct) -> None:
    """Answer the command."""
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()
