"""Requests that wait for a reply, and the subscription that replies come by. On any event loop.

A client subscribes to its reply address (:mod:`ges.wire.replies`) when it asks for the first time,
and keeps that subscription. A reply is told from others by its correlation id, which is drawn anew
for each request; what comes without one that is waited for is dropped. The first reply counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from ges.client.loop import Flag, Loop
from ges.client.subscription import Subscription
from ges.errors import EventError, NoResponders, PublishRefused
from ges.wire.asked import Ask
from ges.wire.delivered import Event
from ges.wire.replies import Draw, new_correlation, new_key, reply_address
from overlay.ids import LinkClass


@dataclass(slots=True, eq=False)
class Pending:
    """One request."""

    topic: str
    correlation: bytes
    done: Flag  #: set when one of the next two is there
    reply: Event | None = None
    problem: EventError | None = None
    sent: tuple[LinkClass, int] | None = None  #: the class and number of its event

    def fail(self, problem: EventError) -> None:
        """No reply will come."""
        self.problem = problem
        self.done.set()


class PendingRequests:
    """The requests of one client."""

    def __init__(self, uid: str) -> None:
        self._uid = uid
        self._key = b""  #: drawn when the client asks for the first time
        self._by_correlation: dict[bytes, Pending] = {}
        self._by_event: dict[tuple[LinkClass, int], Pending] = {}

    def address(self, draw: Draw) -> str:
        """Return the address for replies to this client, the same each time."""
        self._key = self._key or new_key(draw)
        return reply_address(self._uid, self._key)

    def begin(self, topic: str, done: Flag, draw: Draw) -> Pending:
        """Return a request that is to be published next; the address was asked for before."""
        pending = Pending(topic, new_correlation(self._key, draw), done)
        self._by_correlation[pending.correlation] = pending
        return pending

    def sent(self, pending: Pending, link_class: LinkClass, sequence: int) -> None:
        """It was published as that event."""
        pending.sent = link_class, sequence
        self._by_event[pending.sent] = pending

    def end(self, pending: Pending) -> None:
        """Nobody waits for it any more."""
        self._by_correlation.pop(pending.correlation, None)
        if pending.sent is not None:
            self._by_event.pop(pending.sent, None)

    def take(self, events: list[Event]) -> None:
        """Replies have come, or what others have published to the address."""
        for event in events:
            pending = self._by_correlation.get(event.correlation)
            if pending is not None and pending.reply is None:
                pending.reply = event
                pending.done.set()

    def refuse(self, link_class: LinkClass, sequence: int, reason: str) -> bool:
        """The broker does not take an event; says whether it is a request that is waited for."""
        pending = self._by_event.get((link_class, sequence))
        if pending is not None:
            pending.fail(PublishRefused(reason))
        return pending is not None

    def say_nobody(self, link_class: LinkClass, sequence: int) -> None:
        """Nobody has a subscription that matches."""
        pending = self._by_event.get((link_class, sequence))
        if pending is not None:
            pending.fail(
                NoResponders(f"nobody answers requests on {pending.topic}: no subscription matches")
            )

    def fail_all(self, problem: EventError) -> None:
        """No more replies will come at all."""
        for pending in self._by_correlation.values():
            pending.fail(type(problem)(str(problem)))


class Replies(Subscription):
    """The subscription to a client's own reply address."""

    def __init__(self, loop: Loop, number: int, pending: PendingRequests, draw: Draw) -> None:
        super().__init__(loop, number, Ask(pending.address(draw)))
        self.is_served = False  #: a broker has accepted it, and has not ended it since
        self.is_begun = False  #: some task is asking for it
        self._pending = pending

    def take(self, events: list[Event]) -> None:
        """Called by the connection: more events."""
        self._pending.take(events)

    def end(self, refusal: str | None = None) -> None:
        """Called by the connection: it has ended; the next request asks for it anew."""
        self.is_served = False
