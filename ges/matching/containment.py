"""What one filter can match, against another: containment and overlap, without trying topics.

Both follow the meaning that :class:`~ges.matching.filter_tree.FilterTree` gives to filters: ``+``
is one level, ``#`` any number of levels, none included, and no wildcard in first place matches a
topic whose first level starts with ``$``. A topic is a filter without wildcards, so
``covers(filter, topic)`` is matching. Both cost no more than the levels of the shorter text.
"""

from __future__ import annotations

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


def _is_system(level: str) -> bool:
    return level.startswith("$")
