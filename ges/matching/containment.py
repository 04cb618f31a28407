"""What one filter can match, against others: containment and overlap, without trying topics.

All follow the meaning that :class:`~ges.matching.filter_tree.FilterTree` gives to filters: ``+``
is one level, ``#`` any number of levels, none included, and no wildcard in first place matches a
topic whose first level starts with ``$``. A topic is a filter without wildcards, so
``covers(filter, topic)`` is matching. One against one costs no more than the levels of the shorter
text.
:func:`minimal` drops what others cover: of ``a/b``, ``a/+`` and ``c`` it leaves ``a/+`` and ``c``.
"""

from __future__ import annotations

from collections.abc import Iterable

from ges.matching.filter_tree import FilterTree
from ges.wire.topics import ONE, REST


def covers(wide: str, narrow: str) -> bool:
    """Say whether every topic that ``narrow`` can match is matched by ``wide``."""
    broad, tight = wide.split("/"), narrow.split("/")
    if tight == [REST]:
        tight = [ONE, REST]  # a topic has at least one level
    for at, level in enumerate(broad):
        if level == REST:
            return at > 0 or not _is_system(tight[0])
        if at == len(tight) or tight[at] == REST:
            return False
        if level == ONE:
            if at == 0 and _is_system(tight[0]):
                return False
        elif level != tight[at]:
            return False
    return len(broad) == len(tight)


def overlaps(one: str, other: str) -> bool:
    """Say whether some topic is matched by both filters."""
    first, second = one.split("/"), other.split("/")
    for at in range(min(len(first), len(second))):
        a, b = first[at], second[at]
        if at == 0 and (
            (a in (ONE, REST) and _is_system(b)) or (b in (ONE, REST) and _is_system(a))
        ):
            return False
        if REST in (a, b):
            return True
        if a != b and ONE not in (a, b):
            return False
    longer = first if len(first) > len(second) else second
    return len(first) == len(second) or longer[min(len(first), len(second)) :] == [REST]


def minimal(filters: Iterable[str]) -> set[str]:
    """Return as few of the filters as match the same topics: no other one covers any of them.

    Of two that match the same topics, such as ``#`` and ``+/#``, the first in sorted order stays.
    """
    known = set(filters)
    tree: FilterTree[str] = FilterTree()
    for text in known:
        tree.add(text, text)
    return {
        text for text in known if not any(_makes_idle(wide, text) for wide in tree.matches(text))
    }


def _makes_idle(wide: str, text: str) -> bool:
    return wide != text and covers(wide, text) and (wide < text or not covers(text, wide))


def _is_system(level: str) -> bool:
    return level.startswith("$")
