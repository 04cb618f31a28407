"""A reader's work in slices: what a peer sends may take long, and others must not wait for it all.

What one read brings is bounded in bytes, not in the time it takes: a few bytes can ask for a long
answer, or be an event that thousands of filters match. So whoever handles it looks at the clock now
and then, and lets all other tasks have their turn when its slice is over: timers above all, as a
broker that is silent for seconds is taken for dead.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Generic, TypeVar

import trio

SLICE_SECONDS = 0.02

T = TypeVar("T")


class Sliced(Generic[T]):
    """Work that yields where it may be interrupted, and what it returns in the end."""

    __slots__ = ("_steps", "result")

    def __init__(self, steps: Generator[None, None, T]) -> None:
        self._steps = steps
        self.result: T | None = None  #: once it is done

    def go_on(self) -> bool:
        """Work for one slice, or to the end; says whether there is more to do.

        Raises:
            Exception: whatever the work raises; then it is over.
        """
        until = trio.current_time() + SLICE_SECONDS
        while True:
            try:
                next(self._steps)
            except StopIteration as end:
                self.result = end.value
                return False
            if trio.current_time() > until:
                return True
