"""Topics and filters, as MQTT users know them.

A topic is levels joined by ``/``. In a filter ``+`` stands for one level and ``#``, as the last
level, for any number of them, none included. Topics whose first level starts with ``$`` are the
system's: no wildcard in first place matches them.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from ges.errors import TopicError

MAX_TOPIC_BYTES = 1024
MAX_LEVELS = 64

ONE = "+"
REST = "#"

#: Wildcards of other systems, and what to write instead.
_FOREIGN = {"*": ONE, "**": REST, ">": REST}


def check_topic(topic: str) -> str:
    """Return ``topic`` if events can be published to it.

    Raises:
        TopicError: it is empty, too long, or has a wildcard in it.
    """
    _check_shape(topic, "topic")
    if ONE in topic or REST in topic:
        raise TopicError(f"topic {topic!r} has a wildcard; wildcards belong into filters")
    return topic


def check_filter(text: str) -> str:
    """Return ``text`` if it is a filter.

    Raises:
        TopicError: it is empty, too long, or has a wildcard that does not stand alone in its level.
    """
    _check_shape(text, "filter")
    levels = text.split("/")
    for at, level in enumerate(levels):
        if level in _FOREIGN:
            raise TopicError(f"filter {text!r}: write {_FOREIGN[level]!r} instead of {level!r}")
        if (ONE in level or REST in level) and len(level) > 1:
            raise TopicError(f"filter {text!r}: a wildcard stands for a whole level, as in a/+/c")
        if level == REST and at != len(levels) - 1:
            raise TopicError(f"filter {text!r}: '#' can only be the last level, as in a/#")
    return text


def _check_shape(text: str, what: str) -> None:
    if not text:
        raise TopicError(f"the {what} is empty; write one such as sensors/7/temperature")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise TopicError(f"{what} {text!r} is not text") from error
    if size > MAX_TOPIC_BYTES:
        raise TopicError(f"the {what} has {size} bytes, {MAX_TOPIC_BYTES} are allowed")
    if text.count("/") >= MAX_LEVELS:
        raise TopicError(f"the {what} has more than {MAX_LEVELS} levels")
    if "\0" in text:
        raise TopicError(f"{what} {text!r} has a null character in it")


T = TypeVar("T")


class _Level(Generic[T]):
    __slots__ = ("children", "here")

    def __init__(self) -> None:
        self.children: dict[str, _Level[T]] = {}
        self.here: dict[T, None] = {}  # an ordered set


class FilterTree(Generic[T]):
    """Filters with their holders; finds all holders whose filter matches a topic.

    A trie by levels: adding and matching cost no more than the levels of the topic times the
    wildcards met on the way, whatever the number of filters.
    """

    def __init__(self) -> None:
        self._root: _Level[T] = _Level()
        self.size = 0

    def add(self, text: str, holder: T) -> None:
        """Let ``holder`` have a checked filter; having it twice is having it once."""
        level = self._root
        for name in text.split("/"):
            level = level.children.setdefault(name, _Level())
        if holder not in level.here:
            level.here[holder] = None
            self.size += 1

    def remove(self, text: str, holder: T) -> None:
        """Take the filter from ``holder``, if it has it."""
        path = [self._root]
        names = text.split("/")
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
        """Return the holders whose filters match ``topic``, each once, in order of finding."""
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
        if wild and (child := children.get(ONE)) is not None:
            self._collect(child, names, at + 1, found)


_MISSING = object()
