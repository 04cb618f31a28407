"""Gives memory back to the system after many connections have come and gone.

Python counts objects, not what they hold outside of it: a closed TLS stream refers to itself and
keeps some 50 KiB until the collector happens to look. And the C library keeps what was freed, for
later, unless it is asked to give it back.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

import trio

TIDY_AFTER = 64  #: connections that have ended
TIDY_SECONDS = 2.0  #: to wait then, as others may be about to end


class Tidying:
    """Notes ends of connections, and tidies up a little after there were many."""

    __slots__ = ("_ended", "_many", "done")

    def __init__(self) -> None:
        self.done = 0  #: how often
        self._ended = 0
        self._many = trio.Event()

    def note_end(self) -> None:
        """One more connection has ended."""
        self._ended += 1
        if self._ended >= TIDY_AFTER:
            self._many.set()

    async def run(self) -> None:
        """Tidy up when there is reason to, until cancelled."""
        while True:
            await self._many.wait()
            await trio.sleep(TIDY_SECONDS)
            self._ended = 0
            self._many = trio.Event()
            give_back()
            self.done += 1


def give_back() -> None:
    """Collect garbage, and have the C library return what is free; takes some milliseconds."""
    gc.collect()
    with suppress(OSError, AttributeError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)
