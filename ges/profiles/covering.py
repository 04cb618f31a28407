"""Asks in a trie by the levels of their filters: which cover a given one, and which it covers.

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
    """A set of asks that knows what covers what."""

    def __init__(self) -> None:
        self._root = _Level()
        self._others: dict[Ask, None] = {}  #: for all topics
        self._size = 0

    def __len__(self) -> int:
        """Return how many asks are in it."""
        return self._size

    def __contains__(self, ask: Ask) -> bool:
        """Say whether an ask is in it."""
        if ask.is_everything:
            return ask in self._others
        level: _Level | None = self._root
        for name in ask.filter.split("/"):
            level = level.children.get(name) if level is not None else None
        return level is not None and ask in level.here

    def add(self, ask: Ask) -> None:
        """Put an ask in that is not in it."""
        self._size += 1
        if ask.is_everything:
            self._others[ask] = None
            return
        level = self._root
        for name in ask.filter.split("/"):
            level = level.children.setdefault(name, _Level())
        level.here[ask] = None

    def remove(self, ask: Ask) -> None:
        """Take an ask out that is in it."""
        self._size -= 1
        if ask.is_everything:
            del self._others[ask]
            return
        path = [self._root]
        names = ask.filter.split("/")
        for name in names:
            path.append(path[-1].children[name])
        del path[-1].here[ask]
        for name, parent, child in zip(
            reversed(names), reversed(path[:-1]), reversed(path[1:]), strict=True
        ):
            if child.here or child.children:
                break
            del parent.children[name]

    def covering(self, ask: Ask) -> Iterator[Ask]:
        """Yield those that cover an ask, but for itself."""
        found = [*self._others]
        if not ask.is_everything:
            _collect_wider(self._root, ask.filter.split("/"), 0, found)
        return (wide for wide in found if wide != ask and covers(wide, ask))

    def covered(self, ask: Ask) -> list[Ask]:
        """Return those that an ask covers, but for itself."""
        found: list[Ask] = []
        if not ask.is_everything:
            _collect_narrower(self._root, ask.filter.split("/"), 0, found)
        else:
            found += self._others
        if ask.is_everything:
            _collect_all(self._root, found)
        return [narrow for narrow in found if narrow != ask and covers(ask, narrow)]


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
