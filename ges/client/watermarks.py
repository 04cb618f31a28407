"""What a client has had of each publisher, so that nothing comes twice when it moves.

Two brokers are not at the same point of a publisher's stream. The one that a client moves to may be
behind the one it has lost, most of all if it has just joined. It may also have fetched for the
client what is still on its way to itself, and deliver that once more when it comes. What the client
has had it drops. A broker delivers the events of one publisher and class in order, so the number of
the latest says all. The new broker may also be ahead: by these numbers it knows which of the events
that it has kept the client has missed (:mod:`ges.client.resuming`).

Express events may overtake each other, so of these only the numbers from before the move count, and
only until one of them is passed.
"""

from __future__ import annotations

from collections.abc import Iterator

from ges.wire.client_messages import Mark
from ges.wire.delivered import Event
from overlay.ids import MAX_SEQUENCE, LinkClass

MAX_MARKS = 4096  #: told the next broker
MAX_PUBLISHERS = 65536  #: remembered; then those go of which nothing has come for the longest time

_Key = tuple[str, int, LinkClass]


class Watermarks:
    """The latest event of each publisher, incarnation and class."""

    def __init__(self) -> None:
        self._latest: dict[_Key, int] = {}  #: least recently used first
        self._before: dict[_Key, int] = {}  #: express; before the move, and not passed since

    def move(self) -> None:
        """The client is attached to another broker now."""
        express = ((k, n) for k, n in self._latest.items() if not k[2].is_ordered)
        self._before = dict(express)

    def marks(self) -> Iterator[Mark]:
        """Yield the latest event of each publisher for the next broker, up to :data:`MAX_MARKS`.

        Those come first of which something has come last. Express events are not sent again.
        """
        told = 0
        for key in reversed(self._latest):
            publisher, incarnation, link_class = key
            if not link_class.is_reliable:
                continue
            is_secure = link_class.is_secret
            latest = min(self._latest[key], MAX_SEQUENCE)  # whatever an earlier broker let in
            yield Mark(bytes.fromhex(publisher), incarnation, is_secure, latest)
            told += 1
            if told == MAX_MARKS:
                return

    def fresh(self, events: list[Event]) -> list[Event]:
        """Return what of a delivery has not come before.

        All are of one publisher, incarnation and class, and in order, as brokers deliver them. A
        retained value comes as often as somebody subscribes, and events before it may come later.
        """
        if not events or events[0].retained:
            return events
        last = events[-1]
        key = (last.publisher, last.incarnation, last.link_class)
        newest, had = last.sequence, self._latest.pop(key, None)
        if had is not None and not last.link_class.is_ordered:
            had = self._before.pop(key, None)
        if had is not None and events[0].sequence <= had:
            events = [event for event in events if event.sequence > had]
            if newest <= had:
                newest = had
                if not last.link_class.is_ordered:
                    self._before[key] = had
        self._latest[key] = newest
        if len(self._latest) > MAX_PUBLISHERS:
            del self._latest[next(iter(self._latest))]
        return events
