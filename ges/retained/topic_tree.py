"""Topics, and which of them a filter matches: the reverse of :mod:`ges.matching`. Pure.

For example, ``a/b`` and ``a/c/d`` are in the tree. ``a/+`` matches the first, ``a/#`` both.

Levels that no other topic parts from are one node: here there are ``a``, and below it ``b`` and
``c/d``. So a topic adds two nodes at most, however many levels it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ges.wire.topics import ONE, REST


class _Node:
    __slots__ = ("below", "is_topic", "way")

    def __init__(self, way: str, *, is_topic: bool) -> None:
        self.way = way  #: the levels from the node above to this one
        self.below: dict[str, _Node] | None = None  #: by the first level of their ways
        self.is_topic = is_topic  #: a topic ends here

    def child(self, level: str) -> _Node | None:
        return self.below.get(level) if self.below is not None else None

    def children(self, want: str) -> Iterable[_Node]:
        """Return those below whose first level may match one of a filter."""
        if want == ONE:
            return self.below.values() if self.below is not None else ()
        child = self.child(want)
        return (child,) if child is not None else ()

    def put(self, level: str, node: _Node) -> None:
        if self.below is None:
            self.below = {}
        self.below[level] = node

    def drop(self, level: str) -> None:
        if self.below is not None:
            del self.below[level]
            self.below = self.below or None

    def join(self) -> None:
        """Become one with the only node below, if nothing else ends or parts here."""
        if not self.is_topic and self.below is not None and len(self.below) == 1:
            (only,) = self.below.values()
            self.way = f"{self.way}/{only.way}"
            self.below, self.is_topic = only.below, only.is_topic


class TopicTree:
    """Topics by level."""

    def __init__(self) -> None:
        self._root = _Node("", is_topic=False)

    def add(self, topic: str) -> None:
        """Put a checked topic in."""
        node, rest = self._root, topic.split("/")
        while rest:
            child = node.child(rest[0])
            if child is None:
                node.put(rest[0], _Node("/".join(rest), is_topic=True))
                return
            way = child.way.split("/")
            same = _common(way, rest)
            if same < len(way):
                parting = _Node("/".join(way[:same]), is_topic=False)
                child.way = "/".join(way[same:])
                parting.put(way[same], child)
                node.put(rest[0], parting)
                child = parting
            node, rest = child, rest[same:]
        node.is_topic = True

    def remove(self, topic: str) -> None:
        """Take a topic out that is in.

        Raises:
            KeyError: it is not.
        """
        above: _Node | None = None
        node, rest = self._root, topic.split("/")
        first = ""
        while rest:
            above, first = node, rest[0]
            child = node.child(first)
            way = child.way.split("/") if child is not None else []
            if child is None or rest[: len(way)] != way:
                raise KeyError(topic)
            node, rest = child, rest[len(way) :]
        node.is_topic = False
        if node.below is not None:
            node.join()
        elif above is not None:
            above.drop(first)
            if above is not self._root:
                above.join()

    def matching(self, text: str) -> Iterator[str]:
        """Yield the topics that a checked filter matches."""
        yield from _match(self._root, text.split("/"), 0, "")


def _match(node: _Node, wanted: list[str], at: int, before: str) -> Iterator[str]:
    """Yield what matches at a node and below; ``before``: its levels, which match the first."""
    if at == len(wanted):
        if node.is_topic:
            yield before[:-1]
        return
    want = wanted[at]
    if want == REST:
        if at and node.is_topic:  # a/# matches a as well
            yield before[:-1]
        yield from _below(node, before, is_first=at == 0)
        return
    for child in node.children(want):
        way = child.way.split("/")
        here = f"{before}{child.way}/"
        for number, level in enumerate(way, at):
            want = wanted[number] if number < len(wanted) else ""
            if number == len(wanted) or not _goes(want, level, number):
                break
            if want == REST:
                if child.is_topic:
                    yield here[:-1]
                yield from _below(child, here, is_first=False)
                break
        else:
            yield from _match(child, wanted, at + len(way), here)


def _common(one: Sequence[str], two: Sequence[str]) -> int:
    """Return how many levels both begin with."""
    for number, (a, b) in enumerate(zip(one, two, strict=False)):
        if a != b:
            return number
    return min(len(one), len(two))


def _goes(want: str, level: str, at: int) -> bool:
    """Say whether one level of a filter matches one of a topic; the first may be nobody else's."""
    if want in (ONE, REST):
        return bool(at) or not level.startswith("$")
    return want == level


def _below(node: _Node, before: str, *, is_first: bool) -> Iterator[str]:
    for child in node.below.values() if node.below is not None else ():
        if is_first and child.way.startswith("$"):
            continue
        if child.is_topic:
            yield before + child.way
        yield from _below(child, f"{before}{child.way}/", is_first=False)
