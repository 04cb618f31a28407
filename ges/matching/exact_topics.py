"""Filters without wildcards and who holds them: each is the one topic that it matches."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class ExactTopics(Generic[T]):
    """A dictionary from topics to holders: an :class:`~ges.matching.engine.Engine`."""

    def __init__(self) -> None:
        self._holders: dict[str, dict[T, None]] = {}  # an ordered set for each topic

    def add(self, ask: str, holder: T) -> None:
        """Let ``holder`` have a topic; having it twice is having it once."""
        self._holders.setdefault(ask, {})[holder] = None

    def remove(self, ask: str, holder: T) -> None:
        """Take the topic from ``holder``, if it has it."""
        holders = self._holders.get(ask)
        if holders is not None:
            holders.pop(holder, None)
            if not holders:
                del self._holders[ask]

    def matches(self, topic: str) -> list[T]:
        """Return the holders of ``topic``, in the order in which they came."""
        return list(self._holders.get(topic, ()))
