"""Runs one flow through one system, in processes of their own, and says what it took."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.links import nats
from benchmarks.links.ends import Flow

DEADLINE_SECONDS = 120
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Result:
    """One flow through one system."""

    per_second: float  #: events that arrived
    p50_us: float
    p99_us: float
    relay_us: float  #: CPU time of the process in the middle, for each event


class Failed(Exception):
    """A process of the measurement ended before it had said anything."""


@dataclass(frozen=True, slots=True)
class System:
    """What is between the two ends, and whether it speaks TLS."""

    name: str  #: bare, naive, links, broker or nats
    identities: Path | None = None  #: folder of those to be used; None: plain

    @property
    def title(self) -> str:
        """For people."""
        return self.name if self.identities is None else f"{self.name} TLS"


def measure(system: System, flow: Flow) -> Result:
    """Run the flow.

    Raises:
        Failed: a process ended early.
    """
    with ExitStack() as stack:
        middle, at = stack.enter_context(_middle(system))
        sub = stack.enter_context(_role(system, "subscribe", "b", at, flow))
        _line(sub)
        before = _cpu_seconds(middle.pid)
        stack.enter_context(_role(system, "publish", "a", at, flow))
        result = _line(sub)
        spent = _cpu_seconds(middle.pid) - before
    return Result(**result, relay_us=spent / flow.events * 1e6)


@contextmanager
def _middle(system: System) -> Iterator[tuple[subprocess.Popen[str], str]]:
    if system.name == "nats":
        command, port = nats.server_command()
        with _process(command, quiet=True) as process:
            _await_port(port)
            yield process, str(port)
    elif system.name == "broker":
        command = [sys.executable, "-m", "ges.cli.main", "serve", "--listen", "127.0.0.1:0"]
        with _process([*command, "--log-level", "error"]) as process:
            yield process, _line(process)["url"]
    else:
        with _role(system, "relay", "c", "", Flow(events=0, size=0)) as process:
            yield process, str(_line(process)["port"])


@contextmanager
def _role(
    system: System, role: str, end: str, at: str, flow: Flow
) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.links.roles", system.name, role, "--at", at]
    command += ["--events", str(flow.events), "--size", str(flow.size), "--rate", str(flow.rate)]
    if system.identities is not None:
        command += ["--identity", str(system.identities / end)]
    with _process(command) as process:
        yield process


@contextmanager
def _process(command: list[str], *, quiet: bool = False) -> Iterator[subprocess.Popen[str]]:
    errors = subprocess.DEVNULL if quiet else None
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()


def _line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise Failed(f"{' '.join(map(str, process.args))[:200]} ended early")  # type: ignore[arg-type]
    fields: dict[str, Any] = json.loads(line)
    return fields


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used; its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _await_port(port: int) -> None:
    import socket

    until = time.monotonic() + 10
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise Failed(f"nothing listens on port {port}")
