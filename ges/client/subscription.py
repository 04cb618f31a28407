"""What a client has of a subscription: its events, and whether it is active. On any event loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ges.client.choices import level_of
from ges.client.loop import Flag, Loop
from ges.errors import ClientClosed, EventError, SubscribeRefused
from ges.wire.asked import Ask
from ges.wire.client_messages import Level
from ges.wire.delivered import Event
from ges.wire.realms import Realm
from overlay.ids import LinkClass

MAX_UNREAD = 1_000_000  #: events kept for a subscription that is not read; then the oldest go


class Activity:
    """Whether a subscription is active: a flag to be asked and waited for, as an event of trio is.

    A subscription is *active* when all brokers know of it: then no event is missed that anybody
    publishes from now on, wherever it is. Before that it is active in the cluster of the client's
    broker, and so on: nothing is missed that is published there (:class:`Level`). After the broker
    is lost it is not active until the next one says that it is.
    """

    def __init__(self, loop: Loop) -> None:
        #: How far, as told since it was not active at all; the last one counts. Units that are
        #: all of the next larger one are left out.
        self.levels: tuple[Level, ...] = ()
        self._loop = loop
        self._problem: EventError | None = None
        self._changed = loop.event()

    @property
    def level(self) -> Level | None:
        """How far it is active now; None: not at all."""
        return self.levels[-1] if self.levels else None

    def is_set(self, level: Level = Level.SYSTEM) -> bool:
        """Say whether it is active now, so far; always no where the broker does not tell."""
        return (self.level or 0) >= level_of(level)

    async def wait(self, level: Level = Level.SYSTEM) -> None:
        """Wait until it is active, so far; at once if it is active farther than that.

        Raises:
            SubscribeRefused: a broker no longer serves the subscription.
            ConnectionLost: no broker was found in time.
            ClientClosed: the subscription's block, or the client's, has ended.
        """
        await self._loop.let_others()
        while not self.is_set(level):
            if self._problem is not None:
                raise type(self._problem)(str(self._problem))
            await self._changed.wait()

    def set(self, level: Level) -> None:
        """Called by the connection: the broker says so."""
        if not self.is_set(level):
            self._become((*self.levels, level), None)

    def clear(self, problem: EventError | None = None) -> None:
        """Called by the connection: it is not active, and with ``problem`` nobody will say so."""
        self._become((), problem)

    def _become(self, levels: tuple[Level, ...], problem: EventError | None) -> None:
        self.levels, self._problem = levels, problem
        self._changed.set()
        self._changed = self._loop.event()


class Subscription:
    """Events that match one filter: an asynchronous iterator, in order of arrival."""

    def __init__(
        self,
        loop: Loop,
        number: int,
        ask: Ask,
    ) -> None:
        self.number = number
        self.ask = ask
        self.active = Activity(loop)
        self.dropped = 0  #: events thrown away because this was not read fast enough
        self._events: deque[Event] = deque(maxlen=MAX_UNREAD)
        self._event: Callable[[], Flag] = loop.event
        self._arrived = loop.event()
        self._closed = False
        self._refusal: str | None = None

    @property
    def filter(self) -> str:
        """The filter of the topics that it is for."""
        return self.ask.filter

    @property
    def link_class(self) -> LinkClass | None:
        """The only class of events that it is for; None: all."""
        return self.ask.only

    @property
    def queue(self) -> str | None:
        """The queue group that it is in."""
        return self.ask.group

    @property
    def realm(self) -> Realm:
        """Only events published in the same unit of that level."""
        return Realm(self.ask.realm)

    async def wait_active(self, level: Level = Level.SYSTEM) -> None:
        """Wait until it is active, so far; the same as :meth:`Activity.wait`."""
        await self.active.wait(level)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Event:
        events = self._events
        while not events:
            if self._closed:
                self.raise_refusal()
                raise StopAsyncIteration
            await self.ready()
        return events.popleft()

    async def batch(self) -> list[Event]:
        """Return all events that have arrived, at least one; empty once the subscription ended.

        Raises:
            SubscribeRefused: a broker no longer serves it, or the next one does not, and why.
        """
        while not self._events and not self._closed:
            await self.ready()
        if not self._events:
            self.raise_refusal()
        events = list(self._events)
        self._events.clear()
        return events

    async def ready(self) -> None:
        """Wait until more has arrived, or it has ended."""
        while not self._events and not self._closed:
            if self._arrived.is_set():
                self._arrived = self._event()
            await self._arrived.wait()

    def pop(self) -> Event | None:
        """Return the next event that has arrived; None: there is none at the moment."""
        try:
            return self._events.popleft()
        except IndexError:
            return None

    @property
    def is_over(self) -> bool:
        """It has ended, and all that had arrived is read."""
        return self._closed and not self._events

    def take(self, events: list[Event]) -> None:
        """Called by the connection: more events."""
        self.dropped += max(0, len(self._events) + len(events) - MAX_UNREAD)
        self._events.extend(events)
        self._arrived.set()

    def end(self, refusal: str | None = None) -> None:
        """Let the iteration end after what has arrived; with an error if it was refused."""
        self._closed = True
        self._refusal = refusal
        if refusal is not None:
            self.active.clear(SubscribeRefused(why_refused(self.filter, refusal)))
        else:
            self.active.clear(ClientClosed(f"the subscription to {self.filter} has ended"))
        self._arrived.set()

    def raise_refusal(self) -> None:
        """Raise why it has ended, if a broker ended it.

        Raises:
            SubscribeRefused: a broker no longer serves it, or the next one does not, and why.
        """
        if self._refusal is not None:
            raise SubscribeRefused(why_refused(self.filter, self._refusal))


def why_refused(text: str, reason: str) -> str:
    """Return why a filter is refused, with its name in front where the reason does not name it."""
    return reason if f" to {text!r} " in reason else f"{text}: {reason}"
