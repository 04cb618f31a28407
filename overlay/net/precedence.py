"""Express before normal, where one process reads many connections.

The kernel and the scheduler of tasks know no classes: a reader of an express connection would wait
until all normal ones that are ready have had their turn. So each normal reader, before its turn,
asks the kernel whether express connections have something to read, and lets them go first; in its
turn it asks again every half millisecond (:mod:`overlay.net.slices`). An express event waits so
long at most, and for the one step that is under way.
"""

from __future__ import annotations

import select
import sys

import trio

PASSES = 64  #: rounds of the scheduler that a normal reader lets go by at most ...
LONGEST_SECONDS = 0.05  #: ... and so long, as a round takes long where there is much to do


class Precedence:
    """The express connections of one process."""

    def __init__(self) -> None:
        self._numbers: set[int] = set()
        self._poll = select.poll() if sys.platform != "win32" else None
        self.given_way = 0  #: times that a normal reader has waited for express ones

    def enter(self, fileno: int) -> None:
        """Let the socket of that number go first from now on."""
        if self._poll is not None and fileno >= 0 and fileno not in self._numbers:
            self._numbers.add(fileno)
            self._poll.register(fileno, select.POLLIN)

    def leave(self, fileno: int) -> None:
        """The socket of that number is like any other, or is about to be closed."""
        if self._poll is not None and fileno in self._numbers:
            self._numbers.discard(fileno)
            self._poll.unregister(fileno)

    @property
    def is_waited_for(self) -> bool:
        """Whether an express connection has something to read."""
        if not self._numbers or self._poll is None:
            return False
        return any(event == select.POLLIN for _, event in self._poll.poll(0))

    async def give_way(self, passes: int = PASSES) -> None:
        """Let express readers go first that have something to read. For normal readers alone."""
        if not self._numbers:
            return
        until = trio.current_time() + LONGEST_SECONDS
        for _ in range(passes):
            if not self.is_waited_for or trio.current_time() > until:
                return
            self.given_way += 1
            await trio.lowlevel.checkpoint()
