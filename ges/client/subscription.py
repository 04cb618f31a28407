"""What a client reads: the events of one subscription, and the times that it had no broker."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import trio

from ges.errors import SubscribeRefused
from ges.wire.delivered import Event
from overlay.ids import LinkClass

MAX_UNREAD = 1_000_000  #: events kept for a subscription that is not read; then the oldest go


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which events may have been missed.

    Either there was no broker: what the next one did not keep of that time was missed. Or, where
    ``lost`` and ``found`` are the same, the broker itself was off the ring, or held for dead there.
    """

    lost: str  #: URL of the broker that was lost
    found: str  #: URL of the one attached to then
    seconds: float


class Subscription:
    """Events that match one filter: an asynchronous iterator, in order of arrival."""

    def __init__(self, number: int, text: str, link_class: LinkClass | None) -> None:
        self.number = number
        self.filter = text
        self.link_class = link_class
        self.dropped = 0  #: events thrown away because this was not read fast enough
        self._events: deque[Event] = deque(maxlen=MAX_UNREAD)
        self._arrived = trio.Event()
        self._closed = False
        self._refusal: str | None = None

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Event:
        events = self._events
        while not events:
            if self._closed:
                self._raise_refusal()
                raise StopAsyncIteration
            self._arrived = trio.Event()
            await self._arrived.wait()
        return events.popleft()

    async def batch(self) -> list[Event]:
        """Return all events that have arrived, at least one; empty once the subscription ended.

        Raises:
            SubscribeRefused: a broker no longer serves it, or the next one does not, and why.
        """
        while not self._events and not self._closed:
            self._arrived = trio.Event()
            await self._arrived.wait()
        if not self._events:
            self._raise_refusal()
        events = list(self._events)
        self._events.clear()
        return events

    def take(self, events: list[Event]) -> None:
        """Called by the connection: more events."""
        self.dropped += max(0, len(self._events) + len(events) - MAX_UNREAD)
        self._events.extend(events)
        self._arrived.set()

    def end(self, refusal: str | None = None) -> None:
        """Let the iteration end after what has arrived; with an error if it was refused."""
        self._closed = True
        self._refusal = refusal
        self._arrived.set()

    def _raise_refusal(self) -> None:
        if self._refusal is not None:
            raise SubscribeRefused(why_refused(self.filter, self._refusal))


def why_refused(text: str, reason: str) -> str:
    """Return why a filter is refused, with its name in front where the reason does not name it."""
    return reason if f" to {text!r} " in reason else f"{text}: {reason}"
