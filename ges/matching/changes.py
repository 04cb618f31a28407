"""Which filters have changed of late: by that, who remembers what matched can put it right.

Changes are numbered. A cache that has found something for a topic notes the number of that time,
and later asks for the changes since then that concern this topic. For example, ``a/b`` was matched
at number 7, and since then ``x/#`` has changed (8) and ``a/+`` (9): only 9 concerns it. To ask
costs a walk over the changed filters that match, however many others have changed; nothing goes
over all that is remembered. Changes are forgotten, the oldest first, beyond a bound in number and
in memory.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from ges.matching.filter_tree import filter_cost
from ges.matching.topic_filters import TopicFilters

C = TypeVar("C")

MAX_CHANGES = 512
MAX_BYTES = 4 * 1024 * 1024  #: of memory for the filters that have changed


class Changes(Generic[C]):
    """The latest changes of filters, each with what its maker says of it."""

    def __init__(self) -> None:
        self.number = 0  #: of the latest change
        self._forgotten = 0  #: number of the latest change that is not remembered
        self._filters: TopicFilters[_History[C]] = TopicFilters()
        self._histories: dict[str, _History[C]] = {}  #: by filter
        self._order: deque[str] = deque()  #: the filters of all changes, the oldest first
        self._bytes = 0

    def note(self, text: str, change: C) -> None:
        """Remember that a filter has changed, and how."""
        self.number += 1
        history = self._histories.get(text)
        if history is None:
            history = self._histories[text] = _History()
            self._filters.add(text, history)
            self._bytes += filter_cost(text)
        history.entries.append((self.number, change))
        self._order.append(text)
        while len(self._order) > MAX_CHANGES or self._bytes > MAX_BYTES:
            self._forget_one()

    def since(self, number: int, topic: str) -> list[C] | None:
        """Return the changes after ``number`` that concern ``topic``, in their order.

        None: it is too long ago, and nobody knows.
        """
        if number < self._forgotten:
            return None
        found: list[tuple[int, C]] = []
        for history in self._filters.matches(topic):
            for entry in reversed(history.entries):
                if entry[0] <= number:
                    break
                found.append(entry)
        found.sort(key=_number_of)
        return [change for _, change in found]

    def _forget_one(self) -> None:
        text = self._order.popleft()
        history = self._histories[text]
        self._forgotten, _ = history.entries.popleft()
        if not history.entries:
            del self._histories[text]
            self._filters.remove(text, history)
            self._bytes -= filter_cost(text)


class _History(Generic[C]):
    """The changes of one filter, with their numbers, the oldest first."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: deque[tuple[int, C]] = deque()


def _number_of(entry: tuple[int, C]) -> int:
    return entry[0]
