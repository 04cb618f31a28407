"""The last hop of an event: to the clients here that want it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from ges.delivery.audience import Audience
from ges.delivery.interests import Interests
from ges.delivery.named import Named
from ges.delivery.realms import Realms
from ges.delivery.replays import Replays
from ges.delivery.retaining import Retaining
from ges.delivery.sharing import Sharing
from ges.delivery.subscriber import Subscriber
from ges.retained.values import RetainedValues
from ges.wire.asked import Ask
from ges.wire.event_flags import TIMED_FLAGS
from ges.wire.event_runs import EventRun
from ges.wire.events import Head
from ges.wire.groups import Serving
from ges.wire.matter import Matter
from ges.wire.names import name_in
from overlay.ids import Nanos
from overlay.wire.frames import DELIVERY, frame_start


class Deliveries:
    """The subscriptions of all clients, and what goes to them."""

    def __init__(
        self,
        counters: Counter[str],
        now: Callable[[], Nanos],
        interests: Interests,
        sharing: Sharing,
        realms: Realms,
        values: RetainedValues | None = None,
        wall_ns: Callable[[], int] | None = None,
    ) -> None:
        """Take what deliveries need.

        Args:
            counters: of this broker.
            now: returns the time.
            interests: has the cluster told what clients want.
            sharing: has queue groups.
            realms: say which events may go to clients here.
            values: the retained ones.
            wall_ns: returns unix time; None: ``now`` is taken for it.
        """
        values = RetainedValues() if values is None else values
        wall_ns = wall_ns or now
        self._counters = counters
        self._interests = interests
        self._realms = realms
        self.audience = Audience()
        self.sharing = sharing
        self.named = Named(counters)
        self.replays = Replays(counters, now, self.audience, wall_ns)
        self.retaining = Retaining(values, self.audience, counters, realms, wall_ns, now)

    def subscribe(self, client: Subscriber, number: int, ask: Ask) -> None:
        """Serve what a client asks for; the same number again replaces what it asked before."""
        before = self._drop(client, number)
        if before is not None and (name_in(before.filter) or name_in(ask.filter)):
            self._interests.unwant(client, {number: before})  # names are told apart from all else
        client.asks[number] = ask
        if ask.group is not None:
            self.sharing.members.add(client, number, ask)
        elif (name := name_in(ask.filter)) is not None:
            self.named.add(client, number, name)
        else:
            self.replays.joined(client, number)
            self.audience.add(client, number, ask)
        self._interests.want(client, number, ask)

    def unsubscribe(self, client: Subscriber, number: int) -> None:
        """Serve a subscription no longer; a number that is not in use changes nothing."""
        if (ask := self._drop(client, number)) is not None:
            self._interests.unwant(client, {number: ask})

    def forget(self, client: Subscriber) -> None:
        """The client is gone."""
        self.replays.forget(client)
        self.retaining.first.forget(client)
        self.audience.forget(client)
        for number, ask in client.asks.items():
            if ask.group is not None:
                self.sharing.members.remove(client, number, ask)
            elif (name := name_in(ask.filter)) is not None:
                self.named.remove(client, number, name)
        self._interests.unwant(client, client.asks)
        client.asks.clear()

    @property
    def subscriptions(self) -> int:
        """How many filters are served."""
        return self.audience.size + self.sharing.members.size + self.named.size

    def deliver(self, run: EventRun, now: Nanos) -> None:
        """Send events that are not express to all who want them, and to one of each queue group."""
        head = run.head
        common = self._realms.common(head)
        if head.realm < common:
            self._counters["events_out_of_realm"] += run.count
            return
        if self._is_over(head):
            return
        if head.is_named:
            for event in run.split():
                self.named.deliver(event)
            return
        due = self.sharing.due(run, common)
        run = run.ungrouped()
        self.replays.keep(run, now, head.ends_ms, common)
        targets = self.audience.of(head.matter._replace(common=common))
        shared: Collection[Subscriber] = ()
        if due:
            shares = self.sharing.share(run, due)
            everything = {
                client: row.matches
                for row in targets
                if (client := row.recipient.client) is not None
                and client in shares.numbers
                and row.recipient.outlet is not None
            }
            self.sharing.send(run, shares, everything)
            shared = shares.numbers.keys()
        if not targets:
            return
        count = run.count
        events = 0 if head.secure else count  # of secure events none is dropped
        items: dict[bytes, bytes] = {}  # clients with the same numbers share one
        sent = 0
        for recipient, matches, _, _ in targets:
            outlet = recipient.outlet
            if outlet is None or (shared and recipient.client in shared):
                continue
            item = items.get(matches)
            if item is None:
                frames = run.frames
                start = frame_start(DELIVERY, len(matches) + len(frames))
                item = items[matches] = b"".join((start, matches, frames))
            outlet.send(item, events)
            sent += 1
        self._counters["events_delivered"] += count * sent

    def _is_over(self, head: Head) -> bool:
        if not head.flags & TIMED_FLAGS or not self.retaining.is_over(head):
            return False
        self._counters["events_expired"] += 1
        return True

    def deliver_handed(self, run: EventRun, serving: Serving) -> None:
        """Send events to members of the groups named, to whom another broker has handed them on."""
        keys = self.sharing.handed(run, serving)
        if self._is_over(run.head):
            return
        run = run.ungrouped()
        self.sharing.send(run, self.sharing.share(run, keys, serving.tried), {})

    def wants(self, matter: Matter) -> bool:
        """Say whether a client here wants an event, now or when it has had what it has missed."""
        return bool(self.audience.of(matter)) or self._has_member(matter)

    def serves(self, matter: Matter) -> bool:
        """Say whether an event that is not an express one would go to a client here."""
        targets = self.audience.of(matter)
        return any(row.recipient.outlet is not None for row in targets) or self._has_member(matter)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _has_member(self, matter: Matter) -> bool:
        """Say whether a client here may get an event for its queue group."""
        here = self.sharing.members.of(matter.topic)
        return any(group.takes(matter.link_class) for group in here)

    def _drop(self, client: Subscriber, number: int) -> Ask | None:
        """Let a subscription get nothing more; returns what it asked for."""
        ask = client.asks.pop(number, None)
        if ask is None:
            return None
        if ask.group is not None:
            self.sharing.members.remove(client, number, ask)
        elif (name := name_in(ask.filter)) is not None:
            self.named.remove(client, number, name)
        else:
            self.audience.remove(client, number, ask)
        return ask
