"""Runs one flow through one system, in processes of their own, and says what it took."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.speed.links import nats
from benchmarks.speed.links.ends import Flow
from benchmarks.speed.links.processes import Failed, cpu_seconds, said, serve, started

PORT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Result:
    """One flow through one system."""

    per_second: float  #: events that arrived
    p50_us: float
    p99_us: float
    relay_us: float  #: CPU time of the process in the middle, for each event


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
        subscriber = stack.enter_context(_role(system, "subscribe", "b", at, flow))
        said(subscriber)
        before = cpu_seconds(middle)
        stack.enter_context(_role(system, "publish", "a", at, flow))
        result = said(subscriber)
        spent = cpu_seconds(middle) - before
    return Result(**result, relay_us=spent / flow.events * 1e6)


@contextmanager
def _middle(system: System) -> Iterator[tuple[subprocess.Popen[str], str]]:
    if system.name == "nats":
        command, port = nats.server_command()
        with started(command, quiet=True) as process:
            _await_port(port)
            yield process, str(port)
    elif system.name == "broker":
        with started(serve()) as process:
            yield process, said(process)["url"]
    else:
        with _role(system, "relay", "c", "", Flow(events=0, size=0)) as process:
            yield process, str(said(process)["port"])


@contextmanager
def _role(
    system: System, role: str, end: str, at: str, flow: Flow
) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.speed.links.roles", system.name, role, "--at", at]
    command += ["--events", str(flow.events), "--size", str(flow.size), "--rate", str(flow.rate)]
    if system.identities is not None:
        command += ["--identity", str(system.identities / end)]
    with started(command) as process:
        yield process


def _await_port(port: int) -> None:
    until = time.monotonic() + PORT_SECONDS
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise Failed(f"nothing listens on port {port}")
