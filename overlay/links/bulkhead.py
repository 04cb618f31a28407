"""Keeps a fault of ours, in the work of one connection or of a timer, from sinking the broker."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from overlay.links.counted_log import CountedLog

PAUSE_SECONDS = 1.0  #: before a timer goes on whose step has failed, as it may fail again

T = TypeVar("T")
R = TypeVar("R")

_FULL = "the disk is full; make room on it"
_FILES = "too many files are open; raise the limit (ulimit -n)"
_MEMORY = "there is no memory left; give the broker more, or serve fewer clients (--max-clients)"

#: What the machine lacks, which is no fault of ours, and the mend.
_LACKS = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: "the disk quota is used up; make room, or raise it",
    errno.EROFS: "the file system is read-only; mount it for writing",
    errno.EIO: "the disk fails; replace it",
    errno.EMFILE: _FILES,
    errno.ENFILE: _FILES,
    errno.ENOMEM: _MEMORY,
    errno.ENOBUFS: _MEMORY,
}


def lack(error: BaseException) -> str | None:
    """Return what the machine lacks if that is why ``error`` was raised, and the mend; or None.

    Of errors in a group each has to say so.
    """
    if isinstance(error, BaseExceptionGroup):
        found = [lack(each) for each in error.exceptions]
        return found[0] if all(found) else None
    if isinstance(error, MemoryError):
        return _MEMORY
    if isinstance(error, OSError) and error.errno is not None:
        return _LACKS.get(error.errno)
    return None


class Bulkhead:
    """Where the unforeseen is stopped, counted and logged."""

    __slots__ = ("_counted_log", "_counters", "_log", "_sleep")

    def __init__(
        self,
        counters: Counter[str],
        log: structlog.stdlib.BoundLogger,
        counted_log: CountedLog,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        """``sleep``: waits for so many seconds."""
        self._counters = counters
        self._log = log
        self._counted_log = counted_log
        self._sleep = sleep

    async def contain(self, work: Callable[[T], Awaitable[R]], subject: T) -> R | None:
        """Do the work of one connection; a fault of ours in it ends that connection, not us all."""
        try:
            return await work(subject)
        except Exception as error:  # noqa: BLE001 - the one place where the unforeseen is stopped
            self._note(error, "connection closed")
            return None

    async def keep(self, run: Callable[[], Awaitable[None]], *foreseen: type[Exception]) -> None:
        """Do the work of a timer, or of another loop in the background, until cancelled.

        A fault of ours in one of its steps does not end the broker: ``run`` begins anew after
        :data:`PAUSE_SECONDS`. Errors of the types ``foreseen`` pass.
        """
        while True:
            try:
                await run()
                return
            except Exception as error:
                if _is_all(error, foreseen):
                    raise
                self._note(error, "a timer pauses")
            await self._sleep(PAUSE_SECONDS)

    def _note(self, error: Exception, consequence: str) -> None:
        missing = lack(error)
        if missing is not None:
            text = f"{consequence}, the machine lacks something"
            self._counted_log.note("resource_shortages", text, why=missing)
            return
        self._counters["internal_errors"] += 1
        self._log.error(f"BUG: internal error, {consequence}", why=repr(error))
        self._log.debug("where it happened", exc_info=True)


def _is_all(error: BaseException, types: tuple[type[Exception], ...]) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_all(each, types) for each in error.exceptions)
    return isinstance(error, types)
