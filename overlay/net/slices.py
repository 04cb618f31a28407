"""A reader's work in slices: what a peer sends may take long, and others must not wait for it all.

One read is bounded in bytes, not in the time that its frames take: a few bytes can ask for a long
answer, or be an event that thousands of filters match. So the handler looks at the clock now and
then, and lets all other tasks have their turn when its slice is over: timers above all, as a broker
that is silent for seconds is taken for dead. Where something express waits to be read, the slice of
a normal reader is over at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic, TypeVar

import trio

from overlay.net.precedence import Precedence
from overlay.net.turn import Turn

SLICE_SECONDS = 0.02
LOOK_SECONDS = 0.0005  #: between looks whether something express has come
PASSES = 4  #: rounds of the scheduler that are left to it in the midst of a turn

T = TypeVar("T")


class Sliced(Generic[T]):
    """Work that yields where it may be interrupted, and what it returns in the end.

    ``precedence``: who goes first; None: nobody does, as where express events are read.
    """

    __slots__ = ("_precedence", "_result", "_steps")

    def __init__(self, steps: Generator[None, None, T], precedence: Precedence | None) -> None:
        self._steps = steps
        self._precedence = precedence
        self._result: T | None = None

    async def finish(self, turn: Turn, at_end: Callable[[], None]) -> T | None:
        """Work to the end, each slice a turn of its own with ``at_end`` called before it closes.

        Raises:
            Exception: whatever the work raises; then it is over.
        """
        while True:
            with turn:
                is_more = self._go_on()
                at_end()
            if not is_more:
                return self._result
            await trio.lowlevel.checkpoint()
            if self._precedence is not None:
                await self._precedence.give_way(PASSES)

    def _go_on(self) -> bool:
        """Work for one slice, or to the end; says whether there is more to do."""
        precedence = self._precedence
        now = trio.current_time()
        until, look = now + SLICE_SECONDS, now + LOOK_SECONDS
        while True:
            try:
                next(self._steps)
            except StopIteration as end:
                self._result = end.value
                return False
            now = trio.current_time()
            if now > look:
                if now > until or (precedence is not None and precedence.is_waited_for):
                    return True
                look = now + LOOK_SECONDS
