"""Which of up to 64 members want a topic: one bit for each.

For example, members 0 and 2 of a cluster are interested in ``a/#``, and member 1 in ``b``: the mask
of ``a/x`` is 0b101. A mask is remembered by topic until an ask changes that matches the topic.
"""

from __future__ import annotations

from typing import NamedTuple

from ges.matching.changes import Changes
from ges.matching.engine import Engine
from ges.matching.topic_cache import TopicCache
from ges.matching.topic_filters import TopicFilters

MAX_MEMBERS = 64
MAX_CACHE_BYTES = 8 * 1024 * 1024


class MaskIndex:
    """The asks of up to 64 members, each with a *slot*: a number from 0 to 63."""

    def __init__(self) -> None:
        self._engine: Engine[int] = TopicFilters()
        self._changes: Changes[_Change] = Changes()
        self._cache: TopicCache[int, _Change] = TopicCache(
            self._changes,
            self._match,
            self._mend,
            lambda mask: 0,
            nothing=0,
            limit_bytes=MAX_CACHE_BYTES,
        )

    def add(self, ask: str, slot: int) -> None:
        """Let the member in a slot have a checked filter; having it twice is having it once.

        Raises:
            ValueError: there is no such slot.
        """
        if not 0 <= slot < MAX_MEMBERS:
            raise ValueError(f"slot {slot}: slots are from 0 to {MAX_MEMBERS - 1}")
        self._engine.add(ask, slot)
        self._changes.note(ask, _Change(slot, is_new=True))

    def remove(self, ask: str, slot: int) -> None:
        """Take the filter from the member in a slot, if it has it."""
        self._engine.remove(ask, slot)
        self._changes.note(ask, _Change(slot, is_new=False))

    def mask_of(self, topic: bytes) -> int:
        """Return the members that want a topic, as it stands in events: bit n is slot n."""
        return self._cache.value(topic)

    @property
    def cached_bytes(self) -> int:
        """Memory that the remembered masks take, by estimate."""
        return self._cache.cached_bytes

    def drop_cache(self) -> None:
        """Forget the remembered masks."""
        self._cache.drop()

    def _match(self, topic: str) -> int:
        mask = 0
        for slot in self._engine.matches(topic):
            mask |= 1 << slot
        return mask

    def _mend(self, topic: str, mask: int, changes: list[_Change]) -> int:
        for change in changes:
            if not change.is_new:
                return self._match(topic)  # another ask of that member may match all the same
            mask |= 1 << change.slot
        return mask


class _Change(NamedTuple):
    """One ask of a member has come, or gone."""

    slot: int
    is_new: bool
