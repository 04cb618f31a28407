"""Retained values to clients that have just subscribed, in pieces.

For example, a client subscribes to ``#`` where brokers retain 30 MiB. It gets 256 KiB at once, and
more whenever less than 64 KiB wait to be sent to it. What is published meanwhile comes between
the pieces. A topic's value comes before that topic's news: where news has come since the client
subscribed, it has had these, and the older value is left out. Pure.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

from ges.retained.values import Key, RetainedValues, Value
from ges.routing.realms import Realms
from ges.routing.subscriber import Subscriber
from ges.wire.delivered import pack_matches
from ges.wire.realms import Realm
from overlay.ids import LinkClass, Nanos, nanos
from overlay.wire.frames import DELIVERY, frame_start

PIECE_BYTES = 256 * 1024
ROOM_BYTES = 64 * 1024  #: that may still wait for a client when it gets the next piece
PAUSE_NS = nanos(0.005)
TURN_CLIENTS = 4  #: get a piece in one turn


class _Waiting:
    """What one client is still to get."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        #: By which subscription, which topic, and what was taken last when it began.
        self.rows: deque[tuple[int, Key, int]] = deque()


class FirstValues:
    """The clients of one broker that have not had all values yet."""

    def __init__(
        self,
        values: RetainedValues,
        counters: Counter[str],
        realms: Realms,
        wall_ns: Callable[[], int],
        now: Callable[[], Nanos],
    ) -> None:
        """``wall_ns`` returns unix time."""
        self._values = values
        self._counters = counters
        self._realms = realms
        self._wall_ns = wall_ns
        self._now = now
        self._waiting: dict[Subscriber, _Waiting] = {}  #: who waits longest is first
        self._due: Nanos | None = None

    def begin(self, client: Subscriber, number: int) -> None:
        """A client has just subscribed: send it the values that match."""
        entry = client.filters.get(number)
        if entry is None or not client.retains:
            return
        realm = client.realms.get(number, Realm.ALL)
        found = [
            value
            for value in self._values.matching(*entry, secure=client.secure)
            if self._is_near(value, realm)
        ]
        if not found:
            return
        waiting = self._waiting.setdefault(client, _Waiting())
        order = self._values.order
        waiting.rows.extend((number, value.key, order) for value in found)
        self._due = self._due or self._now()
        self._go_on(client)

    def forget(self, client: Subscriber) -> None:
        """The client is gone."""
        self._waiting.pop(client, None)

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`expire` has something to do."""
        return self._due if self._waiting else None

    def expire(self, now: Nanos) -> None:
        """Send the next pieces."""
        if self._due is None or now < self._due:
            return
        ready = [each for each in self._waiting if each.connection.queued_bytes < ROOM_BYTES]
        for client in ready[:TURN_CLIENTS]:
            self._go_on(client)
        self._due = now + PAUSE_NS if self._waiting else None

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _is_near(self, value: Value, realm: int) -> bool:
        """Say whether a value is in its own realm here, and in that of a subscription."""
        least = min(realm, value.realm)
        return least == Realm.ALL or self._realms.common_at(value.source) <= least

    def _go_on(self, client: Subscriber) -> None:
        waiting = self._waiting.pop(client)
        wall_ns, size = self._wall_ns(), 0
        rows = waiting.rows
        while rows and size < PIECE_BYTES:
            number, key, order = rows.popleft()
            value = self._values.get(key, wall_ns)
            if value is None or value.order > order or number not in client.filters:
                continue
            if not self._is_near(value, client.realms.get(number, Realm.ALL)):
                continue
            size += len(value.frame)
            send_value(client, pack_matches((number,)), value)
            self._counters["retained_delivered"] += 1
        if rows:
            self._waiting[client] = waiting  # behind those that wait, too


def send_value(client: Subscriber, matches: bytes, value: Value) -> None:
    """Send a client a value; ``matches``: the subscriptions that it is for."""
    start = frame_start(DELIVERY, len(matches) + len(value.frame))
    events = 0 if value.key[0] else 1  # of secure events none is dropped
    client.connection.send(b"".join((start, matches, value.frame)), events)


def class_of(value: Value) -> LinkClass:
    """Return the class of the event that a value was."""
    return LinkClass.SECURE if value.key[0] else LinkClass.NORMAL
