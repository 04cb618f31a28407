"""Processes of a measurement, what they say, and what they take."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[3]
LIMIT_SECONDS = 900  #: a process that runs longer is ended, and what waits for it fails


class Failed(Exception):
    """A process of the measurement ended early, or did not come to what was waited for."""


@contextmanager
def started(
    command: Sequence[str], *, quiet: bool = False, limit: float = LIMIT_SECONDS
) -> Iterator[subprocess.Popen[str]]:
    """Run a process for the length of the block, and for ``limit`` seconds at most."""
    errors = subprocess.DEVNULL if quiet else None
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=REPOSITORY
    )
    alarm = threading.Timer(limit, process.kill)
    alarm.daemon = True
    alarm.start()
    try:
        yield process
    finally:
        alarm.cancel()
        process.kill()
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()


def serve(*more: str) -> list[str]:
    """Return the command of a broker of its own port."""
    command = [sys.executable, "-m", "ges.cli.main", "serve", "--listen", "127.0.0.1:0"]
    return [*command, "--log-level", "error", *more]


def said(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the next line of JSON that a process prints.

    Raises:
        Failed: it ended.
    """
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise Failed(f"a process ended early: {process.args!r:.200}")
    fields: dict[str, Any] = json.loads(line)
    return fields


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    """Return the CPU time that a process has used; its threads included."""
    # Linux names the CPU clock of another process like this (clock_getcpuclockid); /proc has the
    # same figure, but in steps of 10 ms.
    return time.clock_gettime((~process.pid << 3) | 2)
