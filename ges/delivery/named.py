"""The clients here that have taken names, and events that are for some of these alone.

For example, two clients here are attached as ``kitchen``, each by a subscription to
``$name/kitchen``. An event for ``kitchen`` and ``hall`` goes to both, with the numbers of these
subscriptions. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from ges.delivery.subscriber import Subscriber
from ges.wire.delivered import MAX_MATCHES, pack_matches
from ges.wire.event_runs import EventRun
from ges.wire.events import Head
from overlay.wire.frames import DELIVERY, frame_start


class Named:
    """The names of the clients of one broker."""

    def __init__(self, counters: Counter[str]) -> None:
        self.size = 0
        #: Told of events that have come from another broker for clients that are not here, or for
        #: a broker that nobody has heard of.
        self.on_nobody: Callable[[Head, tuple[str, ...]], None] = lambda head, names: None
        self._counters = counters
        self._clients: dict[str, dict[tuple[Subscriber, int], None]] = {}

    def add(self, client: Subscriber, number: int, name: str) -> None:
        """A subscription of a client takes a checked name."""
        self._clients.setdefault(name, {})[client, number] = None
        self.size += 1

    def remove(self, client: Subscriber, number: int, name: str) -> None:
        """A subscription that has a name is no more."""
        held = self._clients[name]
        del held[client, number]
        if not held:
            del self._clients[name]
        self.size -= 1

    def deliver(self, event: EventRun) -> None:
        """Send a single event to the clients here that it is for."""
        head, names = event.head, event.names()
        plain = event.ungrouped().named(())
        for client, numbers in self._recipients(names).items():
            if head.link_class.is_secret and not client.secure:
                continue
            matches = pack_matches(tuple(numbers)[:MAX_MATCHES])
            start = frame_start(DELIVERY, len(matches) + len(plain.frames))
            is_droppable = not head.link_class.is_secret
            item = b"".join((start, matches, plain.frames))
            client.connection.send(item, 1 if is_droppable else 0)
            self._counters["events_delivered"] += 1
        missing = tuple(name for name in names if name not in self._clients)
        # What goes to all brokers, or is sent again on request, is for others, too.
        if missing and head.hops and head.duty.shape and not head.recalled:
            self._say_wrong(head, missing)

    def came_to_nobody(self, run: EventRun) -> None:
        """Events are for a broker that stands no more where they were to go."""
        for event in run.split():
            self._say_wrong(event.head, event.names())

    def _say_wrong(self, head: Head, names: tuple[str, ...]) -> None:
        self._counters["named_events_misled"] += 1
        self.on_nobody(head, names)

    def _recipients(self, names: Iterable[str]) -> dict[Subscriber, list[int]]:
        found: dict[Subscriber, list[int]] = {}
        for name in names:
            for client, number in self._clients.get(name, ()):
                found.setdefault(client, []).append(number)
        return found
