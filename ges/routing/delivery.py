"""Who gets an event here, and its last hop: to the clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ges.matching.filter_tree import FilterTree
from ges.routing.replays import Replays
from ges.routing.subscriber import Subscriber, Targets
from ges.wire.delivered import MAX_MATCHES, pack_matches
from ges.wire.event_runs import EventRun
from overlay.ids import LinkClass, Nanos
from overlay.wire.frames import DELIVERY, frame_start

MAX_CACHED_TOPICS = 16384


class Deliveries:
    """The subscriptions of all clients, and what goes to them."""

    def __init__(self, counters: Counter[str], now: Callable[[], Nanos]) -> None:
        self._counters = counters
        self.replays = Replays(counters, now, self._forget_targets)
        self._filters: FilterTree[tuple[Subscriber, int]] = FilterTree()
        self._targets: dict[LinkClass, dict[bytes, Targets]] = {each: {} for each in LinkClass}

    def subscribe(self, client: Subscriber, number: int, text: str, only: LinkClass | None) -> None:
        """Serve a checked filter; the same number again replaces the earlier one."""
        self.unsubscribe(client, number)
        client.filters[number] = (text, only)
        self.replays.joined(client, number)
        self._filters.add(text, (client, number))
        self._forget_targets()

    def unsubscribe(self, client: Subscriber, number: int) -> None:
        """Serve a filter no longer; a number that is not in use changes nothing."""
        entry = client.filters.pop(number, None)
        if entry is not None:
            self._filters.remove(entry[0], (client, number))
            self._forget_targets()

    def forget(self, client: Subscriber) -> None:
        """The client is gone."""
        self.replays.forget(client)
        for number in list(client.filters):
            self.unsubscribe(client, number)

    @property
    def subscriptions(self) -> int:
        """How many filters are served."""
        return self._filters.size

    def deliver(self, run: EventRun, now: Nanos) -> None:
        """Send events that are not express to all who want them."""
        head = run.head
        self.replays.keep(run, now)
        targets = self.targets_of(head.link_class, head.topic)
        if not targets:
            return
        frames, count = memoryview(run.data)[run.bounds[0] : run.bounds[-1]], run.count
        events = 0 if head.secure else count  # of secure events none is dropped
        items: dict[bytes, bytes] = {}  # clients with the same numbers share one
        for client, matches in targets:
            item = items.get(matches)
            if item is None:
                start = frame_start(DELIVERY, len(matches) + len(frames))
                item = items[matches] = b"".join((start, matches, frames))
            client.connection.send(item, events)
        self._counters["events_delivered"] += count * len(targets)

    def targets_of(self, link_class: LinkClass, topic: bytes) -> Targets:
        """Return who wants events of that class and topic."""
        known = self._targets[link_class]
        targets = known.get(topic)
        if targets is None:
            if len(known) >= MAX_CACHED_TOPICS:
                known.clear()
            targets = known[topic] = self._match(link_class, topic)
        return targets

    def _forget_targets(self) -> None:
        for known in self._targets.values():
            known.clear()

    def _match(self, link_class: LinkClass, topic: bytes) -> Targets:
        try:
            text = topic.decode()
        except UnicodeDecodeError:
            return ()
        numbers: dict[Subscriber, list[int]] = {}
        for client, number in self._filters.matches(text):
            if client.wants(number, link_class) and not self.replays.holds(client, link_class):
                numbers.setdefault(client, []).append(number)
        return tuple(
            (client, pack_matches(tuple(sorted(found)[:MAX_MATCHES])))
            for client, found in numbers.items()
        )
