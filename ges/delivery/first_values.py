"""Retained values to clients that have just subscribed, in pieces.

For example, a client subscribes to ``#`` where brokers retain 30 MiB. It gets 256 KiB at once, and
more whenever less than 64 KiB wait to be sent to it. Events that are published meanwhile come
between the pieces. A topic's value comes before that topic's news: where news has come since the
client subscribed, it has had these, and the older value is left out.

The values for a client are listed for one subscription at a time. So who subscribes a thousand
times and reads nothing has one list, and it counts to the memory that is held for it. Pure.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

from ges.delivery.realms import Realms
from ges.delivery.subscriber import Subscriber
from ges.retained.values import Key, RetainedValues, Value
from ges.wire.delivered import pack_matches
from ges.wire.realms import Realm
from overlay.ids import LinkClass, Nanos, nanos
from overlay.wire.frames import DELIVERY, frame_start

PIECE_BYTES = 256 * 1024
ROOM_BYTES = 64 * 1024  #: that may still wait for a client when it gets the next piece
PAUSE_NS = nanos(0.005)
TURN_CLIENTS = 4  #: get a piece in one turn
TURN_VALUES = 16_384  #: are looked at for one client ...
TURN_SUBSCRIPTIONS = 16  #: ... and so many subscriptions
KEY_BYTES = 8  #: of memory for a topic that a client is to get the value of ...
WISH_BYTES = 128  #: ... and for a subscription that has to wait for those before


class _Waiting:
    """What one client is still to get."""

    __slots__ = ("keys", "number", "order", "wishes")

    def __init__(self) -> None:
        self.wishes: dict[int, int] = {}  #: subscriptions, and what was taken last when each began
        self.number = self.order = 0  #: the same of the one that is served now ...
        self.keys: deque[Key] = deque()  #: ... and topics with values for it

    def __bool__(self) -> bool:
        return bool(self.keys or self.wishes)

    @property
    def bytes(self) -> int:
        """Memory that this takes."""
        return KEY_BYTES * len(self.keys) + WISH_BYTES * len(self.wishes)


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
        ask = client.asks.get(number)
        if ask is None or ask.group is not None:
            return
        waiting = self._waiting.setdefault(client, _Waiting())
        if waiting.number == number:
            waiting.keys.clear()  # it has another filter now
        is_first = not waiting
        waiting.wishes[number] = self._values.order
        if len(waiting.wishes) > len(client.asks):  # some of them have ended
            waiting.wishes = {n: at for n, at in waiting.wishes.items() if n in client.asks}
        client.waiting_bytes = waiting.bytes
        if is_first:
            self._go_on(client)

    def forget(self, client: Subscriber) -> None:
        """The client is gone."""
        self._waiting.pop(client, None)
        client.waiting_bytes = 0

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
        wall_ns, size, looks = self._wall_ns(), 0, 0
        for _ in range(TURN_SUBSCRIPTIONS):
            if not waiting.keys and waiting.wishes:
                self._look_up(client, waiting)
            while waiting.keys and size < PIECE_BYTES and looks < TURN_VALUES:
                looks += 1
                size += self._send(client, waiting, wall_ns)
        client.waiting_bytes = waiting.bytes
        if waiting:
            self._waiting[client] = waiting  # behind those that wait, too
            self._due = self._due or self._now()

    def _send(self, client: Subscriber, waiting: _Waiting, wall_ns: int) -> int:
        """Send the next value, if it is to be sent; returns how many bytes it has."""
        number = waiting.number
        value = self._values.get(waiting.keys.popleft(), wall_ns)
        ask = client.asks.get(number)
        if value is None or value.order > waiting.order or ask is None:
            return 0
        if not self._is_near(value, ask.realm):
            return 0
        send_value(client, pack_matches((number,)), value)
        self._counters["retained_delivered"] += 1
        return len(value.frame)

    def _look_up(self, client: Subscriber, waiting: _Waiting) -> None:
        """Find the topics with values for the next subscription."""
        number = next(iter(waiting.wishes))
        waiting.number, waiting.order = number, waiting.wishes.pop(number)
        ask = client.asks.get(number)
        if ask is not None:
            found = self._values.matching(ask)
            waiting.keys.extend(value.key for value in found)


def send_value(client: Subscriber, matches: bytes, value: Value) -> None:
    """Send a client a value; ``matches``: the subscriptions that it is for."""
    start = frame_start(DELIVERY, len(matches) + len(value.frame))
    events = 0 if value.key[0] else 1  # of secure events none is dropped
    client.connection.send(b"".join((start, matches, value.frame)), events)


def class_of(value: Value) -> LinkClass:
    """Return the class of the event that a value was."""
    return LinkClass.SECURE if value.key[0] else LinkClass.NORMAL
