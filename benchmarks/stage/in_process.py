"""A command of ``chordal`` in this process: as a user starts it, but for the start of Python.

A process of its own costs a third of a second of a processor, this a hundredth of that.
"""

from __future__ import annotations

import io
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from types import FrameType

import structlog
import trio

from ges.cli.main import main

LIMIT_SECONDS = 60.0  #: for a command to end


def chordal_here(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end by the entry that users have; nothing else runs meanwhile.

    For what is asked often, and for what is refused: where a test is about a process (its signals,
    its streams, its memory), use ``benchmarks.stage.processes.chordal``.

    Args:
        arguments: what follows ``chordal`` on the command line.
        given: what it reads from standard input.

    Raises:
        subprocess.TimeoutExpired: it has not ended in time; it was interrupted.
    """
    out, err = _stream(), _stream()
    streams = _standard_input(given), redirect_stdout(out), redirect_stderr(err)
    with ExitStack() as stack:
        for context in (*streams, _settings_kept(), _time_limit(arguments)):
            stack.enter_context(context)
        try:
            main([*arguments])
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int), code
    return subprocess.CompletedProcess(arguments, code, _text(out), _text(err))


def can_run_here() -> bool:
    """Say whether a command can: it has an event loop of its own, and handles signals."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    return in_main_thread and not trio.lowlevel.in_trio_run()


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


@contextmanager
def _standard_input(given: str) -> Iterator[None]:
    """Put a file into the place of standard input, since commands read its descriptor."""
    before = sys.stdin
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        file.write(given)
        file.seek(0)
        sys.stdin = file
        try:
            yield
        finally:
            sys.stdin = before


@contextmanager
def _settings_kept() -> Iterator[None]:
    """Undo what ``serve`` sets for its process before it refuses to go on."""
    logs, files = structlog.get_config(), resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        yield
    finally:
        structlog.configure(**logs)
        resource.setrlimit(resource.RLIMIT_NOFILE, files)


@contextmanager
def _time_limit(arguments: tuple[str, ...]) -> Iterator[None]:
    """Interrupt what goes on for too long, as Ctrl-C does."""
    is_over = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal is_over
        is_over = True
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if is_over:
        raise subprocess.TimeoutExpired(arguments, LIMIT_SECONDS)
