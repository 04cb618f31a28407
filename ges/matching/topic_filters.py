"""All filters and who holds them: exact ones in a dictionary, those with wildcards in a tree.

Matching an event costs one look into the dictionary, and a walk over filters with wildcards alone.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from ges.matching.exact_topics import ExactTopics
from ges.matching.filter_tree import FilterTree
from ges.wire.topics import ONE, REST

T = TypeVar("T")


class TopicFilters(Generic[T]):
    """Filters with their holders: an :class:`~ges.matching.engine.Engine`."""

    def __init__(self) -> None:
        self._exact: ExactTopics[T] = ExactTopics()
        self._wild: FilterTree[T] = FilterTree()

    def add(self, ask: str, holder: T) -> None:
        """Let ``holder`` have a checked filter; having it twice is having it once."""
        (self._wild if is_wild(ask) else self._exact).add(ask, holder)

    def remove(self, ask: str, holder: T) -> None:
        """Take the filter from ``holder``, if it has it."""
        (self._wild if is_wild(ask) else self._exact).remove(ask, holder)

    def matches(self, topic: str) -> list[T]:
        """Return the holders whose filters match ``topic``, each once."""
        exact, wild = self._exact.matches(topic), self._wild.matches(topic)
        return list(dict.fromkeys(exact + wild)) if exact and wild else exact or wild


def is_wild(text: str) -> bool:
    """Say whether a checked filter has a wildcard in it, and so may match several topics."""
    return ONE in text or REST in text
