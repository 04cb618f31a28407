"""Real brokers and commands, as a user starts them, each a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from benchmarks.stage.forked import Stem
from benchmarks.stage.in_process import LIMIT_SECONDS, can_run_here, chordal_here
from benchmarks.stage.waiting import eventually
from ges.operations.local_brokers import COMMAND, LocalProcess, Process

REPOSITORY = Path(__file__).parents[2]


def chordal(*arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        cwd=REPOSITORY,
        check=False,
    )


def asked(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command that only looks: in this process, or beside an event loop that runs here."""
    return chordal_here(*arguments) if can_run_here() else chordal(*arguments)


@dataclass(frozen=True)
class Release:
    """A chordal that can be run: this checkout's, or another one."""

    command: tuple[str, ...] = COMMAND
    folder: Path = REPOSITORY  #: where it is run: Python looks for its modules there first

    @classmethod
    def at(cls, folder: Path) -> Release:
        """Return the one whose checkout is in a folder."""
        return cls(folder=folder.absolute())


HERE = Release()


class Running(LocalProcess):
    """A command that goes on, in one life."""

    def __init__(
        self,
        folder: Path,
        name: str,
        arguments: tuple[str, ...],
        files: int | None = None,
        release: Release = HERE,
        given: int | None = None,
        stem: Stem | None = None,
    ) -> None:
        """``files``: how many the process may open, at most; ``given``: its standard input.

        ``stem``: what forks it, where all of these are as they are; None: Python starts.
        """
        super().__init__(folder, name, arguments)
        is_plain = files is None and release is HERE and given is None
        self._stem = stem if is_plain else None
        self._files, self._release, self._given = files, release, given
        self.start()

    def spawn(self, out: IO[bytes], err: IO[bytes]) -> Process:
        """Fork it, or start it with the settings of the test."""
        if self._stem is not None:
            return self._stem.start(self.arguments, out.fileno(), err.fileno())
        limited = ["sh", "-c", f'ulimit -n {self._files} && exec "$@"', "sh"] if self._files else []
        command = [*limited, *self._release.command, *self.arguments]
        folder = self._release.folder
        return subprocess.Popen(command, stdin=self._given, stdout=out, stderr=err, cwd=folder)

    def ended(self) -> int:
        """Wait for the end; returns the exit code."""
        return self.process.wait(LIMIT_SECONDS)


class Broker(Running):
    """``chordal serve``."""

    def __init__(
        self,
        folder: Path,
        name: str,
        arguments: tuple[str, ...],
        files: int | None = None,
        release: Release = HERE,
        stem: Stem | None = None,
    ) -> None:
        self.trace = folder / name / "trace"
        listen = () if "--listen" in arguments else ("--listen", "127.0.0.1:0")
        data = ("--data", str(folder / name))
        whole_line = ("serve", *listen, *data, *arguments)
        super().__init__(folder, name, whole_line, files, release, stem=stem)

    @property
    def ready(self) -> dict[str, Any]:
        """The line it prints when it has joined; waits for it."""
        eventually(lambda: "\n" in self.out or self.process.poll() is not None, LIMIT_SECONDS)
        assert "\n" in self.out, self.err
        line: dict[str, Any] = json.loads(self.out.splitlines()[0])
        return line

    @property
    def url(self) -> str:
        """Where it listens; waits until it has joined."""
        return str(self.ready["url"])

    @property
    def uid(self) -> str:
        """Its uid; waits until it has joined."""
        return str(self.ready["uid"])

    def status(self) -> dict[str, Any]:
        """Return what ``chordal status`` says of it."""
        found = asked("status", "--json", "--broker", self.url)
        assert found.returncode == 0, found.stderr
        status: dict[str, Any] = json.loads(found.stdout)
        return status

    def incidents(self) -> list[str]:
        """Lines of its trace of incidents."""
        files = self.trace.glob("incidents/*.jsonl")
        return [line for file in files for line in file.read_text().splitlines()]


class Fleet:
    """Brokers and commands in one folder."""

    def __init__(self, folder: Path, stem: Stem | None = None) -> None:
        """``stem``: what forks them; None: Python starts for each."""
        self.folder = folder
        self._stem = stem
        self.brokers: list[Broker] = []
        self._all: list[Running] = []

    def broker(self, *arguments: str) -> Broker:
        """Start a broker; does not wait for it."""
        broker = Broker(self.folder, f"broker-{len(self._all)}", arguments, stem=self._stem)
        self._all.append(broker)
        self.brokers.append(broker)
        return broker

    def ring_of(self, n: int, *arguments: str) -> list[Broker]:
        """Start ``n`` brokers, all but the first joining through the first; wait for the ring."""
        first = self.broker(*arguments)
        joining = ("--join", first.url)
        brokers = [first, *(self.broker(*joining, *arguments) for _ in range(n - 1))]
        assert all(broker.ready["ready"] for broker in brokers)
        whole(first.url, n)
        return brokers

    def run(self, *arguments: str, release: Release = HERE) -> Running:
        """Start a command that goes on."""
        name = f"command-{len(self._all)}"
        running = Running(self.folder, name, arguments, release=release, stem=self._stem)
        self._all.append(running)
        return running

    def subscriber(self, text: str, url: str, *arguments: str) -> Running:
        """Start ``chordal sub`` and wait until it has subscribed."""
        running = self.run("sub", text, "--broker", url, *arguments)
        eventually(lambda: "subscribed to" in running.err or running.process.poll() is not None)
        assert "subscribed to" in running.err, running.err
        return running

    def end(self) -> None:
        """End all that run."""
        for running in self._all:
            running.kill()


@contextmanager
def fleet(folder: Path, stem: Stem | None = None) -> Iterator[Fleet]:
    """Give a fleet, and end all its processes by their ids."""
    found = Fleet(folder, stem)
    try:
        yield found
        for broker in found.brokers:
            assert "Traceback" not in broker.err, broker.err
            assert "BUG" not in broker.err, broker.err
    finally:
        found.end()


def whole(url: str, n: int, seconds: float = 30.0) -> None:
    """Wait until the ring that ``url`` belongs to has ``n`` brokers and passes its check."""
    checked = asked(
        *("ring", "--check", "--expect", str(n), "--wait", str(seconds), "--broker", url)
    )
    assert checked.returncode == 0, checked.stderr + checked.stdout
