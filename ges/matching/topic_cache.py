"""What was found for a topic, kept until a filter changes that matches it.

What is found is the *value* of the topic: for example, the clients that want it. The next event of
that topic gets the same value again. When a filter has changed meanwhile that matches the topic,
the value is mended by that change. Other changes cost the topic one look into
:mod:`ges.matching.changes`, when it is used next. Equal values of several topics are one object,
counted once. The cache is bounded in bytes, and the topic not used for longest goes first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from ges.matching.changes import Changes

V = TypeVar("V", bound=Hashable)
C = TypeVar("C")

TOPIC_BYTES = 320  #: of memory for one topic at most, beside its text
VALUE_BYTES = 256  #: and for one value, beside what its maker says that it takes


class TopicCache(Generic[V, C]):
    """Values by topic."""

    def __init__(
        self,
        changes: Changes[C],
        match: Callable[[str], V],
        mend: Callable[[str, V, list[C]], V],
        weigh: Callable[[V], int],
        *,
        nothing: V,
        limit_bytes: int,
    ) -> None:
        """Take how values are found.

        Args:
            changes: of the filters that values are found by.
            match: finds the value of a topic.
            mend: returns the value of a topic after some changes, from the one before.
            weigh: says how many bytes of memory a value takes.
            nothing: value of what is no text, and so no topic.
            limit_bytes: memory for all of it.
        """
        self._changes = changes
        self._match = match
        self._mend = mend
        self._weigh = weigh
        self._nothing = nothing
        self._limit = limit_bytes
        self._entries: OrderedDict[bytes, _Entry[V]] = OrderedDict()  #: used longest ago first
        self._values: dict[V, _Value[V]] = {}
        self.cached_bytes = 0  #: memory that it takes, by estimate

    def __len__(self) -> int:
        """Return how many topics it knows."""
        return len(self._entries)

    def value(self, topic: bytes) -> V:
        """Return what there is for a topic, as it stands in events."""
        entry = self._entries.get(topic)
        if entry is None:
            return self._enter(topic)
        self._entries.move_to_end(topic)
        if entry.number != self._changes.number:
            self._renew(topic, entry)
        return entry.shared.value

    def drop(self) -> None:
        """Forget all; it is found again when it is asked for."""
        self._entries.clear()
        self._values.clear()
        self.cached_bytes = 0

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _enter(self, topic: bytes) -> V:
        try:
            text = topic.decode()
        except UnicodeDecodeError:
            return self._nothing
        shared = self._share(self._match(text))
        self._entries[topic] = _Entry(self._changes.number, shared)
        self.cached_bytes += TOPIC_BYTES + len(topic)
        self._make_room()
        return shared.value

    def _renew(self, topic: bytes, entry: _Entry[V]) -> None:
        text = topic.decode()
        changes = self._changes.since(entry.number, text)
        entry.number = self._changes.number
        if changes is None:
            value = self._match(text)
        elif changes:
            value = self._mend(text, entry.shared.value, changes)
        else:
            return
        before, entry.shared = entry.shared, self._share(value)
        self._release(before)
        self._make_room()

    def _share(self, value: V) -> _Value[V]:
        shared = self._values.get(value)
        if shared is None:
            shared = self._values[value] = _Value(value, VALUE_BYTES + self._weigh(value))
            self.cached_bytes += shared.size
        shared.topics += 1
        return shared

    def _release(self, shared: _Value[V]) -> None:
        shared.topics -= 1
        if not shared.topics:
            del self._values[shared.value]
            self.cached_bytes -= shared.size

    def _make_room(self) -> None:
        while self.cached_bytes > self._limit:
            topic, entry = self._entries.popitem(last=False)
            self.cached_bytes -= TOPIC_BYTES + len(topic)
            self._release(entry.shared)


class _Value(Generic[V]):
    """One value, and how many topics have it."""

    __slots__ = ("size", "topics", "value")

    def __init__(self, value: V, size: int) -> None:
        self.value = value
        self.size = size
        self.topics = 0


class _Entry(Generic[V]):
    """What is known of one topic, as of the change of that number."""

    __slots__ = ("number", "shared")

    def __init__(self, number: int, shared: _Value[V]) -> None:
        self.number = number
        self.shared = shared
