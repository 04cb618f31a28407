"""Clients that get what they have missed, before they get what comes now.

A client that moves here sends one or more ``Resubscribe`` messages. From the first one on it is
*behind*: what comes now is not sent to it, but only kept, as it is for everybody. It gets the kept
events from the oldest on, in pieces, and the next piece only when it has taken most of the last
one. So it takes no more memory than others do. When it has got to the end it is behind no longer,
and is served as all clients are. There is nothing between the last kept event and the first one
that comes, and no event in both.

Where a client reads so slowly that kept events are forgotten before it gets to them, it is served
from then on with what comes, and has missed the events in between (``replays_overrun``). Events
that were fetched from others are held until all clients that they are for have read them. Where
that is too much, those that have had it for longest get no more of it. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ges.delivery.audience import Audience
from ges.delivery.kept import Fetched, KeptEvents
from ges.delivery.replay import PIECE_BYTES, Replay
from ges.delivery.subscriber import Subscriber
from ges.wire.client_messages import Resubscribe, Subscribe
from ges.wire.event_runs import EventRun
from overlay.ids import LinkClass, Nanos, nanos

TURN_PIECES = 4  #: sent before others have their turn
PAUSE_NS = nanos(0.002)  #: between two turns
CROWDED_NS = nanos(0.02)  #: the same where all clients have enough to read

FETCHED_BYTES = 32 * 1024 * 1024  #: that clients are still to read of what was fetched; the latest

NANOS_PER_MILLI = 1_000_000


class Replays:
    """The kept events, and the clients that are behind."""

    def __init__(
        self,
        counters: Counter[str],
        now: Callable[[], Nanos],
        audience: Audience,
        wall_ns: Callable[[], int] | None = None,
    ) -> None:
        """``audience``: of those in it that are behind, it lets what comes now go nowhere.

        ``wall_ns`` returns unix time; None: ``now`` is taken for it.
        """
        self._wall_ns = wall_ns or now
        self.kept = KeptEvents()
        self._counters = counters
        self._now = now
        self._audience = audience
        self._behind: dict[Subscriber, Replay] = {}  #: who waits longest is first
        self._served: set[Subscriber] = set()  #: had its replay; there is one for a connection
        self._due: Nanos | None = None
        #: What was fetched and is still read, oldest first, and for whom.
        self._fetched: dict[Fetched, set[Replay]] = {}
        #: Has others asked for what a client has missed; says whether :meth:`fetched` is to come.
        self.fetch: Callable[[Subscriber, Nanos], bool] = lambda client, now: False
        #: Told of each client that is gone.
        self.forgotten: Callable[[Subscriber], None] = lambda client: None

    # ── called as events pass, and as clients come and go ─────────────────────────────────────

    def keep(self, run: EventRun, now: Nanos, ends_ms: int = 0, common: int = 1) -> None:
        """Keep events that are delivered at ``now``; none after ``ends_ms``, unless that is 0.

        ``common``: the level of the smallest unit that has both their source and this broker in it.
        """
        self.kept.keep(run, now, ends_ms, common)

    def is_behind(self, client: Subscriber) -> bool:
        """Say whether a client is to get no events but kept ones and express ones."""
        return client in self._behind

    def joined(self, client: Subscriber, number: int) -> None:
        """A client has a new subscription: it gets what comes from now on."""
        replay = self._behind.get(client)
        if replay is not None:
            replay.begin(number, self._now(), client.asks)

    def forget(self, client: Subscriber) -> None:
        """The client is gone."""
        replay = self._behind.pop(client, None)
        if replay is not None:
            self._let_go(replay)
        self._served.discard(client)
        self.forgotten(client)

    # ── replays ───────────────────────────────────────────────────────────────────────────────

    def take(
        self,
        client: Subscriber,
        request: Resubscribe,
        subscribe: Callable[[Subscribe], None],
    ) -> None:
        """Serve what a client subscribes to again, and first what it has missed.

        ``subscribe`` serves one of the subscriptions, or tells the client why not.
        """
        now = self._now()
        replay = self._behind.get(client)
        if replay is None and client not in self._served:
            self.kept.forget(now)
            replay = self._behind[client] = Replay(self.kept.first)
            self._served.add(client)
            self._audience.hold(client)
            for number in client.asks:
                replay.begin(number, now, client.asks)
        for each in request.subscriptions:
            subscribe(Subscribe(each.number, each.ask))
            if replay is not None:
                begin = now - each.age_ms * NANOS_PER_MILLI
                replay.begin(each.number, begin, client.asks)
        if replay is not None:
            replay.learn(
                ((mark.publisher, mark.incarnation, _class_of(secure=mark.secure)), mark.sequence)
                for mark in request.marks
            )
            if not request.more and not self.fetch(client, now):
                self.fetched(client, Fetched([], 0), now)

    def fetched(self, client: Subscriber, past: Fetched, now: Nanos) -> None:
        """What others had for a client has come: serve it, and then what is kept here."""
        replay = self._behind.get(client)
        if replay is not None:
            if past.runs:
                replay.past = past
                self._fetched.setdefault(past, set()).add(replay)
                self.shed(FETCHED_BYTES)
            replay.position = max(replay.position, self.kept.first)  # others were waited for
            replay.is_ready = True
            self._due = now
            self.go_on(now)

    @property
    def fetched_bytes(self) -> int:
        """Bytes of memory that what was fetched takes, and is still read."""
        return sum(past.bytes for past in self._fetched)

    def shed(self, most: int) -> None:
        """Hold at most so many bytes of what was fetched: who has had it for longest misses it."""
        while self._fetched and self.fetched_bytes > most:
            for replay in self._fetched.pop(next(iter(self._fetched))):
                replay.past = None
                self._counters["replays_overrun"] += 1

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`go_on` has something to do."""
        return self._due

    def look(self) -> None:
        """Forget what is too old. Called now and then, even if no event comes."""
        self.kept.forget(self._now())

    def go_on(self, now: Nanos) -> None:
        """Send the next pieces to clients that have room for them."""
        if self._due is None or now < self._due:
            return
        pieces = 0
        for client, replay in list(self._behind.items()):
            if replay.is_ready and client.connection.queued_bytes < PIECE_BYTES:
                pieces += 1
                self._send_piece(client, replay)
                if pieces == TURN_PIECES:
                    break
        is_waiting = any(replay.is_ready for replay in self._behind.values())
        self._due = now + (PAUSE_NS if pieces else CROWDED_NS) if is_waiting else None

    def _send_piece(self, client: Subscriber, replay: Replay) -> None:
        kept = self.kept
        del self._behind[client]
        if replay.position < kept.first and not replay.has_past:
            self._counters["replays_overrun"] += 1
            self._audience.release(client)
            return
        for delivery, run, count in replay.piece(
            kept,
            client.asks,
            wall_ms=self._wall_ns() // NANOS_PER_MILLI,
        ):
            client.connection.send(delivery, 0 if run.secure else count)
            self._counters["events_replayed"] += count
        if not replay.has_past:
            self._let_go(replay)
        if replay.has_past or replay.position < kept.end:
            self._behind[client] = replay  # behind those that wait, too
        else:
            self._audience.release(client)

    def _let_go(self, replay: Replay) -> None:
        """A client reads no more of what was fetched."""
        past, replay.past = replay.past, None
        if past is not None and (readers := self._fetched.get(past)) is not None:
            readers.discard(replay)
            if not readers:
                del self._fetched[past]


def _class_of(*, secure: bool) -> LinkClass:
    return LinkClass.SECURE if secure else LinkClass.NORMAL
