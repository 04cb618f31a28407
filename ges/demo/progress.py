"""Telling people how far the demo is, on stderr: what is under way, and what was found."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import trio
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from ges.demo.processes import DemoFailed

STEP_SECONDS = 120.0  #: no step between brokers takes that long, unless something hangs

Found = TypeVar("Found")


class Telling:
    """Awaits steps, one after the other, and tells of each; made by :func:`telling`."""

    def __init__(self, console: Console, bar: Progress) -> None:
        self._console = console
        self._bar = bar

    async def __call__(
        self, title: str, doing: Awaitable[Found], seconds: float = STEP_SECONDS
    ) -> Found:
        """Await ``doing``, for at most so many seconds, and tell in a line what it found.

        Raises:
            DemoFailed: It took too long.
        """
        task = self._bar.add_task(title)
        line = "not done"
        try:
            with trio.move_on_after(seconds):
                found = await doing
                line = str(found)
                return found
        finally:
            self._bar.remove_task(task)
            self._console.print(Text.assemble((title, "bold"), f": {line}"), soft_wrap=True)
        raise DemoFailed(f"{title}: not done after {seconds:g} s")


@contextmanager
def telling() -> Iterator[Telling]:
    """Show a spinner on a terminal, and nothing but finished steps in a pipe."""
    console = Console(stderr=True)
    columns = (SpinnerColumn("line"), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        yield Telling(console, bar)
