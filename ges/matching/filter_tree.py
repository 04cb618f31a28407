"""Filters with wildcards and who holds them, in a trie by levels.

:mod:`ges.wire.topics` says what the wildcards stand for.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from ges.wire.topics import ONE, REST

T = TypeVar("T")

LEVEL_BYTES = 512  #: of memory for a level of a filter, at most


def filter_cost(text: str) -> int:
    """Return how many bytes of memory a filter takes at most, the tree of filters included."""
    return (text.count("/") + 2) * LEVEL_BYTES + 4 * len(text)


class _Level(Generic[T]):
    __slots__ = ("children", "here")

    def __init__(self) -> None:
        self.children: dict[str, _Level[T]] = {}
        self.here: dict[T, None] = {}  # an ordered set


class FilterTree(Generic[T]):
    """Filters with their holders: an :class:`~ges.matching.engine.Engine`.

    Adding and matching cost no more than the levels of the topic times the wildcards met on the
    way, whatever the number of filters.
    """

    def __init__(self) -> None:
        self._root: _Level[T] = _Level()
        self.size = 0

    def add(self, ask: str, holder: T) -> None:
        """Let ``holder`` have a checked filter; having it twice is having it once."""
        level = self._root
        for name in ask.split("/"):
            level = level.children.setdefault(name, _Level())
        if holder not in level.here:
            level.here[holder] = None
            self.size += 1

    def remove(self, ask: str, holder: T) -> None:
        """Take the filter from ``holder``, if it has it."""
        path = [self._root]
        names = ask.split("/")
        for name in names:
            child = path[-1].children.get(name)
            if child is None:
                return
            path.append(child)
        if path[-1].here.pop(holder, _MISSING) is not _MISSING:
            self.size -= 1
        for name, parent, child in zip(
            reversed(names), reversed(path[:-1]), reversed(path[1:]), strict=True
        ):
            if child.here or child.children:
                break
            del parent.children[name]

    def matches(self, topic: str) -> list[T]:
        """Return the holders whose filters match ``topic``, each once, in order of finding.

        A filter may stand for the topic: then all holders of filters that cover it are among them.
        """
        found: dict[T, None] = {}
        names = topic.split("/")
        self._collect(self._root, names, 0, found)
        return list(found)

    def _collect(self, level: _Level[T], names: list[str], at: int, found: dict[T, None]) -> None:
        children = level.children
        wild = at > 0 or not names[0].startswith("$")
        if wild and (rest := children.get(REST)) is not None:
            found.update(rest.here)
        if at == len(names):
            found.update(level.here)
            return
        if (child := children.get(names[at])) is not None:
            self._collect(child, names, at + 1, found)
        if wild and names[at] != ONE and (child := children.get(ONE)) is not None:
            self._collect(child, names, at + 1, found)


_MISSING = object()
