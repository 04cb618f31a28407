"""Processes of a measurement, what they say, and what they take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """A process of the measurement ended early, or did not come to what was waited for."""


@contextmanager
def started(command: Sequence[str], *, quiet: bool = False) -> Iterator[subprocess.Popen[str]]:
    """Run a process for the length of the block."""
    errors = subprocess.DEVNULL if quiet else None
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        yield process
    finally:
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
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
