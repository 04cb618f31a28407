"""The last hop of an event: to the clients here that want it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ges.retained.values import RetainedValues
from ges.routing.audience import Audience
from ges.routing.interests import Interests
from ges.routing.replays import Replays
from ges.routing.retaining import Retaining
from ges.routing.subscriber import Subscriber
from ges.wire.event_runs import EventRun
from ges.wire.events import TIMED_FLAGS
from overlay.ids import LinkClass, Nanos
from overlay.wire.frames import DELIVERY, frame_start


class Deliveries:
    """The subscriptions of all clients, and what goes to them."""

    def __init__(
        self,
        counters: Counter[str],
        now: Callable[[], Nanos],
        interests: Interests,
        values: RetainedValues | None = None,
        wall_ns: Callable[[], int] | None = None,
    ) -> None:
        """``interests`` has the cluster told what clients want; ``wall_ns`` returns unix time.

        None: ``now`` is taken for it.
        """
        values = RetainedValues() if values is None else values
        wall_ns = wall_ns or now
        self._counters = counters
        self._interests = interests
        self.audience = Audience()
        self.replays = Replays(counters, now, self.audience, wall_ns)
        self.retaining = Retaining(values, self.audience, counters, wall_ns, now)

    def subscribe(self, client: Subscriber, number: int, text: str, only: LinkClass | None) -> None:
        """Serve a checked filter; the same number again replaces the earlier one."""
        self._drop(client, number)
        client.filters[number] = (text, only)
        self.replays.joined(client, number)
        self.audience.add(client, number, text, only)
        self._interests.want(client, number, text, only)

    def unsubscribe(self, client: Subscriber, number: int) -> None:
        """Serve a filter no longer; a number that is not in use changes nothing."""
        if self._drop(client, number):
            self._interests.unwant(client, (number,))

    def forget(self, client: Subscriber) -> None:
        """The client is gone."""
        self.replays.forget(client)
        self.retaining.first.forget(client)
        self.audience.forget(client)
        self._interests.unwant(client, client.filters)
        client.filters.clear()

    @property
    def subscriptions(self) -> int:
        """How many filters are served."""
        return self.audience.size

    def deliver(self, run: EventRun, now: Nanos) -> None:
        """Send events that are not express to all who want them."""
        head, plain = run.head, run
        if head.flags & TIMED_FLAGS:
            if self.retaining.is_over(head):
                self._counters["events_expired"] += 1
                return
            plain = run.untimed()  # for clients that do not know of it
        self.replays.keep(plain, now, head.ends_ms)
        targets = self.audience.of(head.link_class, head.topic)
        if not targets:
            return
        count = run.count
        events = 0 if head.secure else count  # of secure events none is dropped
        items: dict[tuple[bytes, bool], bytes] = {}  # clients with the same numbers share one
        sent = 0
        for recipient, matches, _, _ in targets:
            outlet = recipient.outlet
            if outlet is None:
                continue
            is_plain = plain is not run and not (recipient.client and recipient.client.retains)
            item = items.get((matches, is_plain))
            if item is None:
                frames = (plain if is_plain else run).frames
                start = frame_start(DELIVERY, len(matches) + len(frames))
                item = items[matches, is_plain] = b"".join((start, matches, frames))
            outlet.send(item, events)
            sent += 1
        self._counters["events_delivered"] += count * sent

    def wants(self, link_class: LinkClass, topic: bytes) -> bool:
        """Say whether a client here wants an event, now or when it has had what it has missed."""
        return bool(self.audience.of(link_class, topic))

    def serves(self, link_class: LinkClass, topic: bytes) -> bool:
        """Say whether an event of that class, not an express one, would go to a client here."""
        targets = self.audience.of(link_class, topic)
        return any(row.recipient.outlet is not None for row in targets)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _drop(self, client: Subscriber, number: int) -> bool:
        entry = client.filters.pop(number, None)
        if entry is not None:
            self.audience.remove(client, number, *entry)
        return entry is not None
