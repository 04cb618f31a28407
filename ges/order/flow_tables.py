"""What a broker remembers of each publisher's flow: one sum for the memory budget. Pure.

A client that may publish, or an end that greets as a broker, can invent publishers, and each takes
some memory in several tables: which of its events have come, and which of them are delivered. All
of them together are one pool (:mod:`ges.broker.memory_pools`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class FlowTable(Protocol):
    """Something that is remembered by flow."""

    @property
    def memory(self) -> int:
        """Bytes of memory that it takes."""

    def shed(self, most: int) -> None:
        """Forget flows, those longest without an event, until at most so many bytes are taken."""


class FlowTables:
    """All such tables of one broker."""

    def __init__(self, tables: Sequence[FlowTable]) -> None:
        self._tables = tuple(tables)

    @property
    def memory(self) -> int:
        """Bytes of memory that all take."""
        return sum(table.memory for table in self._tables)

    def shed(self, most: int) -> None:
        """Have each forget its part, until at most so many bytes are taken."""
        total = self.memory
        if total <= most:
            return
        for table in self._tables:
            table.shed(table.memory * most // total)
