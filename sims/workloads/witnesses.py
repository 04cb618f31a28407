"""Clients that tell a judge what they publish, what they get, and where they are.

Each payload is the number under which the judge knows the event.
"""

from __future__ import annotations

from typing import Protocol

from ges.wire.delivered import Event
from overlay.ids import LinkClass, Nanos
from sims.workloads.traffic import Clock


class Judge(Protocol):
    """Takes note."""

    refused: set[tuple[str, int]]

    def attached(self, client: str, broker: str, at: Nanos) -> None:
        """A broker has taken a client."""

    def detached(self, client: str, at: Nanos) -> None:
        """A client has no broker any more."""

    def confirmed(self, publisher: str, number: int, broker: str, at: Nanos) -> None:
        """A broker has taken all events of a publisher up to that number, but for those refused."""

    def odd(self, client: str, payload: bytes) -> None:
        """Something has come that nobody published."""

    def got(self, client: str, ident: int, broker: str, at: Nanos) -> None:
        """An event has come to a client."""


class Witness:
    """One client's user."""

    def __init__(self, name: str, clock: Clock, judge: Judge) -> None:
        self.name = name
        self.broker = ""  #: uid of the broker, or of the last one
        self._clock = clock
        self._judge = judge

    def on_attached(self, broker: str) -> None:
        """A broker has taken the client."""
        self.broker = broker
        self._judge.attached(self.name, broker, self._clock.now)

    def on_lost(self) -> None:
        """The broker is lost."""
        self._judge.detached(self.name, self._clock.now)

    def on_subscribed(self) -> None:
        """A broker serves the subscription."""

    def on_accepted(self, link_class: LinkClass, sequence: int) -> None:
        """All events of that class up to this one are taken, but for those refused."""
        self._judge.confirmed(self.name, sequence, self.broker, self._clock.now)

    def on_refused(self, link_class: LinkClass, sequence: int, reason: str) -> None:
        """An event is refused."""
        self._judge.refused.add((self.name, sequence))

    def on_events(self, events: list[Event]) -> None:
        """Events have come."""
        for event in events:
            if event.payload.isdigit():
                self._judge.got(self.name, int(event.payload), self.broker, self._clock.now)
            else:
                self._judge.odd(self.name, event.payload)
