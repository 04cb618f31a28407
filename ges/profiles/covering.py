"""Interests in a trie by the levels of their filters: which cover a given one, and which it covers.

For example, with ``a/#``, ``a/b`` and ``c`` in it: ``a/b/c`` is covered by ``a/#``, and ``a/+``
covers ``a/b``. Both questions walk over what matches, however many others there are.
"""

from __future__ import annotations

from collections.abc import Iterator

from ges.matching.asks import covers
from ges.wire.asked import Ask
from ges.wire.topics import ONE, REST


class _Level:
    __slots__ = ("children", "here")

    def __init__(self) -> None:
        self.children: dict[str, _Level] = {}
        self.here: dict[Ask, None] = {}  # an ordered set


class CoverTree:
    """A set of interests that knows what covers what."""

    def __init__(self) -> None:
        self._root = _Level()
        self._others: dict[Ask, None] = {}  #: for all topics
        self._size = 0

    def __len__(self) -> int:
        """Return how many interests are in it."""
        return self._size

    def __contains__(self, interest: Ask) -> bool:
        """Say whether an interest is in it."""
        if interest.is_everything:
            return interest in self._others
        level: _Level | None = self._root
        for name in interest.filter.split("/"):
            level = level.children.get(name) if level is not None else None
        return level is not None and interest in level.here

    def add(self, interest: Ask) -> None:
        """Put an interest in that is not in it."""
        self._size += 1
        if interest.is_everything:
            self._others[interest] = None
            return
        level = self._root
        for name in interest.filter.split("/"):
            level = level.children.setdefault(name, _Level())
        level.here[interest] = None

    def remove(self, interest: Ask) -> None:
        """Take an interest out that is in it."""
        self._size -= 1
        if interest.is_everything:
            del self._others[interest]
            return
        path = [self._root]
        names = interest.filter.split("/")
        for name in names:
            path.append(path[-1].children[name])
        del path[-1].here[interest]
        for name, parent, child in zip(
            reversed(names), reversed(path[:-1]), reversed(path[1:]), strict=True
        ):
            if child.here or child.children:
                break
            del parent.children[name]

    def covering(self, interest: Ask) -> Iterator[Ask]:
        """Yield those that cover an interest, but for itself."""
        found = [*self._others]
        if not interest.is_everything:
            _collect_wider(self._root, interest.filter.split("/"), 0, found)
        return (wide for wide in found if wide != interest and covers(wide, interest))

    def covered(self, interest: Ask) -> list[Ask]:
        """Return those that an interest covers, but for itself."""
        found: list[Ask] = []
        if not interest.is_everything:
            _collect_narrower(self._root, interest.filter.split("/"), 0, found)
        else:
            found += self._others
        if interest.is_everything:
            _collect_all(self._root, found)
        return [narrow for narrow in found if narrow != interest and covers(interest, narrow)]


def _collect_wider(level: _Level, names: list[str], at: int, found: list[Ask]) -> None:
    """Collect candidates; filters and their wildcards are compared as if names were a topic."""
    children = level.children
    if (rest := children.get(REST)) is not None:
        found += rest.here
    if at == len(names):
        found += level.here
        return
    if names[at] != REST and (child := children.get(names[at])) is not None:
        _collect_wider(child, names, at + 1, found)
    if names[at] != ONE and (child := children.get(ONE)) is not None:
        _collect_wider(child, names, at + 1, found)


def _collect_narrower(level: _Level, names: list[str], at: int, found: list[Ask]) -> None:
    """Collect candidates: all that may match no more than ``names`` do."""
    if at == len(names):
        found += level.here
    elif names[at] == REST:
        _collect_all(level, found)
    elif names[at] == ONE:
        for name, child in level.children.items():
            if name != REST:
                _collect_narrower(child, names, at + 1, found)
    elif (exact := level.children.get(names[at])) is not None:
        _collect_narrower(exact, names, at + 1, found)


def _collect_all(level: _Level, found: list[Ask]) -> None:
    found += level.here
    for child in level.children.values():
        _collect_all(child, found)
