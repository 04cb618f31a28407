"""Topics, and which of them a filter matches: the reverse of :mod:`ges.matching`. Pure.

For example, ``a/b`` and ``a/c/d`` are in the tree. ``a/+`` matches the first, ``a/#`` both.
"""

from __future__ import annotations

from collections.abc import Iterator

from ges.wire.topics import ONE, REST


class _Node:
    __slots__ = ("is_topic", "levels")

    def __init__(self) -> None:
        self.levels: dict[str, _Node] = {}
        self.is_topic = False  #: a topic ends here


class TopicTree:
    """Topics by level."""

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, topic: str) -> None:
        """Put a checked topic in."""
        node = self._root
        for level in topic.split("/"):
            found = node.levels.get(level)
            if found is None:
                found = node.levels[level] = _Node()
            node = found
        node.is_topic = True

    def remove(self, topic: str) -> None:
        """Take a topic out that is in."""
        way: list[_Node] = [self._root]
        levels = topic.split("/")
        for level in levels:
            way.append(way[-1].levels[level])
        way[-1].is_topic = False
        for node, level in zip(reversed(way[:-1]), reversed(levels), strict=True):
            child = node.levels[level]
            if child.is_topic or child.levels:
                return
            del node.levels[level]

    def matching(self, text: str) -> Iterator[str]:
        """Yield the topics that a checked filter matches."""
        yield from _match(self._root, text.split("/"), 0, "")


def _match(node: _Node, wanted: list[str], at: int, before: str) -> Iterator[str]:
    if at == len(wanted):
        if node.is_topic:
            yield before[:-1]
        return
    want = wanted[at]
    if want == REST:
        if at and node.is_topic:  # a/# matches a as well
            yield before[:-1]
        yield from _below(node, before, is_first=at == 0)
    elif want == ONE:
        for level, child in node.levels.items():
            if at or not level.startswith("$"):
                yield from _match(child, wanted, at + 1, f"{before}{level}/")
    elif (below := node.levels.get(want)) is not None:
        yield from _match(below, wanted, at + 1, f"{before}{want}/")


def _below(node: _Node, before: str, *, is_first: bool) -> Iterator[str]:
    for level, child in node.levels.items():
        if is_first and level.startswith("$"):
            continue
        if child.is_topic:
            yield before + level
        yield from _below(child, f"{before}{level}/", is_first=False)
