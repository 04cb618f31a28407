"""A client in virtual time: it finds a broker, holds it, and finds another when that is lost.

It mirrors :mod:`ges.client.core` and what drives it on trio and asyncio; what a client knows and
decides is the same :class:`ges.client.state.ClientState`. Its user is a :class:`ClientUser`.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Protocol

from ges.client.state import Activated, Away, ClientState
from ges.client.tries import ATTACH_SECONDS, RETRY_MAX_SECONDS, RETRY_SECONDS
from ges.matching.asks import ask_for
from ges.wire.client_messages import (
    CLIENT_CODEC,
    Accepted,
    Attached,
    EventRefused,
    KeepAlive,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from ges.wire.delivered import Event, read_delivery
from ges.wire.events import SPENT_AT, Options
from ges.wire.realms import Realm
from overlay.address import Address, parse_url
from overlay.errors import ProtocolError
from overlay.ids import NANOS_PER_SECOND, LinkClass, Nanos, nanos, uid_of
from overlay.wire.codec import FrameReader, MessageCodec
from overlay.wire.frames import CONTROL, DELIVERY, HEADER, MAX_CONTROL_BYTES, MAX_FRAME_BYTES
from overlay.wire.greetings import GREETINGS, Hello, Refusal
from overlay.wire.versions import DIALECT
from sims.world.connections import Connection
from sims.world.processes import Network, Process, Socket

QUEUE_BYTES = 16 * 1024 * 1024  #: as in :mod:`ges.client.core`
ATTACH_NS = nanos(ATTACH_SECONDS)
RETRY_NS, RETRY_MAX_NS = nanos(RETRY_SECONDS), nanos(RETRY_MAX_SECONDS)
EPOCH_UNIX_NS = 1_700_000_000 * NANOS_PER_SECOND  #: when virtual time begins

_ANSWERS = MessageCodec(Attached, Refusal)


class ClientUser(Protocol):
    """What is told of a client."""

    def on_attached(self, broker: str) -> None:
        """A broker, of that uid, has taken the client."""

    def on_lost(self) -> None:
        """The broker is lost."""

    def on_subscribed(self) -> None:
        """A broker serves the subscription; again at each that the client comes to."""

    def on_accepted(self, link_class: LinkClass, sequence: int) -> None:
        """All events of that class up to this one are taken, but for those refused."""

    def on_refused(self, link_class: LinkClass, sequence: int, reason: str) -> None:
        """An event is refused."""

    def on_events(self, events: list[Event]) -> None:
        """Events have come."""


class SimulatedClient(Process):
    """One client's process."""

    def __init__(
        self,
        network: Network,
        name: str,
        urls: list[str],
        rng: random.Random,
        user: ClientUser,
        *,
        secure: bool = False,
        keeps_alive: bool = True,
    ) -> None:
        """Begin without a broker; it looks for one when it is started.

        Args:
            network: brings its bytes.
            name: tells it from others, for latencies.
            urls: of the brokers to try first.
            rng: draws its secret, and its pauses.
            user: told what befalls it.
            secure: it attaches over TLS.
            keeps_alive: it asks its broker now and then whether it lives.
        """
        super().__init__(network, name, "")
        addresses = [parse_url(url) for url in urls]
        given = [Address(each.host, each.port, secure) for each in addresses]
        self._secret = rng.randbytes(32)
        self.uid = uid_of(self._secret)
        self.incarnation = 1
        self.state = ClientState(given, bytes.fromhex(self.uid), 1, has_token=False)
        self.connection: Connection | None = None
        self._user = user
        self._rng = rng
        self._keeps_alive = keeps_alive
        self._tries = 0  #: tells one attempt from the next
        self._choices: list[Address] = []
        self._wanted: Address | None = None  #: the broker it moves to
        self._pause = RETRY_NS
        self._token = 0
        self._filters = 0
        self.protocol_errors: list[str] = []
        #: When subscriptions were active, and how far, as told.
        self.activated: list[tuple[Nanos, Activated]] = []
        self.gaps: list[float] = []  #: seconds in which its broker's place was in doubt, as told

    # ── for its user ──────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Look for a broker."""
        self.step(self._search)

    def subscribe(
        self,
        text: str,
        link_class: LinkClass | None = None,
        queue: str | None = None,
        realm: Realm = Realm.ALL,
    ) -> None:
        """Subscribe here and wherever the client is attached later."""
        self._filters += 1
        request = Subscribe(self._filters, ask_for(text, link_class, queue, realm=realm))
        self.state.request(request)
        if self.connection is not None:
            self.connection.send(CLIENT_CODEC.encode(request))
            self.settle()

    def unsubscribe(self) -> None:
        """Withdraw all subscriptions."""
        for number in [*self.state.requests]:
            self.state.withdraw(number)
            if self.connection is not None:
                self.connection.send(CLIENT_CODEC.encode(Unsubscribe(number)))
        self.settle()

    def publish(
        self,
        topic: str,
        payloads: list[bytes],
        link_class: LinkClass = LinkClass.NORMAL,
        park_ms: int = 0,
        options: Options | None = None,
    ) -> list[int]:
        """Publish events in one go; returns their sequences. Without a broker nothing is taken."""
        connection, stream = self.connection, self.state.outgoing[link_class]
        if connection is None or not self.alive or self.paused:
            return []
        sequences = []
        now = EPOCH_UNIX_NS + self.timeline.now
        for payload in payloads:
            if link_class.is_timed:
                item = stream.pack_express(topic.encode(), b"", payload, now, 0, options)
                connection.send_express(item, HEADER.size + SPENT_AT)
            else:
                frame = stream.pack(topic.encode(), b"", payload, now, park_ms, options)
                stream.keep(frame)
                connection.send(frame, 1)
            sequences.append(stream.sequence)
        self.settle()
        return sequences

    def move(self, url: str) -> None:
        """Go to another broker of its own will; if that does not take it, to any."""
        if self.connection is not None:
            address = parse_url(url)
            secure = self.state.choices()[0].tls
            self._wanted = Address(address.host, address.port, secure)
            self._lose(self.connection)

    # ── finding a broker ──────────────────────────────────────────────────────────────────────

    def _search(self) -> None:
        wanted, self._wanted = self._wanted, None
        self._choices = [*([] if wanted is None else [wanted]), *self.state.choices()]
        self._try_next()

    def _try_next(self) -> None:
        self._tries += 1
        if not self._choices:
            wait = int(self._pause * (0.5 + self._rng.random()))
            self._pause = min(2 * self._pause, RETRY_MAX_NS)
            self.later(self.timeline.now + wait, self._search)
            return
        address = self._choices.pop(0)
        plain = Address(address.host, address.port, tls=False).url
        attempt = self._tries
        self.later(self.timeline.now + ATTACH_NS, self._give_up, attempt, None)
        self.network.connect(
            self,
            plain,
            secure=address.tls,
            on_open=partial(self._greet, attempt, address),
            on_refused=partial(self._give_up, attempt, None),
        )

    def _give_up(self, attempt: int, socket: Socket | None) -> None:
        if socket is not None:
            socket.close()
        if attempt == self._tries and self.connection is None:
            self._try_next()

    def _greet(self, attempt: int, address: Address, socket: Socket) -> None:
        if attempt != self._tries or self.connection is not None:
            socket.close()
            return
        reader = FrameReader(MAX_CONTROL_BYTES)
        socket.on_bytes = partial(self._on_answer, attempt, address, socket, reader)
        socket.on_closed = partial(self._give_up, attempt, socket)
        hello = Hello(
            "chordal",
            DIALECT.highest,
            self.uid,
            self.incarnation,
            None,
            LinkClass.SECURE if address.tls else LinkClass.NORMAL,
            None,
            0,
            DIALECT.lowest,
            DIALECT.names,
            None,
            self._secret,
        )
        socket.write(GREETINGS.encode(hello))
        if socket.ended:
            self._give_up(attempt, socket)

    def _on_answer(
        self, attempt: int, address: Address, socket: Socket, reader: FrameReader, data: bytes
    ) -> None:
        if attempt != self._tries or self.connection is not None:
            socket.close()  # it came too late
            return
        reader.feed(data)
        found = reader.next_frame()
        if found is None:
            return
        answer = _ANSWERS.decode(found[1])
        if not isinstance(answer, Attached):
            self._give_up(attempt, socket)
            return
        reader.limit(MAX_FRAME_BYTES)
        reader.agree(answer.version)
        self._adopt(address, answer, socket, reader)

    # ── attached ──────────────────────────────────────────────────────────────────────────────

    def _adopt(
        self, address: Address, attached: Attached, socket: Socket, reader: FrameReader
    ) -> None:
        """Send over a new connection what its broker is to know, and what none has confirmed."""
        self._tries += 1
        self._pause = RETRY_NS
        state = self.state
        state.attach(address.url, attached, self._seconds())
        connection = self.connection = Connection(self, socket, limit_bytes=QUEUE_BYTES)
        socket.on_bytes = partial(self._on_bytes, connection, reader)
        socket.on_closed = connection.on_change = partial(self._lose, connection)
        for request in state.all_requests(self._seconds()):
            connection.send(CLIENT_CODEC.encode(request))
        now = EPOCH_UNIX_NS + self.timeline.now
        connection.send_again([(item, 1) for item in state.unconfirmed(now)])
        if self._keeps_alive:
            self._keep_alive_later(connection)
        self._user.on_attached(attached.broker)
        self._on_bytes(connection, reader, b"")
        if socket.ended:
            self._lose(connection)

    def _on_bytes(self, connection: Connection, reader: FrameReader, data: bytes) -> None:
        if self.connection is not connection:
            return
        state = self.state
        try:
            if data:
                state.keepalive.heard(self._seconds())
                reader.feed(data)
            for kind, body in reader.frames():
                if kind == DELIVERY:
                    _, events = read_delivery(body, lambda: connection.one_way_us)
                    if events := state.watermarks.fresh(events):
                        self._user.on_events(events)
                elif kind == CONTROL:
                    self._take(connection, body)
        except ProtocolError as error:
            self.protocol_errors.append(str(error))
            self._lose(connection)

    def _take(self, connection: Connection, body: bytes) -> None:
        message = CLIENT_CODEC.decode(body)
        action = self.state.take(message, self._seconds())
        if isinstance(action, KeepAlive):
            connection.send(CLIENT_CODEC.encode(action))
        elif isinstance(action, Activated):
            self.activated.append((self.timeline.now, action))
        elif isinstance(action, Away):
            self.gaps.append(action.seconds)
        elif isinstance(message, Accepted):
            self._user.on_accepted(message.link_class, message.sequence)
        elif isinstance(message, EventRefused):
            self._user.on_refused(message.link_class, message.sequence, message.reason)
        elif isinstance(message, Subscribed):
            self._user.on_subscribed()

    def _keep_alive_later(self, connection: Connection) -> None:
        pause = nanos(self.state.keepalive.pause(self._seconds()))
        self.later(self.timeline.now + pause, self._keep_alive, connection)

    def _keep_alive(self, connection: Connection) -> None:
        if self.connection is not connection:
            return
        keepalive, now = self.state.keepalive, self._seconds()
        if keepalive.is_over(now):
            self._lose(connection)
            return
        self._token += 1
        keepalive.asked(self._token, now)
        connection.send(CLIENT_CODEC.encode(KeepAlive(self._token, answer=False)))
        self._keep_alive_later(connection)

    def _lose(self, connection: Connection) -> None:
        if self.connection is not connection:
            return
        self.connection = None
        connection.abort()
        connection.socket.close()
        self.state.lose()
        self._user.on_lost()
        self._search()

    def _seconds(self) -> float:
        return self.timeline.now / NANOS_PER_SECOND
