"""The rules of matching as plainly as can be: one filter after the other, level by level.

Tests compare the other engines with this one. A broker uses it nowhere, as its time grows with the
number of filters.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from ges.wire.topics import ONE, REST

T = TypeVar("T")


class LinearFilters(Generic[T]):
    """All filters in a list: an :class:`~ges.matching.engine.Engine`."""

    def __init__(self) -> None:
        self._held: list[tuple[str, T]] = []

    def add(self, ask: str, holder: T) -> None:
        """Let ``holder`` have a checked filter; having it twice is having it once."""
        if (ask, holder) not in self._held:
            self._held.append((ask, holder))

    def remove(self, ask: str, holder: T) -> None:
        """Take the filter from ``holder``, if it has it."""
        if (ask, holder) in self._held:
            self._held.remove((ask, holder))

    def matches(self, topic: str) -> list[T]:
        """Return the holders whose filters match ``topic``, each once."""
        found: list[T] = []
        for text, holder in self._held:
            if holder not in found and does_match(text, topic):
                found.append(holder)
        return found


def does_match(text: str, topic: str) -> bool:
    """Say whether a filter matches a topic, by the rules of :mod:`ges.wire.topics`."""
    wanted, levels = text.split("/"), topic.split("/")
    if levels[0].startswith("$") and wanted[0] in (ONE, REST):
        return False
    if wanted[-1] == REST:
        wanted.pop()
        if len(levels) < len(wanted):
            return False
        levels = levels[: len(wanted)]
    return len(wanted) == len(levels) and all(
        want in (ONE, level) for want, level in zip(wanted, levels, strict=True)
    )
