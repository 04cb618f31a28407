"""Memory that the process keeps for later, and gives back after many connections have ended.

Python counts objects, not what they hold outside of it: whatever refers to itself keeps that until
the collector happens to look. And the C library keeps what was freed, for later, unless it is asked
to give it back. In daily work it is better if it does keep some: what was read stays until it is
acknowledged, and pages given back in between come again with one page fault each.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

import trio

TIDY_AFTER = 64  #: connections that have ended
TIDY_SECONDS = 2.0  #: to wait then, as others may be about to end
REUSED_BYTES = 8 * 1024 * 1024  #: of free memory kept in daily work: as much as a stream may hold

#: Parameters of glibc's mallopt.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


class HeapTrim:
    """Notes ends of connections, and tidies up a little after there were many."""

    __slots__ = ("_ended", "_many")

    def __init__(self) -> None:
        self._ended = 0
        self._many = trio.Event()

    def note_end(self) -> None:
        """One more connection has ended."""
        self._ended += 1
        if self._ended >= TIDY_AFTER:
            self._many.set()

    def note_freed(self) -> None:
        """Much was freed at once."""
        self._many.set()

    async def run(self) -> None:
        """Tidy up when there is reason to, until cancelled."""
        keep_some()
        while True:
            await self._many.wait()
            await trio.sleep(TIDY_SECONDS)
            self._ended = 0
            self._many = trio.Event()
            give_back()


def keep_some() -> None:
    """Have the C library keep :data:`REUSED_BYTES` that are free, and use them again."""
    with suppress(OSError, AttributeError):  # another C library than glibc
        library = ctypes.CDLL(None)
        # Longer pieces would come from the system one by one, and go back one by one.
        library.mallopt(_MMAP_THRESHOLD, REUSED_BYTES // 2)
        library.mallopt(_TRIM_THRESHOLD, REUSED_BYTES)


def give_back() -> None:
    """Collect garbage, and have the C library return what is free; takes some milliseconds."""
    gc.collect()
    trim()


def trim() -> None:
    """Have the C library return what is free; takes a millisecond or two."""
    with suppress(OSError, AttributeError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)
