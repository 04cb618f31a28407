"""Commands of ``chordal``, each a process forked from one that has imported what they need.

``python -m ges.cli.main serve`` spends half a second of a processor on imports before its first own
step. A fork of the *stem*, a process that has done these imports, begins at that step: it has a
process id, signals, streams, an environment and a folder of its own, and runs ``main`` with the
arguments of the command line. What differs is its memory, which it shares with the stem: measure
that in a process that Python has started.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

REPOSITORY = Path(__file__).parents[2]
REQUEST_BYTES = 1 << 20  #: arguments and environment, at most
FILES = 1 << 12  #: descriptors that a stem has, at most

#: The stem needs a system that waits for a process by a file descriptor.
CAN_FORK = hasattr(os, "pidfd_open")


class Forked:
    """A process that a stem has forked; its face is that of :class:`subprocess.Popen`."""

    stdin = None  #: that of the stem

    def __init__(self, pid: int, status: int) -> None:
        """``status``: where the stem writes how the process has ended."""
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """Return the exit code, or minus the signal that ended it; None: it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; returns the exit code.

        Raises:
            subprocess.TimeoutExpired: it has not ended in time.
        """
        if (code := self._look(timeout)) is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal; none if it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is not None:
            return self.returncode
        with selectors.DefaultSelector() as selector:
            selector.register(self._status, selectors.EVENT_READ)
            if not selector.select(timeout):
                return None
        told = os.read(self._status, 64)
        os.close(self._status)
        assert told, "the stem has died"
        self.returncode = int(told)
        return self.returncode


class Stem:
    """A process that has imported what commands need, and forks."""

    def __init__(self) -> None:
        """Start it; it ends when this process does."""
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.stage.forked", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                cwd=REPOSITORY,
            )

    def start(self, arguments: Sequence[str], out: int, err: int) -> Forked:
        """Start a command of ``chordal`` whose output goes to two descriptors."""
        status, theirs = os.pipe()
        request = json.dumps({"arguments": list(arguments), "environment": dict(os.environ)})
        try:
            socket.send_fds(self._socket, [request.encode()], [out, err, theirs])
        finally:
            os.close(theirs)
        told = self._socket.recv(64)
        assert told, "the stem has died"
        return Forked(int(told), status)

    def end(self) -> None:
        """Let it end."""
        self._socket.close()
        self._process.wait()


def _serve(requests: socket.socket) -> None:
    """Fork for each request, and tell how each process has ended, until nobody asks any more."""
    running: dict[int, tuple[int, int]] = {}  #: by pidfd: process ids, and where the end is told
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not requests:
                    selector.unregister(key.fd)
                    _tell_end(*running.pop(key.fd))
                    os.close(key.fd)
                    continue
                request, passed, _, _ = socket.recv_fds(requests, REQUEST_BYTES, 3)
                if not request:
                    return
                out, err, status = passed
                if not (pid := os.fork()):
                    _become(request, out, err)
                os.close(out)
                os.close(err)
                requests.send(str(pid).encode())
                pidfd = os.pidfd_open(pid)
                running[pidfd] = (pid, status)
                selector.register(pidfd, selectors.EVENT_READ)


def _tell_end(pid: int, status: int) -> None:
    _, how = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):  # nobody wants to know
        os.write(status, str(os.waitstatus_to_exitcode(how)).encode())
    os.close(status)


def _become(request: bytes, out: int, err: int) -> NoReturn:
    """Be the command that was asked for."""
    code = 1
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.closerange(3, FILES)
        asked = json.loads(request)
        os.environ.clear()
        os.environ.update(asked["environment"])
        sys.argv[1:] = asked["arguments"]
        from ges.cli.main import run

        code = run(asked["arguments"])
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - as Python does when it ends; the stem shall not go on here
        traceback.print_exc()
    finally:
        os._exit(code)


def main(descriptor: int) -> None:
    """Import what commands need, and serve."""
    import ges.cli.pub
    import ges.cli.serve
    import ges.cli.sub
    import ges.http.app  # noqa: F401
    from ges.broker import Broker  # noqa: F401

    gc.collect()
    gc.freeze()  # what is there stays, in all of them
    with socket.socket(fileno=descriptor) as requests:
        _serve(requests)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # whoever runs the tests has interrupted all
        main(int(sys.argv[1]))
