"""Publishers at a steady rate, and subscribers; both tell the oracle what becomes of events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Protocol

from ges.wire.delivered import Event
from overlay.ids import NANOS_PER_SECOND, LinkClass, Nanos

Flow = tuple[str, LinkClass]  #: uid of the publisher, and the class of its events


class Clock(Protocol):
    """Virtual time."""

    @property
    def now(self) -> Nanos:
        """What time it is."""

    def at(self, time: Nanos, action: Callable[..., None], *args: object) -> None:
        """Do something then."""


class PublishingClient(Protocol):
    """A client that publishes."""

    @property
    def uid(self) -> str:
        """Names it in its events."""

    def publish(
        self, topic: str, payloads: list[bytes], link_class: LinkClass, park_ms: int
    ) -> list[int]:
        """Publish in one go; returns the sequences. Without a broker nothing is taken."""


class Records(Protocol):
    """The oracle."""

    def on_published(self, flow: Flow, sequence: int, at: Nanos, broker: str, topic: str) -> None:
        """An event was handed to a broker."""

    def on_accepted(self, flow: Flow, sequence: int) -> None:
        """All events up to that one are taken."""

    def on_refused(self, flow: Flow, sequence: int, reason: str) -> None:
        """An event is refused."""

    def on_subscribed(self, name: str, at: Nanos, broker: str) -> None:
        """A broker serves a subscriber from now on."""

    def on_unserved(self, name: str, at: Nanos) -> None:
        """A subscriber has no broker from now on."""

    def on_got(self, name: str, flow: Flow, sequence: int, at: Nanos) -> None:
        """An event has come to a subscriber."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flowing:
    """What a publisher publishes."""

    topic: str = "t"
    topics: tuple[str, ...] = ()  #: in turn, a burst each; none: ``topic`` alone
    rate: float = 20.0  #: events a second
    burst: int = 1  #: events that it publishes at once
    size: int = 16  #: bytes of payload
    link_class: LinkClass = LinkClass.NORMAL
    park_ms: int = 0  #: milliseconds that a secure event may wait for an all-secure path


class User:
    """One client's user: notes to which broker the client is attached."""

    def __init__(self, name: str, clock: Clock, records: Records) -> None:
        self.name = name
        self.broker = ""  #: uid of the broker, or of the last one
        self._clock = clock
        self._records = records

    def on_attached(self, broker: str) -> None:
        """A broker has taken the client."""
        self.broker = broker

    def on_lost(self) -> None:
        """The broker is lost."""

    def on_subscribed(self) -> None:
        """A broker serves the subscription."""

    def on_accepted(self, link_class: LinkClass, sequence: int) -> None:
        """All events of that class up to this one are taken, but for those refused."""

    def on_refused(self, link_class: LinkClass, sequence: int, reason: str) -> None:
        """An event is refused."""

    def on_events(self, events: list[Event]) -> None:
        """Events have come."""


class Publisher(User):
    """Publishes at a steady rate; what it owes while it has no broker follows in one go."""

    def __init__(self, name: str, clock: Clock, records: Records, flowing: Flowing) -> None:
        super().__init__(name, clock, records)
        self.client: PublishingClient
        self._flowing = flowing
        self._topics = cycle(flowing.topics or (flowing.topic,))
        self._owed = 0
        self._runs = False
        self._pause = round(NANOS_PER_SECOND * flowing.burst / flowing.rate)

    def start(self) -> None:
        """Begin to publish."""
        self._runs = True
        self._tick()

    def stop(self) -> None:
        """Publish no more."""
        self._runs = False

    def on_accepted(self, link_class: LinkClass, sequence: int) -> None:
        """All events of that class up to this one are taken, but for those refused."""
        self._records.on_accepted((self.client.uid, link_class), sequence)

    def on_refused(self, link_class: LinkClass, sequence: int, reason: str) -> None:
        """An event is refused."""
        self._records.on_refused((self.client.uid, link_class), sequence, reason)

    def _tick(self) -> None:
        if not self._runs:
            return
        flowing, now = self._flowing, self._clock.now
        self._owed += flowing.burst
        payloads = [bytes(flowing.size)] * self._owed
        flow = (self.client.uid, flowing.link_class)
        broker = self.broker
        topic = next(self._topics)
        found = self.client.publish(topic, payloads, flowing.link_class, flowing.park_ms)
        self._owed -= len(found)
        for sequence in found:
            self._records.on_published(flow, sequence, now, broker, topic)
        self._clock.at(now + self._pause, self._tick)


class Subscriber(User):
    """Takes what comes."""

    def on_lost(self) -> None:
        """The broker is lost."""
        self._records.on_unserved(self.name, self._clock.now)

    def on_subscribed(self) -> None:
        """A broker serves the subscription."""
        self._records.on_subscribed(self.name, self._clock.now, self.broker)

    def on_events(self, events: list[Event]) -> None:
        """Events have come."""
        now, records = self._clock.now, self._records
        for event in events:
            flow = (event.publisher, event.link_class)
            records.on_got(self.name, flow, event.sequence, now)
