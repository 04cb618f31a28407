"""A client's user that keeps all that the client is told, for tests that look at single events."""

from __future__ import annotations

from ges.wire.delivered import Event
from overlay.ids import LinkClass


class Reader:
    """Keeps what comes, what is taken and what is refused."""

    def __init__(self) -> None:
        self.events: list[Event] = []  #: that have come, in this order
        self.payloads: list[bytes] = []  #: of these
        self.refused: list[str] = []  #: why events of its own were refused
        self.accepted: dict[LinkClass, int] = {}  #: all of its events up to that one are taken

    def on_attached(self, broker: str) -> None:
        """A broker has taken the client."""

    def on_lost(self) -> None:
        """The broker is lost."""

    def on_subscribed(self) -> None:
        """A broker serves the subscription."""

    def on_accepted(self, link_class: LinkClass, sequence: int) -> None:
        """All events of that class up to this one are taken, but for those refused."""
        self.accepted[link_class] = sequence

    def on_refused(self, link_class: LinkClass, sequence: int, reason: str) -> None:
        """An event is refused."""
        self.refused.append(reason)

    def on_events(self, events: list[Event]) -> None:
        """Events have come."""
        self.events += events
        self.payloads += [event.payload for event in events]
