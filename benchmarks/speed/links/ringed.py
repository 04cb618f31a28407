"""Rings of brokers, each a process of its own; and what they take with nothing to do."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from benchmarks.speed.links.processes import (
    LIMIT_SECONDS,
    Failed,
    cpu_seconds,
    said,
    serve,
    started,
)
from benchmarks.stage.processes import chordal

WHOLE_SECONDS = 30  #: for the ring to pass its check
SETTLE_SECONDS = 10.0  #: after the last join, until a ring counts as idle


@dataclass(frozen=True, slots=True)
class Ring:
    """Brokers of one ring, in the order in which they joined."""

    processes: tuple[subprocess.Popen[str], ...]
    urls: tuple[str, ...]


@contextmanager
def brokers(count: int, limit: float = LIMIT_SECONDS) -> Iterator[Ring]:
    """Run a ring of ``count`` brokers for the length of the block, ``limit`` seconds at most.

    Raises:
        Failed: a broker ended early, or the ring does not become whole.
    """
    with ExitStack() as stack:
        processes = [stack.enter_context(started(serve(), limit=limit))]
        urls = [said(processes[0])["url"]]
        for _ in range(count - 1):
            joining = serve("--join", urls[0])
            processes.append(stack.enter_context(started(joining, limit=limit)))
        urls += [said(process)["url"] for process in processes[1:]]
        check = ("--check", "--expect", str(count), "--wait", str(WHOLE_SECONDS))
        checked = chordal("ring", *check, "--broker", urls[0])
        if checked.returncode:
            raise Failed(f"the ring is not whole: {checked.stdout}{checked.stderr}")
        yield Ring(tuple(processes), tuple(urls))


def idle_shares(count: int, seconds: float, rounds: int) -> list[list[float]]:
    """Return, for each round, the share of a core that each of ``count`` idle brokers takes.

    Raises:
        Failed: a broker ended early.
    """
    with brokers(count, SETTLE_SECONDS + 60 + 2 * rounds * seconds) as ring:
        time.sleep(SETTLE_SECONDS)
        found = []
        for _ in range(rounds):
            began = time.monotonic()
            before = [cpu_seconds(process) for process in ring.processes]
            time.sleep(seconds)
            after = [cpu_seconds(process) for process in ring.processes]
            took = time.monotonic() - began
            found.append([(b - a) / took for a, b in zip(before, after, strict=True)])
        return found
