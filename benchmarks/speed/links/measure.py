"""Runs one flow through one system, in processes of their own, and says what it took."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.speed.links.ends import Flow
from benchmarks.speed.links.nats import Nats
from benchmarks.speed.links.processes import (
    LIMIT_SECONDS,
    Failed,
    cpu_seconds,
    said,
    serve,
    started,
)
from benchmarks.speed.links.ringed import brokers

PORT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Result:
    """One flow through one system. CPU times are those of a process for each event."""

    per_second: float  #: events that arrived; at the slowest subscriber
    p50_us: float
    p99_us: float
    relay_us: float  #: of what is in the middle; of several brokers, the sum
    publisher_us: float
    subscriber_us: float  #: of one of them


@dataclass(frozen=True, slots=True)
class System:
    """What is between the two ends, and whether it speaks TLS."""

    name: str  #: bare, naive, links, broker or nats
    identities: Path | None = None  #: folder of those to be used; None: plain
    brokers: int = 1  #: in a ring; the ends are at the first and the last
    nats: Nats | None = None

    @property
    def title(self) -> str:
        """For people."""
        return self.name if self.identities is None else f"{self.name} TLS"

    def identity(self, end: str) -> Path | None:
        """Return the folder of an end's identity: a publishes, b subscribes, c is the middle."""
        return self.identities / end if self.identities is not None else None


@dataclass(frozen=True, slots=True)
class Middle:
    """What runs between the ends."""

    processes: list[subprocess.Popen[str]]
    publish_at: str
    subscribe_at: str

    def cpu_seconds(self) -> float:
        """Return the CPU time so far, of all together."""
        return sum(cpu_seconds(process) for process in self.processes)


def measure(system: System, flow: Flow, limit: float = LIMIT_SECONDS) -> Result:
    """Run the flow, for ``limit`` seconds at most.

    Raises:
        Failed: a process ended early, or ran out of time.
    """
    with ExitStack() as stack:
        middle = stack.enter_context(_middle(system, flow, limit))
        subscribers = [
            stack.enter_context(_end(system, "subscribe", middle.subscribe_at, flow, limit))
            for _ in range(flow.subscribers)
        ]
        for subscriber in subscribers:
            said(subscriber)
        before = middle.cpu_seconds()
        publisher = stack.enter_context(_end(system, "publish", middle.publish_at, flow, limit))
        results = [said(subscriber) for subscriber in subscribers]
        spent = middle.cpu_seconds() - before
        published = said(publisher)
    return Result(
        per_second=min(result["per_second"] for result in results),
        p50_us=max(result["p50_us"] for result in results),
        p99_us=max(result["p99_us"] for result in results),
        relay_us=spent / flow.events * 1e6,
        publisher_us=published["cpu_us"],
        subscriber_us=sum(result["cpu_us"] for result in results) / len(results),
    )


@contextmanager
def _middle(system: System, flow: Flow, limit: float) -> Iterator[Middle]:
    identity = system.identity("c")
    if system.nats is not None:
        command, port = system.nats.serve(identity)
        with started(command, quiet=True, limit=limit) as process:
            _await_port(port)
            yield Middle([process], str(port), str(port))
    elif system.name == "broker" and system.brokers == 1:
        secured = ["--identity", str(identity)] if identity is not None else []
        with started(serve(*secured), limit=limit) as process:
            url = str(said(process)["url"])
            if identity is not None:
                url = url.replace("chordal://", "chordals://")
            yield Middle([process], url, url)
    elif system.name == "broker":
        with brokers(system.brokers, limit) as ring:
            yield Middle(list(ring.processes), ring.urls[0], ring.urls[-1])
    else:
        with started(_role(system, "relay", "", flow, identity), limit=limit) as process:
            port = said(process)["port"]
            yield Middle([process], str(port), str(port))


def _end(
    system: System, role: str, at: str, flow: Flow, limit: float
) -> AbstractContextManager[subprocess.Popen[str]]:
    identity = system.identity("a" if role == "publish" else "b")
    if system.nats is not None:
        return started(system.nats.end(role, at, flow, identity), limit=limit)
    if system.name == "broker" and identity is not None:
        identity = system.identity("client")
    return started(_role(system, role, at, flow, identity), limit=limit)


def _role(system: System, role: str, at: str, flow: Flow, identity: Path | None) -> list[str]:
    command = [sys.executable, "-m", "benchmarks.speed.links.roles", system.name, role, "--at", at]
    command += ["--events", str(flow.events), "--size", str(flow.size), "--rate", str(flow.rate)]
    command += ["--subscribers", str(flow.subscribers)]
    if identity is not None:
        command += ["--identity", str(identity)]
    return command


def _await_port(port: int) -> None:
    until = time.monotonic() + PORT_SECONDS
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise Failed(f"nothing listens on port {port}")
