"""Brokers that the drill itself starts, on loopback: they are struck by their process ids."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

import msgspec
import trio

from ges.drills.ground import Ground
from ges.drills.plan import Means, Strike
from ges.drills.readings import Reading
from ges.drills.rows import Struck
from ges.errors import DrillFailed
from ges.wire.drill_messages import Seen
from overlay.address import Address
from overlay.ids import Nanos, nanos
from overlay.net.free_ports import LOOPBACK, free_ports

JOIN_SECONDS = 60.0
GRACE_SECONDS = 10.0  #: for a broker that was asked to stop; then it is killed
TAIL_BYTES = 1000


class _Ready(msgspec.Struct, frozen=True):
    """What ``chordal serve`` prints when it has joined."""

    uid: str
    url: str


@dataclass(slots=True)
class _Process:
    command: list[str]
    log: Path
    process: trio.Process | None = None
    output: IO[bytes] | None = None


@dataclass(slots=True)
class Started(Ground):
    """A ring of the drill's own. ``start`` begins it, ``stop`` ends it."""

    _processes: list[_Process] = field(default_factory=list)
    _of: dict[str, _Process] = field(default_factory=dict)  #: by uid
    _stopped: set[str] = field(default_factory=set)  #: by SIGSTOP
    _woken: dict[str, Nanos] = field(default_factory=dict)  #: when each was let go on

    async def start(self, count: int, folder: Path, profile: str) -> str:
        """Start so many brokers at once, all with one list; returns the URLs of all.

        Raises:
            DrillFailed: one of them ends, or does not join in time.
        """
        ports = free_ports(count)
        everybody = ",".join(Address(LOOPBACK, port).url for port in ports)
        for port in ports:
            own = folder / f"broker-{port}"
            command = [
                *(sys.executable, "-m", "ges.cli.main", "serve", "--drills"),
                *("--listen", f"{LOOPBACK}:{port}", "--join", everybody),
                *("--data", str(own), "--profile", profile),
            ]
            self._processes.append(_Process(command, folder / f"broker-{port}.log"))
        for each in self._processes:
            await self._spawn(each)
        async with trio.open_nursery() as nursery:
            for each in self._processes:
                nursery.start_soon(self._await_ready, each)
        return everybody

    async def kill(self, strike: Strike, reading: Reading) -> Struck:
        """``kill -9``."""
        process = self._running(strike.uid)
        began = self.clock.now()
        process.kill()
        done = self.clock.now()
        self.dead.add(strike.uid)
        await process.wait()
        return Struck(Means.KILL, strike.uid, "", began, None, done - began)

    async def pause(self, strike: Strike, reading: Reading, seconds: float) -> Struck:
        """``kill -STOP``, and ``kill -CONT`` by :meth:`wake`."""
        process = self._running(strike.uid)
        began = self.clock.now()
        process.send_signal(signal.SIGSTOP)
        done = self.clock.now()
        self._stopped.add(strike.uid)
        return Struck(Means.PAUSE, strike.uid, "", began, began + nanos(seconds), done - began)

    async def wake(self) -> None:
        """``kill -CONT`` for all that were stopped."""
        while self._stopped:
            uid = self._stopped.pop()
            process = self._of[uid].process
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGCONT)
            self._woken[uid] = self.clock.now()

    def refine(self, struck: Struck, reading: Reading, seen: tuple[Seen, ...]) -> Struck:
        """Return when it really began and ended."""
        if struck.means is not Means.PAUSE:
            return Ground.refine(self, struck, reading, seen)
        return replace(struck, ended_ns=self._woken.get(struck.uid, struck.ended_ns))

    async def revive(self) -> bool:
        """Start the dead again: the same brokers, in their next life."""
        async with trio.open_nursery() as nursery:
            for uid in self.dead:
                await self._spawn(self._of[uid])
                nursery.start_soon(self._await_ready, self._of[uid])
        self.dead.clear()
        return True

    async def mend(self) -> list[str]:
        """Undo what holds; the ring ends with the drill, so nothing is left of it."""
        await self.wake()
        return []

    async def stop(self) -> None:
        """Have all leave, and end those that do not in time; nothing of it outlives the drill."""
        await self.wake()
        running = [e.process for e in self._processes if e.process is not None]
        for process in running:
            if process.poll() is None:
                process.terminate()
        with trio.move_on_after(GRACE_SECONDS):
            for process in running:
                await process.wait()
        for process in running:
            if process.poll() is None:
                process.kill()
            await process.wait()

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _running(self, uid: str) -> trio.Process:
        process = self._of[uid].process
        assert process is not None
        if process.poll() is not None:
            raise self._failure(self._of[uid])
        return process

    async def _spawn(self, each: _Process) -> None:
        # Settings meant for the user's own brokers must not reach those of the drill.
        own = {k: v for k, v in os.environ.items() if not k.startswith("CHORDAL_")}
        with each.log.open("ab") as log:
            each.process = await trio.lowlevel.open_process(
                each.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=own,
                process_group=0,  # Ctrl-C reaches the drill alone
            )

    async def _await_ready(self, each: _Process) -> None:
        assert each.process is not None
        assert each.process.stdout is not None
        line = b""
        with trio.move_on_after(JOIN_SECONDS):
            async with each.process.stdout as output:
                async for chunk in output:
                    line += chunk
                    if line.endswith(b"\n"):
                        ready = msgspec.json.decode(line, type=_Ready)
                        self._of[ready.uid] = each
                        self.urls[ready.uid] = ready.url
                        return
                await each.process.wait()
        raise self._failure(each)

    def _failure(self, each: _Process) -> DrillFailed:
        said = each.log.read_bytes()[-TAIL_BYTES:].decode(errors="replace").splitlines()
        last = said[-1] if said else "without a word"
        code = each.process.poll() if each.process is not None else None
        how = "does not join" if code is None else f"ended with exit code {code}"
        return DrillFailed(f"a broker that the drill started {how}: {last}")
