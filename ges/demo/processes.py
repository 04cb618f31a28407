"""The demo's processes: real ``chordal`` commands, none of which outlives the demo.

Each runs in a process group of its own, so that Ctrl-C reaches the demo alone and the demo ends
them in good order. Their temporary files lie in the demo's own folder and go with it.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec
import trio

from overlay.errors import ChordalError
from overlay.net.free_ports import LOOPBACK

GRACE_SECONDS = 10.0  #: for a process that was asked to stop; then it is killed
TAIL_BYTES = 2000
TAIL_LINES = 8


class DemoFailed(ChordalError):
    """A step of the demo did not show what it should; the text says what happened instead."""

    code = "demo-failed"


@dataclass(frozen=True, slots=True)
class Child:
    """A running command."""

    command: str
    process: trio.Process
    output: trio.abc.ReceiveStream
    errors: IO[bytes]

    def last_words(self) -> str:
        """Return the end of what it wrote to its standard error, indented."""
        file = self.errors.fileno()
        start = max(0, os.fstat(file).st_size - TAIL_BYTES)
        # The child writes at the offset that it shares with this file: it must not be moved.
        lines = os.pread(file, TAIL_BYTES, start).decode(errors="replace").splitlines()
        return "\n".join(f"  {line}" for line in lines[-TAIL_LINES:])

    def failure(self) -> DemoFailed:
        """Return the error that says how it ended."""
        code = self.process.poll() or 0
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        said = f":\n{words}" if (words := self.last_words()) else ", without a word"
        return DemoFailed(f"'{self.command}' ended with {how}{said}")


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the demo's commands run: ``folder`` is for their temporary files."""

    folder: Path

    async def run(self, *arguments: str | Path) -> bytes:
        """Run a command to its end and return what it printed.

        Raises:
            DemoFailed: Its exit code was not 0.
        """
        async with self.command(*arguments) as child:
            printed = b"".join([chunk async for chunk in child.output])
            if await child.process.wait() != 0:
                raise child.failure()
        return printed

    async def fail(self, *arguments: str | Path) -> str:
        """Run a command that must fail, and return the reason it gave.

        Raises:
            DemoFailed: Its exit code was not 1, that of a command that did not work.
        """
        async with self.command(*arguments) as child:
            if await child.process.wait() != 1:
                raise child.failure()
            return child.last_words().strip().removeprefix("chordal: error: ")

    @asynccontextmanager
    async def command(
        self, *arguments: str | Path, polite: signal.Signals = signal.SIGINT
    ) -> AsyncIterator[Child]:
        """Run a command for the length of the block; ``polite`` asks it to stop before that."""
        words = [str(argument) for argument in arguments]
        # Settings meant for the user's own brokers must not reach those of the demo.
        own = {k: v for k, v in os.environ.items() if not k.startswith("CHORDAL_")}
        with tempfile.TemporaryFile(dir=self.folder) as errors:
            process = await trio.lowlevel.open_process(
                [sys.executable, "-m", "ges.cli.main", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**own, "TMPDIR": str(self.folder)},
                process_group=0,
            )
            assert process.stdout is not None
            try:
                yield Child(shlex.join(["chordal", *words]), process, process.stdout, errors)
            finally:
                await _stop(process, polite)


async def _stop(process: trio.Process, polite: signal.Signals) -> None:
    with trio.CancelScope(shield=True):
        if process.poll() is None:
            process.send_signal(polite)
        with trio.move_on_after(GRACE_SECONDS):
            await process.wait()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if process.stdout is not None:
            await process.stdout.aclose()


class _Ready(msgspec.Struct, frozen=True):
    """What ``chordal serve`` prints when it has joined."""

    uid: str
    url: str
    secure_url: str | None  #: None: it has no identity


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker process on the ring."""

    uid: str
    url: str
    secure_url: str | None  #: None: it has no identity
    process: trio.Process


class Fleet:
    """The demo's brokers; made by :func:`open_fleet`. One that ends by itself fails the demo."""

    def __init__(self, stage: Stage, nursery: trio.Nursery) -> None:
        self.brokers: list[Broker] = []  #: those alive
        self._stage = stage
        self._nursery = nursery
        self._told: dict[str, int] = {}  #: uid -> exit code expected of those told to end

    async def start(self, port: int, *options: str | Path) -> Broker:
        """Start a broker on a loopback port; returns when it is on the ring."""
        broker: Broker = await self._nursery.start(self._serve, port, options)
        self.brokers.append(broker)
        return broker

    async def kill(self, broker: Broker) -> None:
        """``kill -9``: the broker has no time for a last word."""
        self._told[broker.uid] = -signal.SIGKILL
        self.brokers.remove(broker)
        broker.process.kill()
        await broker.process.wait()

    async def dismiss(self) -> None:
        """Tell all brokers to leave the ring and stop, and wait until they have."""
        leaving, self.brokers = self.brokers, []
        for broker in leaving:
            self._told[broker.uid] = 0
            broker.process.terminate()
        for broker in leaving:
            await broker.process.wait()

    async def _serve(
        self, port: int, options: tuple[str | Path, ...], *, task_status: trio.TaskStatus[Broker]
    ) -> None:
        arguments = ("serve", "--listen", f"{LOOPBACK}:{port}", *options)
        async with self._stage.command(*arguments, polite=signal.SIGTERM) as child:
            line = b""
            async for chunk in child.output:
                line += chunk
                if line.endswith(b"\n"):
                    break
            else:
                await child.process.wait()
                raise child.failure()
            ready = msgspec.json.decode(line, type=_Ready)
            task_status.started(Broker(ready.uid, ready.url, ready.secure_url, child.process))
            if await child.process.wait() != self._told.get(ready.uid):
                raise child.failure()


@asynccontextmanager
async def open_fleet(stage: Stage) -> AsyncIterator[Fleet]:
    """Keep a fleet for the length of the block; whatever still runs at its end is stopped."""
    async with trio.open_nursery() as nursery:
        yield Fleet(stage, nursery)
        nursery.cancel_scope.cancel()
