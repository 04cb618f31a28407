"""A shell that runs the blocks of a page, one after another, as somebody does who follows it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.stage.waiting import eventually
from tests.docs.pages import pattern

ROOT = Path(__file__).parents[2]
BLOCK_SECONDS = 300.0  #: Spark takes a minute or so on a busy machine
SEEN_SECONDS = 30.0


class Session:
    """One shell in one folder, with ``chordal`` and ``python`` of this checkout."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = 0
        self._seen = 0  #: where the output of the latest block begins
        tools = folder.parent / f"{folder.name}-tools"
        tools.mkdir()
        python = shlex.quote(sys.executable)
        for name, words in (("python", python), ("chordal", f"{python} -m ges.cli.main")):
            tool = tools / name
            tool.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            tool.chmod(0o755)
        own = {k: v for k, v in os.environ.items() if not k.startswith("CHORDAL_")}
        own |= {"PATH": f"{tools}:{own['PATH']}", "PYTHONPATH": str(ROOT)}
        self._out = tools / "output"
        self._done = tools / "done"
        with self._out.open("wb") as out:
            self._shell = subprocess.Popen(
                ["bash", "--norc", "-s"],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=own,
                start_new_session=True,  # so that all it starts can be ended
            )
        self._tools = tools

    @property
    def output(self) -> str:
        """What was printed since the latest block began."""
        return self._out.read_bytes()[self._seen :].decode(errors="replace")

    def run(self, text: str, code: int = 0) -> None:
        """Run a block; each of its commands must do, unless the last is to fail with ``code``."""
        self._count += 1
        self._seen = self._out.stat().st_size
        block = self._tools / f"block-{self._count}.sh"
        block.write_text(text)
        # `set -e` ends the shell with the first command that fails, unless that is what is wanted.
        checks = "set +e" if code else "set -e"
        done = shlex.quote(str(self._done))
        line = (
            f"{checks}; . {shlex.quote(str(block))} < /dev/null; echo {self._count} $? > {done}\n"
        )
        assert self._shell.stdin is not None
        self._shell.stdin.write(line.encode())
        self._shell.stdin.flush()
        eventually(
            lambda: self._is_done() or self._shell.poll() is not None,
            BLOCK_SECONDS,
            f"the end of {text!r}, which has printed {self.output!r}",
        )
        assert self._is_done(), f"{text} failed:\n{self.output}"
        assert self._done.read_text().split()[1] == str(code), self.output

    def sees(self, text: str, asked: str = "") -> None:
        """Wait until the latest block, or what it has started, has printed a text.

        ``asked``: the block, if it is to be run again until then.
        """
        wanted = pattern(text)

        def is_seen() -> bool:
            if found := wanted.search(self.output):
                return bool(found)
            if asked:
                self.run(asked)
            return False

        eventually(is_seen, SEEN_SECONDS, f"{text!r} in {self.output!r}")

    def _is_done(self) -> bool:
        return self._done.exists() and self._done.read_text().startswith(f"{self._count} ")

    def end(self) -> None:
        """End the shell and all that it has started."""
        with suppress(ProcessLookupError):  # it has ended, and has started nothing that has not
            os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.wait()
        assert self._shell.stdin is not None
        self._shell.stdin.close()


@contextmanager
def session(folder: Path) -> Iterator[Session]:
    """Give a session, and end all of it."""
    found = Session(folder)
    try:
        yield found
    finally:
        found.end()
