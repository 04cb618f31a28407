"""What a profile is merged to when it has become too large: few asks that cover many.

For example, ``s/1/t``, ``s/1/u`` and ``s/2/t`` are merged to ``s/1/#`` and ``s/2/t``, and if that
is still too much to ``s/#``: what has the deepest prefix in common goes first. Merged, a broker
gets events that none of its clients asked for, and misses none that one did.
"""

from __future__ import annotations

from collections.abc import Collection

from ges.matching.asks import everything, size_of
from ges.wire.asked import Ask
from ges.wire.realms import Realm
from ges.wire.topics import REST

#: Levels of the common prefix, the classes and the realm, and the prefix.
_Prefix = tuple[int, int, int, tuple[str, ...]]


def merge(asks: Collection[Ask], most: int, most_bytes: int) -> set[Ask]:
    """Return what covers some of the asks, so that at most so many are left with it.

    Those with a group are left as they are, as one that is wider than what its members want would
    be chosen to serve what none of them does.

    Args:
        asks: a minimal set; it is minimal no more with what is returned beside it.
        most: asks that may be left.
        most_bytes: and what they may take, as :func:`~ges.matching.asks.size_of` says.
    """
    left = {each for each in asks if each.group is None and not each.is_everything}
    fixed = [each for each in asks if each not in left]
    room, room_bytes = most - len(fixed), most_bytes - sum(map(size_of, fixed))
    size = sum(map(size_of, left))
    made: set[Ask] = set()
    depth = max((each.filter.count("/") for each in left), default=0)
    while depth > 0 and (len(left) > room or size > room_bytes):
        for together in _groups(left, depth):
            if len(left) <= room and size <= room_bytes:
                break
            wide = _above(together[0], depth)
            left.difference_update(together)
            made.difference_update(together)
            left.add(wide)
            made.add(wide)
            size += size_of(wide) - sum(map(size_of, together))
        depth -= 1
    if left and (len(left) > room or size > room_bytes):
        classes, realm = 0, Realm.CLUSTER
        for each in asks:  # what is everything of some classes already grows to these
            if each.group is None:
                classes, realm = classes | each.classes, Realm(max(realm, each.realm))
        made = {everything(classes, realm)}
    return made


def _groups(left: set[Ask], depth: int) -> list[list[Ask]]:
    """Return those that have so many levels in front in common, the largest group first."""
    found: dict[_Prefix, list[Ask]] = {}
    for each in left:
        levels = each.filter.split("/")
        if len(levels) > depth:
            key = (depth, each.classes, each.realm, tuple(levels[:depth]))
            found.setdefault(key, []).append(each)
    groups = [together for together in found.values() if len(together) > 1]
    return sorted(groups, key=lambda together: (-len(together), min(e.filter for e in together)))


def _above(ask: Ask, depth: int) -> Ask:
    levels = ask.filter.split("/")[:depth]
    text = "/".join([*levels, REST])
    return Ask(text, ask.classes, None, ask.realm)
