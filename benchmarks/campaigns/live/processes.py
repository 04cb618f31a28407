"""The processes of a soak: brokers with the lives they lead, the switchboard, the load."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import trio

from benchmarks.campaigns.live.switchboard import HOST
from ges.operations.local_brokers import JOIN_SECONDS, LocalBroker, Ready

POLL_SECONDS = 0.05
FIRST_PORT, LAST_PORT = 15_000, 32_000  #: below those that the kernel gives to callers
SEEDS_GIVEN = 3


class SoakFailed(Exception):
    """The soak cannot go on: a process did not do what it must."""


class LiveBroker(LocalBroker):
    """One broker under its data folder, through all its lives."""

    def __init__(
        self, folder: Path, number: int, port: int, proxy: int | None, options: Sequence[str]
    ) -> None:
        """``options``: of ``chordal serve``, beside those that say where it is."""
        name = f"broker-{number}"
        self.data = folder / name
        own = ["serve", *options, "--listen", f"{HOST}:{port}", "--data", str(self.data)]
        if proxy is not None:
            own += ["--advertise", f"{HOST}:{proxy}"]
        super().__init__(folder, name, own)
        self._own = self.arguments
        self.port = port
        self.proxy = proxy
        self.uid = ""
        self.is_frozen = False
        self.is_cut_off = False

    @property
    def url(self) -> str:
        """Where it listens itself; clients of the soak come this way."""
        return f"chordal://{HOST}:{self.port}"

    @property
    def advertised(self) -> str:
        """Where other brokers are to find it."""
        return f"chordal://{HOST}:{self.proxy or self.port}"

    def live(self, seeds: Iterable[str]) -> None:
        """Begin a life; :meth:`joined` waits until it is on the ring."""
        self.arguments = (*self._own, *(word for seed in seeds for word in ("--join", seed)))
        self.start()

    async def listening(self) -> None:
        """Wait until its own port takes calls; whether it ever does, :meth:`joined` tells."""
        with trio.move_on_after(JOIN_SECONDS):
            while self.is_alive:
                with suppress(OSError), socket.create_connection((HOST, self.port)):
                    return
                await trio.sleep(POLL_SECONDS)

    async def joined(self, seconds: float = JOIN_SECONDS) -> Ready:
        """Wait until it is on the ring, and note as whom."""
        found = await super().joined(seconds)
        self.uid = found.uid
        return found

    def signal(self, number: signal.Signals) -> None:
        """Send its process a signal; SIGSTOP makes it frozen, SIGCONT ends that."""
        super().signal(number)
        if number in (signal.SIGSTOP, signal.SIGCONT):
            self.is_frozen = number is signal.SIGSTOP

    def logged(self) -> list[dict[str, object]]:
        """Return what it has logged, in all its lives."""
        found = []
        for line in self.err.splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:  # a traceback; the last line of a killed process
                found.append({"event": line, "level": "none"})
        return found


class Board:
    """The switchboard's process, and the one way to talk to it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def ask(self, *command: str | int) -> int:
        """Give a command and return its answer; the switchboard answers at once."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def switchboard() -> Iterator[Board]:
    """Run a switchboard for the length of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.campaigns.live.switchboard"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield Board(process)
    finally:
        process.kill()
        process.communicate()


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Keep that many processes busy doing nothing for the length of the block."""
    burning = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)
    ]
    try:
        yield
    finally:
        for process in burning:
            process.kill()
            process.wait()


class Fleet:
    """All brokers of a soak."""

    def __init__(
        self,
        folder: Path,
        size: int,
        options: Sequence[str],
        rng: random.Random,
        board: Board | None,
    ) -> None:
        """``options``: of ``chordal serve``, the same for all brokers."""
        self.board = board
        self._rng = rng
        self.brokers = []
        for number, port in enumerate(free_ports(size, rng)):
            proxy = board.ask("proxy", port) if board is not None else None
            self.brokers.append(LiveBroker(folder, number, port, proxy, options))

    @property
    def by_uid(self) -> dict[str, LiveBroker]:
        """The brokers by uid, as each had it when it was last ready."""
        return {broker.uid: broker for broker in self.brokers}

    @property
    def healthy(self) -> list[LiveBroker]:
        """Brokers to which nothing is done now."""
        return [b for b in self.brokers if b.is_alive and not b.is_frozen and not b.is_cut_off]

    def at(self, url: str) -> LiveBroker | None:
        """Return the broker that ``url`` leads to, by its own port or its proxy's."""
        return next((b for b in self.brokers if url in (b.url, b.advertised)), None)

    async def form(self) -> None:
        """Start all, as many at a time as are there already, each joining through some of those."""
        first, *others = self.brokers
        first.live(())
        await first.joined()
        started = [first]
        while others:
            batch, others = others[: len(started)], others[len(started) :]
            for broker in batch:
                broker.live(self._seeds(started))
            for broker in batch:
                await broker.joined()
            started += batch

    def kill(self, broker: LiveBroker) -> None:
        """End a broker as ``kill -9`` does; its port is closed with it, so its proxy's is, too."""
        if self.board is not None and broker.proxy is not None:
            self.board.ask("deaf", broker.proxy)
        broker.kill()

    async def restart(self, broker: LiveBroker) -> None:
        """Begin a new life of a killed broker."""
        broker.live(self._seeds(self.healthy))
        if self.board is not None and broker.proxy is not None:
            await broker.listening()
            self.board.ask("heed", broker.proxy)
        await broker.joined()

    def end(self) -> None:
        """Kill all brokers that run, frozen ones too, and wait until they are gone."""
        for broker in self.brokers:
            with suppress(ProcessLookupError):
                broker.kill()

    def _seeds(self, known: list[LiveBroker]) -> list[str]:
        drawn = self._rng.sample(known, min(SEEDS_GIVEN, len(known)))
        return [broker.advertised for broker in drawn]


def free_ports(count: int, rng: random.Random) -> list[int]:
    """Return ports of loopback that nobody listens on, and that no caller is given.

    A broker that is killed must find its port again when it comes back.

    Raises:
        SoakFailed: there are not as many.
    """
    start = rng.randrange(FIRST_PORT, LAST_PORT)
    found: list[int] = []
    for step in range(LAST_PORT - FIRST_PORT):
        port = FIRST_PORT + (start - FIRST_PORT + step) % (LAST_PORT - FIRST_PORT)
        with suppress(OSError), socket.create_server((HOST, port)):
            found.append(port)
        if len(found) == count:
            return found
    raise SoakFailed(f"{count} free ports are not to be had on {HOST}")


def cores() -> int:
    """Return how many processors the machine has; 1 if it does not tell."""
    return os.cpu_count() or 1
