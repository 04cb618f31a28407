"""One client, without an event loop: what it does with whatever its broker says. Pure.

An attachment finds a broker and hands in a connection to it, then all bytes that come, and the
time. It says when the connection is lost. A task that waits for something is told by
:attr:`on_change` that it may be so now. Here is no clock, no task and no socket: trio and asyncio
share this, and what is beneath it (:mod:`ges.client.state`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Protocol

from ges.client.gaps import Gap, Gaps
from ges.client.open_run import OpenRun
from ges.client.state import Activated, Away, ClientState, Ended, Move
from ges.client.subscription import Subscription
from ges.client.wish import Wish
from ges.errors import ClientClosed, ConnectionLost
from ges.wire.broker_messages import RevocationNotice
from ges.wire.client_messages import (
    CLIENT_CODEC,
    Alternates,
    Attached,
    KeepAlive,
    Subscribe,
    Unsubscribe,
)
from ges.wire.delivered import read_delivery
from overlay.errors import CodecError, ProtocolError
from overlay.machine import Message
from overlay.queues.outbox import Outbox
from overlay.queues.outlet import Outlet
from overlay.queues.resend import Item
from overlay.security.revocation import Revocations
from overlay.wire.codec import FrameReader
from overlay.wire.frames import CONTROL, DELIVERY, HEADER

QUEUE_BYTES = 16 * 1024 * 1024  #: may wait for one broker; beyond that its connection is given up


class ClientConnection(Outlet, Protocol):
    """A connection to a broker."""

    outbox: Outbox

    @property
    def crowded(self) -> bool:
        """So much waits that who can should hold back."""

    def send_again(self, items: Iterable[Item]) -> None:
        """Queue what an earlier connection has not brought over, however much it is."""

    def finish(self) -> None:
        """Close after what is queued has been sent."""

    async def room(self) -> None:
        """Wait until the queue is no longer crowded, or the connection is closing."""


class ClientCore:
    """The present connection, whatever broker it is to, and what goes over it."""

    def __init__(
        self,
        wish: Wish,
        revocations: Revocations | None = None,
        on_gap: Callable[[Gap], None] | None = None,
    ) -> None:
        """Begin without a broker; ``revocations`` are told of identities that are revoked."""
        self.state = ClientState(
            wish.addresses,
            bytes.fromhex(wish.uid),
            wish.incarnation,
            has_token=wish.token is not None,
        )
        self.run_of_events = OpenRun()  #: published last
        self.connection: ClientConnection | None = None
        self.leaving: ClientConnection | None = None  #: to a broker that leaves
        self.gaps = Gaps()
        self.unreadable = 0  #: events that came and make no sense: nobody gets them
        self.is_lost = False  #: for good ...
        self.lost_reason = "no broker"  #: ... and why
        self.on_change: Callable[[], None] = lambda: None  #: something waited for may be so
        self.is_closed = False  #: the client's block has ended
        self.has_answered = False  #: the broker has said more than that it takes us
        self._revocations = revocations
        self._on_gap = on_gap
        self._reader = FrameReader()
        self._subscriptions: dict[int, Subscription] = {}
        self._token = 0  #: of the last keep-alive

    # ── for the client ────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """The client's block has ended: all subscriptions end, and all that wait are told."""
        self.is_closed = True
        self._disconnect()
        for subscription in self._subscriptions.values():
            subscription.end()
        self._subscriptions.clear()
        self.state.pending.fail_all(ClientClosed("this client was closed before the reply came"))
        self.on_change()

    def check_open(self) -> None:
        """Check that the client's block has not ended.

        Raises:
            ClientClosed: it has.
        """
        if self.is_closed:
            raise ClientClosed(
                "this client is closed, as its 'async with connect(...)' block has ended; "
                "use it inside the block"
            )

    def check(self) -> None:
        """Check that there is, or may be, a broker.

        Raises:
            ClientClosed: the client's block has ended.
            ConnectionLost: no broker was found in time.
        """
        self.check_open()
        if self.is_lost:
            raise ConnectionLost(self.lost_reason)

    def send(self, item: bytes) -> None:
        """Queue a whole frame for the broker; without one it is dropped."""
        if self.connection is not None:
            self.connection.send(item)

    def tell(self, message: Message) -> None:
        """Queue a message for the broker; without one it is dropped."""
        self.send(CLIENT_CODEC.encode(message))

    def subscribe(self, subscription: Subscription) -> None:
        """Ask for a subscription, here and wherever we are attached later."""
        number = subscription.number
        request = Subscribe(number, subscription.ask)
        self.state.request(request)
        self._subscriptions[number] = subscription
        subscription.active.clear()
        if self.connection is not None:
            self.tell(request)

    def forget(self, subscription: Subscription) -> bool:
        """A subscription is wanted no more; says whether it was there."""
        self.state.withdraw(subscription.number)
        return self._subscriptions.pop(subscription.number, None) is not None

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription, here and wherever we are attached later."""
        if self.forget(subscription):
            self.tell(Unsubscribe(subscription.number))

    # ── a broker is found, and lost ───────────────────────────────────────────────────────────

    def attach(
        self,
        url: str,
        attached: Attached,
        reader: FrameReader,
        connection: ClientConnection,
        now: float,
        unix_ns: int,
    ) -> None:
        """A broker has taken us.

        It is sent what it is to know, and what no broker has confirmed.

        Args:
            url: of the broker.
            attached: its answer to the greeting.
            reader: of its connection, which may have begun a frame.
            connection: to it, with nothing queued.
            now: in seconds.
            unix_ns: the same, as unix time in nanoseconds.
        """
        state = self.state
        seconds = state.attach(url, attached, now)
        if seconds is not None:
            self._note_gap(state.lost_url, seconds, now)
        for subscription in self._subscriptions.values():
            subscription.active.clear()
        self._reader = reader
        self.has_answered = False
        connection.outbox.normal = self.run_of_events.lane(QUEUE_BYTES)
        self.connection = connection
        for request in [*state.all_requests(now)]:
            self.tell(request)
        connection.send_again((item, 1) for item in state.unconfirmed(unix_ns))
        self.on_change()

    def lose(self) -> None:
        """The broker is lost; another may be found."""
        self._disconnect()
        self.leaving = None
        self.state.lose()
        for subscription in self._subscriptions.values():
            subscription.active.clear()
        self.on_change()

    def give_up(self, error: ConnectionLost) -> None:
        """No other broker will be found."""
        self.lost_reason = str(error)
        self.is_lost = True
        for subscription in self._subscriptions.values():
            subscription.active.clear(error)
        self.state.pending.fail_all(error)
        self.on_change()

    def _disconnect(self) -> None:
        self.run_of_events.detach()
        self.connection = None

    def _note_gap(self, lost: str, seconds: float, now: float) -> None:
        gap = self.gaps.note(lost, self.state.url, seconds, now)
        if self._on_gap is not None:
            self._on_gap(gap)

    # ── while there is one ────────────────────────────────────────────────────────────────────

    @property
    def appetite(self) -> int:
        """Bytes to read next."""
        return self._reader.appetite

    def is_silent(self, now: float) -> bool:
        """Look, after each pause of the keep-alive: is the broker lost? Else ask it for a word."""
        keepalive = self.state.keepalive
        if keepalive.is_over(now):
            return True
        self._token += 1
        keepalive.asked(self._token, now)
        self.tell(KeepAlive(self._token, answer=False))
        return False

    def receive(self, data: bytes | bytearray, now: float) -> None:
        """Bytes have come from the broker.

        Raises:
            ProtocolError: they are none of its, or it is revoked; leave it.
        """
        if self.is_closed:
            return
        self.state.keepalive.heard(now)
        self._reader.feed(data)
        self.read_on(now)

    def read_on(self, now: float) -> None:
        """Take what has come whole, as after :meth:`attach`.

        Raises:
            ProtocolError: as :meth:`receive` does.
        """
        for run in self._reader.runs():
            if run.kind == DELIVERY:
                for start, end in pairwise(run.bounds):
                    self._deliver(run.data, start + HEADER.size, end)
            elif run.kind == CONTROL:
                for body in run.bodies():
                    self.take(CLIENT_CODEC.decode(body), now)

    def _deliver(self, data: bytes, at: int, end: int) -> None:
        self.has_answered = True
        numbers, events = read_delivery(
            data, self._one_way_us, at, end, on_unreadable=self._on_unreadable
        )
        events = self.state.watermarks.fresh(events)
        for number in numbers:
            subscription = self._subscriptions.get(number)
            if subscription is not None:
                subscription.take(events)

    def _on_unreadable(self, problem: CodecError) -> None:
        """An event is dropped: the next broker would bring it as well."""
        self.unreadable += 1

    def _one_way_us(self) -> int:
        return self.connection.one_way_us if self.connection is not None else 0

    def take(self, message: Message, now: float) -> None:
        """The broker has said something.

        Raises:
            ProtocolError: as :meth:`receive` does.
        """
        if not isinstance(message, Alternates | RevocationNotice):  # which come without a question
            self.has_answered = True
        match self.state.take(message, now):
            case KeepAlive() as answer:
                self.tell(answer)
            case RevocationNotice(crl, voucher):
                self._learn(crl, voucher)
            case Away(seconds):
                self._note_gap(self.state.url, seconds, now)
            case Ended(number, reason):
                self._subscriptions.pop(number).end(reason)
            case Activated(number, level):
                self._subscriptions[number].active.set(level)
            case Move() if self.leaving is None:
                self.run_of_events.close()
                self.leaving = self.connection
                self._disconnect()  # who publishes waits for the next broker
        if self.leaving is not None and self.state.may_go:
            self.leaving.finish()
        if self.state.refusals:
            self.run_of_events.close()  # so that the next publish tells of them
        self.on_change()

    def _learn(self, crl: bytes, voucher: bytes) -> None:
        """Take note of revoked identities, so that none of them can pose as a broker to us."""
        if self._revocations is None:
            return
        with contextlib.suppress(ProtocolError):  # not the authority's: it says nothing
            self._revocations.learn(crl, voucher)
        if self._revocations.forbids(self.state.broker_uid):
            raise ProtocolError("the broker is revoked")
