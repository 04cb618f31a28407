"""A client's connection to its broker: find one, hold it, and find another when it is lost."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Sized
from itertools import pairwise

import trio

from ges.client.certified import stay_certified
from ges.client.open_run import OpenRun
from ges.client.outgoing import OutgoingStream
from ges.client.search import BrokerSearch, Wish
from ges.client.state import Activated, Away, ClientState, Ended, Move
from ges.client.subscription import Subscription
from ges.errors import ActivityUnknown, ClientClosed, ConnectionLost
from ges.wire.broker_messages import RevocationNotice
from ges.wire.client_messages import CLIENT_CODEC, KeepAlive, StatusRequest, Subscribe, Unsubscribe
from ges.wire.delivered import read_delivery
from ges.wire.operator_messages import ClientList, ClientsRequest, Drain, Kick, Operated
from ges.wire.status import Status
from overlay.address import parse_url
from overlay.errors import ProtocolError
from overlay.ids import LinkClass
from overlay.machine import Message
from overlay.net.connection import BROKEN, Connection
from overlay.net.transport import MakeTransport, TcpTransport, Wire, close
from overlay.security.identity import PeerIdentity
from overlay.wire.codec import FrameReader
from overlay.wire.frames import CONTROL, DELIVERY, HEADER

QUEUE_BYTES = 16 * 1024 * 1024
KEPT_BYTES = 8 * 1024 * 1024  #: of events of one class that no broker has confirmed


class Attachment:
    """The present connection, whatever broker it is to. ``run`` keeps it."""

    def __init__(
        self, wish: Wish, rng: random.Random, transport: MakeTransport = TcpTransport
    ) -> None:
        self.wish = wish
        self.state = ClientState(
            wish.addresses,
            bytes.fromhex(wish.uid),
            wish.incarnation,
            has_token=wish.token is not None,
        )
        self.on_gap: Callable[[str, str, float], None] = lambda lost, found, seconds: None
        self.is_lost = False  #: for good
        self._is_closed = False
        self._transport = transport(wish.identity)
        self._search = BrokerSearch(wish, self._transport, rng)
        self.connection: Connection | None = None
        self.run_of_events = OpenRun()  #: published last
        self._subscriptions: dict[int, Subscription] = {}
        self._changed = trio.Event()  #: set, and replaced, whenever something waited for may be so
        self._lost_reason = "no broker"
        self._leaving: Connection | None = None  #: to a broker that leaves
        self._asked: object = None  #: for the confirmation of what, and over which connection

    # ── for the client ────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """The client's block has ended: all subscriptions end, and whoever waits is told."""
        self._is_closed = True
        self._disconnect()
        for subscription in self._subscriptions.values():
            subscription.end()
        self._subscriptions.clear()
        self._signal()

    def check_open(self) -> None:
        """Check that the client's block has not ended.

        Raises:
            ClientClosed: it has.
        """
        if self._is_closed:
            raise ClientClosed(
                "this client is closed, as its 'async with connect(...)' block has ended; "
                "use it inside the block"
            )

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
            self._ask_for_confirmation()
            await self._change()

    async def confirmed(self) -> None:
        """Wait until all that was published is taken, or raise what became of it."""
        self.run_of_events.close()
        while not self.state.is_confirmed():
            self._ask_for_confirmation()
            await self._change()

    def _ask_for_confirmation(self) -> None:
        """Let the broker confirm at once what has been published, and not only before long."""
        published = tuple(stream.sequence for stream in self.state.outgoing.values())
        question = (self.connection, published)
        if self._asked != question:
            self._asked = question
            self.send(CLIENT_CODEC.encode(KeepAlive(0, answer=False)))

    async def sent(self) -> None:
        """Wait until what is queued has left."""
        connection = self.connection
        while connection is self.connection and connection is not None:
            if not connection.queued_bytes:
                return
            await trio.sleep(0.002)

    async def subscribe(self, subscription: Subscription) -> str | None:
        """Subscribe here and wherever we are attached later; returns why not, or None."""
        if subscription.link_class is LinkClass.SECURE and not self.state.secure:
            # Not even the filter may go over a plain hop.
            return "the hop to the broker is not secure; attach over chordals:// with an identity"
        number = subscription.number
        request = Subscribe(number, subscription.filter, subscription.link_class)
        self.state.request(request)
        self._subscriptions[number] = subscription
        self._await_activity(subscription)
        self.send(CLIENT_CODEC.encode(request))
        is_served = False
        try:
            while not self.state.is_decided(number):
                await self._change()
            self._check()
            reason = self.state.settle(number)
            is_served = reason is None
        finally:
            if not is_served:
                self.state.withdraw(number)
                self._subscriptions.pop(number, None)
        return reason

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription, here and wherever we are attached later."""
        if self._subscriptions.pop(subscription.number, None) is not None:
            self.state.withdraw(subscription.number)
            self.send(CLIENT_CODEC.encode(Unsubscribe(subscription.number)))

    async def spread(self, notice: RevocationNotice) -> str | None:
        """Hand the broker a list of revoked identities; returns why it is not taken, or None."""
        taken = self.state.taken
        taken.clear()
        await self._ask(notice, taken)
        return taken.pop().problem

    async def status(self) -> Status:
        """Ask the broker about itself, and the next one if it is lost before it answers."""
        statuses = self.state.statuses
        statuses.clear()
        await self._ask(StatusRequest(), statuses)
        return statuses.pop()

    async def operate(self, question: ClientsRequest | Kick | Drain) -> ClientList | Operated:
        """Ask the broker as an operator."""
        if not self.state.can_operate:
            return Operated("it is of an earlier version, and takes no such command")
        operated = self.state.operated
        operated.clear()
        await self._ask(question, operated)
        return operated.pop()

    async def _ask(self, question: Message, answers: Sized) -> None:
        """Ask the broker, and each one after it, until there is an answer."""
        while not answers:
            await self.wait_for_room()
            connection = self.connection
            self.send(CLIENT_CODEC.encode(question))
            while not answers and self.connection is connection:
                await self._change()

    # ── keeping a connection ──────────────────────────────────────────────────────────────────

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Attach, and attach again whenever the broker is lost.

        Raises:
            ConnectionLost: no broker takes us in time, or the only one is lost.
        """
        state = self.state
        started = False
        try:
            while True:
                is_first = not started
                found = await self._search.find(state.choices, state.unusable, is_first=is_first)
                address, wire, reader, attached = found
                now = trio.current_time()
                seconds = state.attach(address.url, attached, now)
                if seconds is not None:
                    self.on_gap(state.lost_url, state.url, seconds)
                self._adopt(wire)
                if not started:
                    started = True
                    task_status.started()
                await self._serve(wire, reader)
                self._disconnect()
                state.lose()
                for subscription in self._subscriptions.values():
                    subscription.active.clear()
                self._signal()
                if not self.wish.reattach:
                    raise ConnectionLost(f"{state.lost_url}: the broker is gone")
        except ConnectionLost as error:
            self._lost_reason = str(error)
            self.is_lost = True
            for subscription in self._subscriptions.values():
                subscription.active.clear(error)
            self._signal()
            raise

    def _adopt(self, wire: Wire) -> None:
        """Send over a new connection what its broker is to know, and what none has confirmed."""
        state = self.state
        for subscription in self._subscriptions.values():
            self._await_activity(subscription)
        connection = Connection(wire.stream, secure=state.secure, limit_bytes=QUEUE_BYTES)
        connection.outbox.normal = self.run_of_events.lane(QUEUE_BYTES)
        self.connection = connection
        for request in state.all_requests(trio.current_time()):
            self.send(CLIENT_CODEC.encode(request))
        self.connection.send_again((item, 1) for item in state.unconfirmed(time.time_ns()))
        self._signal()

    def _disconnect(self) -> None:
        self.run_of_events.detach()
        self.connection = None

    def _await_activity(self, subscription: Subscription) -> None:
        """Wait for the broker to say that it is active, if it is one that does."""
        if self.state.tells_active:
            subscription.active.clear()
        else:
            problem = f"{self.state.url}: this broker does not say when a subscription is active"
            subscription.active.clear(ActivityUnknown(f"{problem}; it is of an earlier version"))

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
        await stay_certified(self._transport, parse_url(self.state.url), broker)
        scope.cancel()

    async def _keep_alive(self, connection: Connection, scope: trio.CancelScope) -> None:
        keepalive = self.state.keepalive
        token = 0
        while True:
            await trio.sleep(keepalive.pause(trio.current_time()))
            now = trio.current_time()
            if keepalive.is_over(now):
                scope.cancel()
                return
            token += 1
            keepalive.asked(token, now)
            connection.send(CLIENT_CODEC.encode(KeepAlive(token, answer=False)))

    async def _read(self, connection: Connection, reader: FrameReader) -> None:
        state = self.state
        with contextlib.suppress(*BROKEN, ProtocolError):
            chunk: bytes | bytearray = b"-"
            while chunk:
                for run in reader.runs():
                    if run.kind == DELIVERY:
                        for start, end in pairwise(run.bounds):
                            self._deliver(connection, run.data, start + HEADER.size, end)
                    elif run.kind == CONTROL:
                        for body in run.bodies():
                            self._take(CLIENT_CODEC.decode(body))
                chunk = await connection.receive(reader.appetite)
                state.keepalive.heard(trio.current_time())
                reader.feed(chunk)

    def _deliver(self, connection: Connection, data: bytes, at: int, end: int) -> None:
        numbers, events = read_delivery(data, lambda: connection.one_way_us, at, end)
        events = self.state.watermarks.fresh(events)
        for number in numbers:
            subscription = self._subscriptions.get(number)
            if subscription is not None:
                subscription.take(events)

    def _take(self, message: Message) -> None:
        match self.state.take(message, trio.current_time()):
            case KeepAlive() as answer:
                self.send(CLIENT_CODEC.encode(answer))
            case RevocationNotice(crl, voucher):
                self._learn(crl, voucher)
            case Away(seconds):
                self.on_gap(self.state.url, self.state.url, seconds)
            case Ended(number, reason):
                self._subscriptions.pop(number).end(reason)
            case Activated(number, level):
                self._subscriptions[number].active.set(level)
            case Move():
                self.run_of_events.close()
                self._leaving = self.connection
                self._disconnect()  # who publishes waits for the next broker
        if self._leaving is not None and self.state.may_go:
            self._leaving.finish()
            self._leaving = None
        if self.state.refusals:
            self.run_of_events.close()  # so that the next publish tells of them
        self._signal()

    def _learn(self, crl: bytes, voucher: bytes) -> None:
        """Take note of who is revoked, so that none of them can pose as a broker to us."""
        credentials = self._transport.credentials
        if credentials is None:
            return
        with contextlib.suppress(ProtocolError):  # not the authority's: it says nothing
            credentials.revocations.learn(crl, voucher)
        if credentials.revocations.forbids(self.state.broker_uid):
            raise ProtocolError("the broker is revoked")

    async def _change(self) -> None:
        """Wait until something waited for may be so.

        Raises:
            ConnectionLost: no broker was found in time.
        """
        self._check()
        await self._changed.wait()
        self._check()

    def _check(self) -> None:
        self.check_open()
        if self.is_lost:
            raise ConnectionLost(self._lost_reason)

    def _signal(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
