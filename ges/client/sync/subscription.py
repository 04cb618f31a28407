"""What a script has of a subscription: its events, and whether it is active."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

from ges.client import subscription as awaited
from ges.client.sync.thread import ClientThread
from ges.errors import EventError
from ges.wire.client_messages import Level
from ges.wire.delivered import Event
from overlay.ids import LinkClass


class Activity:
    """Whether a subscription is active; as :class:`ges.client.Activity`."""

    def __init__(self, thread: ClientThread, activity: awaited.Activity) -> None:
        self._thread = thread
        self._activity = activity

    @property
    def level(self) -> Level | None:
        """How far it is active now; None: not at all."""
        return self._activity.level

    def is_set(self, level: Level = Level.SYSTEM) -> bool:
        """Say whether it is active now, so far; always no where the broker does not tell."""
        return self._activity.is_set(level)

    def wait(self, timeout: float | None = None, level: Level = Level.SYSTEM) -> None:
        """Wait until it is active, for so many seconds at most; None: without an end.

        ``level``: how far; it may be active farther than that.

        Raises:
            TimeoutError: it is not active in time.
            SubscribeRefused: a broker no longer serves the subscription.
            ConnectionLost: no broker was found in time.
            ClientClosed: the subscription, or the client, is closed.
        """
        self._thread.call(self._wait(timeout, level))

    async def _wait(self, timeout: float | None, level: Level) -> None:
        async with asyncio.timeout(timeout):
            await self._activity.wait(level)


class Subscription:
    """Events that match one filter: an iterator, in order of arrival. Also a context manager."""

    def __init__(
        self,
        thread: ClientThread,
        block: AbstractAsyncContextManager[awaited.Subscription],
        subscription: awaited.Subscription,
    ) -> None:
        self.active = Activity(thread, subscription.active)
        self._thread = thread
        self._block = block
        self._subscription = subscription
        self._is_closed = False

    @property
    def filter(self) -> str:
        """The filter."""
        return self._subscription.filter

    @property
    def link_class(self) -> LinkClass | None:
        """Only events of this class come; None: of all."""
        return self._subscription.link_class

    @property
    def queue(self) -> str | None:
        """The queue group that it is in; None: in none."""
        return self._subscription.queue

    @property
    def dropped(self) -> int:
        """Events thrown away because this was not read fast enough."""
        return self._subscription.dropped

    def wait_active(self, level: Level = Level.SYSTEM, timeout: float | None = None) -> None:
        """Wait until it is active, so far; the same as :meth:`Activity.wait`."""
        self.active.wait(timeout, level)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        event = self._next(None)
        if event is None:
            raise StopIteration
        return event

    def get(self, timeout: float | None = None) -> Event | None:
        """Return the next event; None once the subscription has ended.

        Args:
            timeout: seconds to wait for it; None: without an end.

        Raises:
            TimeoutError: none has come in time.
            SubscribeRefused: a broker no longer serves it, or the next one does not, and why.
            ConnectionLost: no broker was found in time.
        """
        return self._next(timeout)

    def batch(self, timeout: float | None = None) -> list[Event]:
        """Return all events that have arrived, at least one; empty once the subscription ended.

        Raises:
            TimeoutError: none has come in time.
            SubscribeRefused: a broker no longer serves it, or the next one does not, and why.
            ConnectionLost: no broker was found in time.
        """
        first = self._next(timeout)
        events = [] if first is None else [first]
        while (event := self._subscription.pop()) is not None:
            events.append(event)
        return events

    def close(self) -> None:
        """End it; what has arrived can still be read."""
        if not self._is_closed:
            self._is_closed = True
            with contextlib.suppress(EventError):  # the client has ended, and so has this
                self._thread.call(self._end())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def _end(self) -> None:
        await self._block.__aexit__(None, None, None)

    def _next(self, timeout: float | None) -> Event | None:
        """Return the next event; None once it has ended.

        The event is taken by the thread that asks for it, so none is lost if that is interrupted.
        """
        while (event := self._subscription.pop()) is None:
            if self._subscription.is_over:
                self._thread.check_found()
                self._subscription.raise_refusal()
                return None
            self._thread.call(self._ready(timeout))
        return event

    async def _ready(self, timeout: float | None) -> None:
        async with asyncio.timeout(timeout):
            await self._subscription.ready()
