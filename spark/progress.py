"""Progress, on stderr: a line that changes on a terminal, and now and then a line in a pipe."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

PIPE_S = 30.0  #: between two lines in a pipe


@contextmanager
def line(text: str) -> Iterator[Callable[[str], None]]:
    """Show how far things are, as long as the body runs; it calls what is yielded with the news."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(text) as status:
            yield lambda news: status.update(news)
        return
    last = time.monotonic()

    def tell(news: str) -> None:
        nonlocal last
        if (now := time.monotonic()) - last >= PIPE_S:
            last = now
            console.print(news, highlight=False, soft_wrap=True)

    yield tell


@contextmanager
def spinner(text: str) -> Iterator[None]:
    """Show that something is under way, as long as the body runs; in a pipe nothing at all."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield
