"""A client's connection to its broker: find one, hold it, and find another when it is lost."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from ges.client.certified import stay_certified
from ges.client.keepalive import Keepalive
from ges.client.outgoing import OutgoingStream
from ges.client.search import BrokerSearch, Wish
from ges.client.watermarks import Watermarks
from ges.errors import ConnectionLost, PublishRefused
from ges.wire.events import read_delivery
from ges.wire.messages import (
    CLIENT_CODEC,
    Accepted,
    Alternates,
    Attached,
    Dropped,
    EventRefused,
    KeepAlive,
    RevocationNotice,
    RevocationTaken,
    Status,
    StatusRequest,
    Subscribe,
    Subscribed,
    SubscriptionRefused,
    Unsubscribe,
)
from overlay.address import Address, is_loopback, parse_url
from overlay.errors import ConfigError, ProtocolError
from overlay.ids import LinkClass
from overlay.machine import Message
from overlay.net.connection import BROKEN, Connection
from overlay.net.transport import MakeTransport, TcpTransport, Wire, close
from overlay.security.identity import PeerIdentity
from overlay.wire.codec import FrameReader
from overlay.wire.frames import CONTROL, DELIVERY

if TYPE_CHECKING:
    from ges.client.client import Subscription

QUEUE_BYTES = 16 * 1024 * 1024
KEPT_BYTES = 8 * 1024 * 1024  #: of events of one class that no broker has confirmed
MAX_ALTERNATES = 64


class Attachment:
    """The present connection, whatever broker it is to. ``run`` keeps it."""

    def __init__(
        self, wish: Wish, rng: random.Random, transport: MakeTransport = TcpTransport
    ) -> None:
        self.wish = wish
        self.incarnation = wish.incarnation
        self.url = wish.addresses[0].url
        self.secure = False
        self.alternates: tuple[str, ...] = ()  #: those that can be called
        self._learnt: tuple[Address, ...] = ()  #: the same
        self.dropped = Dropped(0, 0)  #: by the broker attached to
        self.streams: list[OutgoingStream] = []  #: of the client's own events
        self.on_gap: Callable[[str, str, float], None] = lambda lost, found, seconds: None
        self.is_lost = False  #: for good
        self._transport = transport(wish.identity)
        self._search = BrokerSearch(wish, self._transport, rng)
        self.connection: Connection | None = None
        self._subscriptions: dict[int, Subscription] = {}
        self._pending: dict[int, tuple[trio.Event, list[str]]] = {}
        self._watermarks = Watermarks()
        self._accepted: dict[LinkClass, int] = {}
        self._refused: dict[LinkClass, set[int]] = {}  #: beyond what is accepted
        self.refusals: list[str] = []
        self._unconfirmed_lost = False
        self._changed = trio.Event()  #: set, and replaced, whenever something waited for may be so
        self._statuses: list[Status] = []
        self._taken: list[RevocationTaken] = []
        self._broker_uid = ""
        self._patience = Keepalive(0.0)  #: with the broker attached to
        self._unusable: dict[str, str] = {}  #: alternates that are no URLs of brokers, and why
        self._lost_url = ""
        self._lost_reason = "no broker"

    # ── for the client ────────────────────────────────────────────────────────────────────────

    @property
    def _is_confirmed(self) -> bool:
        return all(self._accepted.get(s.link_class, 0) >= s.sequence for s in self.streams)

    def send(self, item: bytes) -> None:
        """Queue a whole frame for the broker; without one it is dropped."""
        if self.connection is not None:
            self.connection.send(item)

    async def wait_for_room(self) -> Connection:
        """Wait until something can be sent, and return over what.

        Raises:
            ConnectionLost: no broker was found in time.
        """
        while True:
            connection = self.connection
            if connection is not None and not connection.crowded:
                return connection
            if connection is not None:
                await connection.room()
                if self.connection is not connection:
                    continue
            else:
                await self._change()

    async def wait_for_confirmations(self, stream: OutgoingStream) -> None:
        """Wait until no more is unconfirmed than can be sent again.

        Raises:
            ConnectionLost: no broker was found in time.
        """
        while stream.kept_bytes > KEPT_BYTES:
            await self._change()

    def raise_refusal(self) -> None:
        """Raise what the broker has refused since last asked."""
        if self.refusals:
            reasons, self.refusals = self.refusals, []
            more = f" (and {len(reasons) - 1} more refusals)" if len(reasons) > 1 else ""
            raise PublishRefused(reasons[0] + more)

    async def confirmed(self) -> None:
        """Wait until all that was published is taken, or raise what became of it."""
        while True:
            self.raise_refusal()
            if self._unconfirmed_lost:
                self._unconfirmed_lost = False
                raise ConnectionLost(
                    "the broker was lost before it confirmed all express events; "
                    "those not confirmed may or may not have been delivered"
                )
            if self._is_confirmed:
                return
            await self._change()

    async def sent(self) -> None:
        """Wait until what is queued has left."""
        connection = self.connection
        while connection is self.connection and connection is not None:
            if not connection.queued_bytes:
                return
            await trio.sleep(0.002)

    async def subscribe(self, subscription: Subscription) -> str | None:
        """Subscribe here and wherever we are attached later; returns why not, or None."""
        if subscription.link_class is LinkClass.SECURE and not self.secure:
            # Not even the filter may go over a plain hop.
            return "the hop to the broker is not secure; attach over chordals:// with an identity"
        event, reasons = self._pending[subscription.number] = (trio.Event(), [])
        self._subscriptions[subscription.number] = subscription
        self._request(subscription)
        is_taken = False
        try:
            while not event.is_set() and not self.is_lost:
                with trio.move_on_after(self._patience.limit):
                    await event.wait()
            if self.is_lost:
                raise ConnectionLost(self._lost_reason)
            is_taken = not reasons
        finally:
            self._pending.pop(subscription.number, None)
            if not is_taken:
                self._subscriptions.pop(subscription.number, None)
        return reasons[0] if reasons else None

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription, here and wherever we are attached later."""
        if self._subscriptions.pop(subscription.number, None) is not None:
            self.send(CLIENT_CODEC.encode(Unsubscribe(subscription.number)))

    async def spread(self, notice: RevocationNotice) -> str | None:
        """Hand the broker a list of revoked identities; returns why it is not taken, or None."""
        self._taken.clear()
        while not self._taken:
            await self.wait_for_room()
            connection = self.connection
            self.send(CLIENT_CODEC.encode(notice))
            while not self._taken and self.connection is connection:
                await self._change()
        return self._taken.pop().problem

    async def status(self) -> Status:
        """Ask the broker about itself, and the next one if it is lost before it answers."""
        self._statuses.clear()
        while not self._statuses:
            await self.wait_for_room()
            connection = self.connection
            self.send(CLIENT_CODEC.encode(StatusRequest()))
            while not self._statuses and self.connection is connection:
                await self._change()
        return self._statuses.pop()

    # ── keeping a connection ──────────────────────────────────────────────────────────────────

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Attach, and attach again whenever the broker is lost.

        Raises:
            ConnectionLost: no broker takes us in time, or the only one is lost.
        """
        lost_at: float | None = None
        started = False
        try:
            while True:
                found = await self._search.find(self._choices, self._unusable)
                address, wire, reader, attached = found
                self.url, self._broker_uid = address.url, attached.broker
                if lost_at is not None:
                    self.on_gap(self._lost_url, self.url, trio.current_time() - lost_at)
                self._adopt(wire, attached)
                if not started:
                    started = True
                    task_status.started()
                await self._serve(wire, reader)
                lost_at, self._lost_url = self._patience.heard_at, self.url
                self._release()
                if not self.wish.reattach:
                    raise ConnectionLost(f"{self._lost_url}: the broker is gone")
        except ConnectionLost as error:
            self._lost_reason = str(error)
            self.is_lost = True
            self._signal()
            for event, _ in self._pending.values():
                event.set()
            raise

    def _choices(self) -> list[Address]:
        """Return those given, then those learnt; the one just lost comes last."""
        tls = self.wish.addresses[0].tls
        found = list(self.wish.addresses)
        found += [
            Address(address.host, address.port, tls)
            for address in self._learnt
            if self.wish.token is None or tls or is_loopback(address.host)
        ]
        unique = list(dict.fromkeys(found))
        return sorted(unique, key=lambda address: address.url == self._lost_url)

    def _adopt(self, wire: Wire, attached: Attached) -> None:
        self._watermarks.move()
        self.connection = Connection(wire.stream, secure=attached.secure, limit_bytes=QUEUE_BYTES)
        self.secure = attached.secure
        self._patience = Keepalive(trio.current_time())
        for subscription in self._subscriptions.values():
            self._request(subscription)
        now = time.time_ns()
        for stream in self.streams:
            if stream.link_class is not LinkClass.SECURE or self.secure:
                refused = self._refused.get(stream.link_class, set())
                self.connection.send_again((item, 1) for item in stream.again(refused, now))
        self._signal()

    def _release(self) -> None:
        """The connection is gone, with whatever was not confirmed and is not kept."""
        self.connection = None
        for stream in self.streams:
            is_express = stream.link_class is LinkClass.EXPRESS
            if is_express and self._accepted.get(stream.link_class, 0) < stream.sequence:
                self._unconfirmed_lost = True
                self._accepted[stream.link_class] = stream.sequence
        self._signal()

    async def _serve(self, wire: Wire, reader: FrameReader) -> None:
        """Read, write and keep alive until the connection breaks or falls silent."""
        connection = self.connection
        assert connection is not None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, connection, nursery.cancel_scope)
                nursery.start_soon(self._keep_alive, connection, nursery.cancel_scope)
                if wire.identity is not None:
                    nursery.start_soon(self._stay_certified, wire.identity, nursery.cancel_scope)
                await self._read(connection, reader)
                nursery.cancel_scope.cancel()
        finally:
            connection.abort()
            await close(wire.stream)

    async def _write(self, connection: Connection, scope: trio.CancelScope) -> None:
        with contextlib.suppress(*BROKEN):
            await connection.write_forever()
        scope.cancel()

    async def _stay_certified(self, broker: PeerIdentity, scope: trio.CancelScope) -> None:
        await stay_certified(self._transport, parse_url(self.url), broker)
        scope.cancel()

    async def _keep_alive(self, connection: Connection, scope: trio.CancelScope) -> None:
        token = 0
        while True:
            await trio.sleep(self._patience.pause)
            now = trio.current_time()
            if self._patience.is_over(now):
                scope.cancel()
                return
            token += 1
            self._patience.asked(token, now)
            connection.send(CLIENT_CODEC.encode(KeepAlive(token, answer=False)))

    async def _read(self, connection: Connection, reader: FrameReader) -> None:
        subscriptions = self._subscriptions
        with contextlib.suppress(*BROKEN, ProtocolError):
            chunk: bytes | bytearray = b"-"
            while chunk:
                for kind, body in reader.frames():
                    if kind == DELIVERY:
                        numbers, events = read_delivery(body, connection.one_way_us)
                        events = self._watermarks.fresh(events)
                        for number in numbers:
                            subscription = subscriptions.get(number)
                            if subscription is not None:
                                subscription.take(events)
                    elif kind == CONTROL:
                        self._take(CLIENT_CODEC.decode(body))
                chunk = await connection.receive(reader.appetite)
                self._patience.heard(trio.current_time())
                reader.feed(chunk)

    def _take(self, message: Message) -> None:
        match message:
            case Accepted(link_class, sequence):
                self._decided(link_class, sequence)
            case EventRefused(link_class, sequence, reason):
                # It may overtake what went before, which may be parked for long.
                self._refused.setdefault(link_class, set()).add(sequence)
                self._decided(link_class, 0)
                self.refusals.append(reason)
            case Subscribed(number) if number in self._pending:
                self._pending[number][0].set()
            case SubscriptionRefused(number, reason):
                if number in self._pending:
                    self._pending[number][1].append(reason)
                    self._pending[number][0].set()
                elif number in self._subscriptions:
                    self._subscriptions.pop(number).end(reason)
            case Alternates(urls):
                self._learn_alternates(urls[:MAX_ALTERNATES])
            case KeepAlive(token, answer) if not answer:
                self.send(CLIENT_CODEC.encode(KeepAlive(token, answer=True)))
            case KeepAlive(token):
                self._patience.answered(token, trio.current_time())
            case RevocationNotice(crl, voucher):
                self._learn(crl, voucher)
            case RevocationTaken():
                self._taken.append(message)
            case Dropped():
                self.dropped = message
            case Status():
                self._statuses.append(message)
            case _:
                pass
        self._signal()

    def _learn_alternates(self, urls: tuple[str, ...]) -> None:
        """Note other brokers to go to; what cannot be called is no reason to go nowhere."""
        learnt: dict[str, Address] = {}
        self._unusable.clear()
        for url in urls:
            try:
                learnt[url] = parse_url(url)
            except ConfigError:
                self._unusable[url] = f"not a broker's URL, told by {self.url}"
        self.alternates, self._learnt = tuple(learnt), tuple(learnt.values())

    def _learn(self, crl: bytes, voucher: bytes) -> None:
        """Take note of who is revoked, so that none of them can pose as a broker to us."""
        credentials = self._transport.credentials
        if credentials is None:
            return
        with contextlib.suppress(ProtocolError):  # not the authority's: it says nothing
            credentials.revocations.learn(crl, voucher)
        if credentials.revocations.forbids(self._broker_uid):
            raise ProtocolError("the broker is revoked")

    def _decided(self, link_class: LinkClass, sequence: int) -> None:
        """All up to ``sequence`` is taken or refused."""
        accepted = max(self._accepted.get(link_class, 0), sequence)
        refused = self._refused.setdefault(link_class, set())
        while accepted + 1 in refused:
            accepted += 1
        self._accepted[link_class] = accepted
        refused -= {number for number in refused if number <= accepted}
        for stream in self.streams:
            if stream.link_class is link_class:
                stream.confirm(accepted)

    def _request(self, subscription: Subscription) -> None:
        self.send(
            CLIENT_CODEC.encode(
                Subscribe(subscription.number, subscription.filter, subscription.link_class)
            )
        )

    async def _change(self) -> None:
        if self.is_lost:
            raise ConnectionLost(self._lost_reason)
        await self._changed.wait()
        if self.is_lost:
            raise ConnectionLost(self._lost_reason)

    def _signal(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
