"""Our own commands as processes on this machine, brokers above all; none outlives who starts it.

A process prints into one file, and logs into another, in the folder of the caller. Each
process has a group of its own: Ctrl-C reaches the caller alone, which ends the processes in good
order. Settings that are meant for the user's own brokers do not reach them.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM, Signals
from typing import IO, Protocol

import msgspec
import trio

from ges.errors import ProcessFailed
from overlay.address import Address
from overlay.net.free_ports import LOOPBACK, free_ports

COMMAND = (sys.executable, "-m", "ges.cli.main")
JOIN_SECONDS = 90.0
GRACE_SECONDS = 10.0  #: for a process that was asked to stop; then it is killed
POLL_SECONDS = 0.01
TAIL_BYTES = 2000
TAIL_LINES = 8


class Process(Protocol):
    """One process on this machine: its output, its log, and its end."""

    @property
    def pid(self) -> int:
        """Its id."""

    @property
    def stdin(self) -> IO[bytes] | None:
        """Its standard input, where that is a pipe."""

    def poll(self) -> int | None:
        """Return how it has ended; None: it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, and return how it has ended."""

    def kill(self) -> None:
        """End it at once."""


class Ready(msgspec.Struct, frozen=True):
    """The line that ``chordal serve`` prints when it has joined."""

    uid: str
    url: str
    secure_url: str | None = None  #: None: it has no identity


class LocalProcess:
    """One command, in one life after the other."""

    def __init__(self, folder: Path, name: str, arguments: Sequence[str | Path]) -> None:
        """Prepare it; :meth:`start` begins its first life."""
        self.name = name
        self.arguments = tuple(map(str, arguments))
        self.is_told = False  #: to end; one that ends by itself has failed
        self._folder = folder
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        self._process: Process | None = None

    @property
    def process(self) -> Process:
        """What runs, or has ended."""
        assert self._process is not None, "it was started"
        return self._process

    @property
    def is_alive(self) -> bool:
        """Whether it runs; it may stand still."""
        return self._process is not None and self._process.poll() is None

    @property
    def out(self) -> str:
        """Its output in this life."""
        return self._out.read_text()

    @property
    def err(self) -> str:
        """Its log of all its lives."""
        return self._err.read_text() if self._err.exists() else ""

    def start(self) -> None:
        """Begin a life."""
        self.is_told = False
        mode = "wb" if self._process is None else "ab"
        with self._out.open("wb") as out, self._err.open(mode) as err:
            self._process = self.spawn(out, err)

    def spawn(self, out: IO[bytes], err: IO[bytes]) -> Process:
        """Start the process."""
        own = {k: v for k, v in os.environ.items() if not k.startswith("CHORDAL_")}
        return subprocess.Popen(
            [*COMMAND, *self.arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**own, "TMPDIR": str(self._folder)},
            process_group=0,
        )

    def signal(self, number: Signals) -> None:
        """Send it a signal."""
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """``kill -9``, if it runs: it has no time for a last word."""
        self.is_told = True
        if self.is_alive:
            self.process.kill()
            self.process.wait()

    async def finished(self) -> int:
        """Wait for its end, and return how it has ended."""
        while True:
            if (code := self.process.poll()) is not None:
                return code
            await trio.sleep(POLL_SECONDS)

    async def stop(self, polite: Signals = SIGTERM) -> None:
        """Ask it to stop, and kill it with all that it has started if it does not in time."""
        self.is_told = True
        if not self.is_alive:
            return
        with trio.CancelScope(shield=True):
            self.signal(polite)
            with trio.move_on_after(GRACE_SECONDS):
                await self.finished()
            if self.is_alive:
                os.killpg(self.process.pid, SIGKILL)
                await self.finished()

    def last_words(self) -> str:
        """Return the end of what it has logged, indented."""
        lines = self.err[-TAIL_BYTES:].splitlines()[-TAIL_LINES:]
        return "\n".join(f"  {line}" for line in lines)

    def failure(self) -> ProcessFailed:
        """Return the error that says how it has ended, or that it does not do its part."""
        code = self.process.poll()
        if code is None:
            how = "is not ready"
        else:
            how = f"ended with {f'exit code {code}' if code >= 0 else Signals(-code).name}"
        said = f":\n{words}" if (words := self.last_words()) else ", without a word"
        return ProcessFailed(f"'{shlex.join(['chordal', *self.arguments])}' {how}{said}")


class LocalBroker(LocalProcess):
    """``chordal serve``."""

    def ready(self) -> Ready | None:
        """Return the line that it prints when it has joined; None: it has not."""
        line, newline, _ = self.out.partition("\n")
        return msgspec.json.decode(line, type=Ready) if newline else None

    async def joined(self, seconds: float = JOIN_SECONDS) -> Ready:
        """Wait until it is on the ring.

        Raises:
            ProcessFailed: it has ended, or it takes too long.
        """
        with trio.move_on_after(seconds):
            while True:
                is_alive = self.is_alive
                if (ready := self.ready()) is not None:
                    return ready
                if not is_alive:
                    break
                await trio.sleep(POLL_SECONDS)
        raise self.failure()


class LocalBrokers:
    """Brokers and other commands in one folder."""

    def __init__(self, folder: Path) -> None:
        """``folder``: for their files, temporary ones too."""
        self.folder = folder
        self.brokers: list[LocalBroker] = []
        self._commands = 0
        self._all: list[LocalProcess] = []

    def start(self, port: int, *options: str | Path, name: str = "") -> LocalBroker:
        """Start a broker on a port of loopback; it is not on the ring yet."""
        arguments = ("serve", "--listen", f"{LOOPBACK}:{port}", *options)
        broker = LocalBroker(self.folder, name or f"broker-{len(self.brokers)}", arguments)
        broker.start()
        self.brokers.append(broker)
        self._all.append(broker)
        return broker

    async def ring_of(self, count: int, *options: str | Path) -> list[Ready]:
        """Start so many brokers at once, all with one list, and wait until they are on the ring.

        ``{}`` in an option stands for the number of a broker.

        Raises:
            ProcessFailed: one of them ends, or does not join in time.
        """
        ports = free_ports(count)
        everybody = ",".join(Address(LOOPBACK, port).url for port in ports)
        started = [
            self.start(port, "--join", everybody, *(str(o).replace("{}", str(n)) for o in options))
            for n, port in enumerate(ports)
        ]
        return [await broker.joined() for broker in started]

    async def run(self, *arguments: str | Path, code: int = 0) -> LocalProcess:
        """Run a command to its end.

        Raises:
            ProcessFailed: its exit code is another one.
        """
        self._commands += 1
        command = LocalProcess(self.folder, f"command-{self._commands}", arguments)
        self._all.append(command)
        command.start()
        try:
            ended = await command.finished()
        finally:
            await command.stop(SIGINT)
        if ended != code:
            raise command.failure()
        return command

    async def dismiss(self) -> None:
        """Tell all brokers to leave the ring and stop, and wait until they have."""
        async with trio.open_nursery() as nursery:
            for broker in self.brokers:
                nursery.start_soon(broker.stop)
        self.brokers = []

    async def watch(self) -> None:
        """Wait until a broker ends that nobody has told to.

        Raises:
            ProcessFailed: one has.
        """
        while True:
            for broker in self.brokers:
                if not broker.is_told and not broker.is_alive:
                    raise broker.failure()
            await trio.sleep(10 * POLL_SECONDS)

    async def end(self) -> None:
        """Stop all that still runs."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                for process in self._all:
                    nursery.start_soon(process.stop)


@asynccontextmanager
async def local_brokers(folder: Path) -> AsyncIterator[LocalBrokers]:
    """Keep brokers for the length of the block, and end it where one of them ends by itself.

    Raises:
        ProcessFailed: one has.
    """
    found = LocalBrokers(folder)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(found.watch)
            yield found
            nursery.cancel_scope.cancel()
    finally:
        await found.end()
