"""Publishers of whom events may have been lost on the way: the next event of each is *marked*.

A mark tells the brokers beyond that what is missing before the event need not be waited for as
long as what is only late (:mod:`ges.routing.ordering`).
"""

from __future__ import annotations

from ges.routing.ordering import MAX_PUBLISHERS, Ordering
from ges.wire.events import Flow, Head

MAX_TO_MARK = 2 * MAX_PUBLISHERS


class Losses:
    """Whose next event is to be marked."""

    def __init__(self, ordering: Ordering) -> None:
        """``ordering`` knows all publishers."""
        self._ordering = ordering
        self._to_mark: dict[Flow, None] = {}

    def note(self, head: Head) -> None:
        """This event is lost, or others of its publisher may be."""
        self._to_mark[head.flow] = None
        if len(self._to_mark) > MAX_TO_MARK:  # of the oldest, what follows a loss waits longer
            del self._to_mark[next(iter(self._to_mark))]

    def note_any(self) -> None:
        """Events are lost, and nobody knows which."""
        self._to_mark.update(dict.fromkeys(self._ordering.flows))

    def is_to_mark(self, flow: Flow) -> bool:
        """Say whether the next event of a flow is to be marked."""
        return flow in self._to_mark

    def marked(self, flow: Flow) -> None:
        """An event of that flow went out marked."""
        self._to_mark.pop(flow, None)
