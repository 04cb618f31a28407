"""Telling people how far the demo is, on stderr: commands as one may type them, what they found."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager

import trio
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from ges.errors import DemoFailed

STEP_SECONDS = 120.0  #: no step between brokers takes that long, unless something hangs


class Step:
    """A step that is under way; :attr:`found` is the sentence on it in the end."""

    def __init__(self, console: Console) -> None:
        self.found = "not done"
        self._console = console

    def command(self, *words: str) -> None:
        """Show a command that the step runs."""
        self._console.print(Text(f"$ {shlex.join(words)}", "dim"), soft_wrap=True)


class Telling:
    """Tells of steps, one after the other; made by :func:`telling`."""

    def __init__(self, console: Console, bar: Progress) -> None:
        self._console = console
        self._bar = bar

    @contextmanager
    def step(self, title: str, seconds: float = STEP_SECONDS) -> Iterator[Step]:
        """Do a step in the block, for at most so many seconds, and tell in a line what it found.

        Raises:
            DemoFailed: it took too long.
        """
        task, step = self._bar.add_task(title), Step(self._console)
        try:
            with trio.move_on_after(seconds) as patience:
                yield step
        finally:
            self._bar.remove_task(task)
            line = Text.assemble((title, "bold"), f": {step.found}")
            self._console.print(line, soft_wrap=True)
        if patience.cancelled_caught:
            raise DemoFailed(f"{title}: not done after {seconds:g} s")


@contextmanager
def telling() -> Iterator[Telling]:
    """Show a spinner on a terminal, and nothing but commands and finished steps in a pipe."""
    console = Console(stderr=True)
    columns = (SpinnerColumn("line"), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        yield Telling(console, bar)
