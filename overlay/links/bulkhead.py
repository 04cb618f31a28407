"""Keeps a fault of ours in the work of one connection from sinking the broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

T = TypeVar("T")
R = TypeVar("R")


class Bulkhead:
    """Where the unforeseen is stopped, counted and logged."""

    __slots__ = ("_counters", "_log")

    def __init__(self, counters: Counter[str], log: structlog.stdlib.BoundLogger) -> None:
        self._counters = counters
        self._log = log

    async def contain(self, work: Callable[[T], Awaitable[R]], subject: T) -> R | None:
        """Do the work of one connection; a fault of ours in it ends that connection, not us all."""
        try:
            return await work(subject)
        except Exception as error:  # noqa: BLE001 - the one place where the unforeseen is stopped
            self._counters["internal_errors"] += 1
            self._log.error("BUG: internal error, connection closed", why=repr(error))
            self._log.debug("where it happened", exc_info=True)
            return None
