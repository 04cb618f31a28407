"""Progress on a terminal, on stderr; in a pipe nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class _Watched(Progress):
    """A bar that asks how far things are each time it is drawn."""

    ask: Callable[[], int]

    def get_renderable(self) -> RenderableType:
        for task in self.tasks:
            self.update(task.id, completed=self.ask())
        return super().get_renderable()


@contextmanager
def bar(text: str, finished: Callable[[], int], total: int) -> Iterator[None]:
    """Show how many of ``total`` things are finished, as long as the body runs."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    columns = (TextColumn(text), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = _Watched(*columns, console=console, transient=True, refresh_per_second=2)
    progress.ask = finished
    with progress:
        progress.add_task("", total=total)
        yield


@contextmanager
def spinner(text: str) -> Iterator[None]:
    """Show that something is under way, as long as the body runs."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield
