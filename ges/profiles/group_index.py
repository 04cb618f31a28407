"""Which queue groups want a topic, and which members of the cluster have clients in each.

For example, the members in slots 2 and 5 both have a client in the group ``workers`` on
``orders/+``: the groups of ``orders/7`` are that one, and its mask is 0b100100. What is found is
remembered by topic until a group comes or goes; that another broker joins a group changes a mask
alone.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ges.matching.topic_filters import TopicFilters
from ges.wire.asked import Ask
from ges.wire.groups import group_key
from ges.wire.matter import Matter
from ges.wire.realms import Realm
from overlay.ids import LinkClass

MAX_CACHED = 4096  #: topics of one class


class Group(NamedTuple):
    """A queue group: its members on one filter."""

    key: int  #: as events name it
    filter: str  #: in canonical form
    name: str
    realm: int = Realm.ALL  #: it is for events published in the same unit of that level


class GroupIndex:
    """The groups of all members, this broker among them, by slot and class."""

    def __init__(self) -> None:
        self._engines: dict[LinkClass, TopicFilters[Group]] = {
            each: TopicFilters() for each in LinkClass
        }
        #: How often a slot is in a group: by several classes, or as two claim it for a moment.
        self._uses: Counter[tuple[LinkClass, int, int]] = Counter()
        self._masks: dict[tuple[LinkClass, int], int] = {}
        self._found: dict[LinkClass, dict[bytes, tuple[Group, ...]]] = {
            each: {} for each in LinkClass
        }

    def of(self, matter: Matter) -> tuple[Group, ...]:
        """Return the groups that want an event."""
        if not self._masks:
            return ()
        known = self._found[matter.link_class]
        found = known.get(matter.topic)
        if found is None:
            if len(known) >= MAX_CACHED:
                known.clear()
            found = known[matter.topic] = self._match(matter.link_class, matter.topic)
        if matter.common > Realm.CLUSTER and found:
            return tuple(group for group in found if group.realm >= matter.common)
        return found

    def mask(self, link_class: LinkClass, key: int) -> int:
        """Return the slots of the members in a group that take events of that class, as a mask."""
        return self._masks.get((link_class, key), 0)

    def count(self, link_class: LinkClass, ask: Ask, slot: int, by: int) -> None:
        """One ask of a member is for a group, or (``by`` is -1) is no more."""
        group = group_of(ask)
        used, place = (link_class, group.key, slot), (link_class, group.key)
        self._uses[used] += by
        mask = self._masks.get(place, 0)
        if self._uses[used] > 0:
            self._masks[place] = mask | 1 << slot
            if not mask:
                self._engines[link_class].add(group.filter, group)
                self._found[link_class].clear()
            return
        del self._uses[used]
        mask &= ~(1 << slot)
        if mask:
            self._masks[place] = mask
        elif self._masks.pop(place, None) is not None:
            self._engines[link_class].remove(group.filter, group)
            self._found[link_class].clear()

    def _match(self, link_class: LinkClass, topic: bytes) -> tuple[Group, ...]:
        try:
            return tuple(sorted(self._engines[link_class].matches(topic.decode())))
        except UnicodeDecodeError:
            return ()


def group_of(ask: Ask) -> Group:
    """Return the group that an ask with one is for."""
    name = ask.group or ""
    key = group_key(ask.filter, name, ask.realm)
    return Group(key, ask.filter, name, ask.realm)
