"""Serving clients: attach, subscriptions, events in, acknowledgements out, until they go."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog
import trio

from ges.errors import TopicError
from ges.events import PATCH, PATCH_AT, PATCH_END, Head, read_head
from ges.messages import (
    CLIENT_CODEC,
    Accepted,
    Alternates,
    Attached,
    EventRefused,
    KeepAlive,
    RevocationNotice,
    RevocationTaken,
    StatusRequest,
    Subscribe,
    Subscribed,
    SubscriptionRefused,
    Unsubscribe,
)
from ges.parked import ParkedEvents
from ges.session import CLIENT_QUEUE_BYTES, MAX_SUBSCRIPTIONS, Session
from ges.topics import check_filter, check_topic
from overlay.codec import CONTROL, EVENT, MAX_FRAME_BYTES, FrameReader
from overlay.connection import BROKEN, Connection
from overlay.errors import ProtocolError
from overlay.handshake import Hello
from overlay.identity import PeerIdentity
from overlay.ids import LinkClass, short
from overlay.machine import Message
from overlay.transport import CLOSE_SECONDS, Wire

if TYPE_CHECKING:
    from ges.broker import Broker

MAX_CLIENTS = 4096
SILENCE_SECONDS = 15.0  #: a client that sends nothing for so long, not even a keep-alive, is gone
MAX_ALTERNATES = 16
MAX_KNOWN_TOPICS = 16384


class Attendance:
    """All clients of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sessions: set[Session] = set()
        self._topics: set[bytes] = set()  #: topics found to be well-formed
        self._gone = trio.Event()  #: one of them went
        self.parked = ParkedEvents(broker, self)
        self._closed = False
        self._log = structlog.get_logger("chordal.clients").bind(broker=short(broker.node.peer.uid))

    @property
    def size(self) -> int:
        return len(self._sessions)

    async def serve(self, hello: Hello, wire: Wire, reader: FrameReader) -> None:
        """Serve one client until it goes, or breaks the protocol."""
        broker = self._broker
        connection = Connection(
            wire.stream, secure=wire.identity is not None, limit_bytes=CLIENT_QUEUE_BYTES
        )
        if self._closed or len(self._sessions) >= MAX_CLIENTS:
            broker.driver.counters["clients_turned_away"] += 1
            return
        session = Session(hello.uid, hello.incarnation, connection, wire.identity)
        reader.limit(MAX_FRAME_BYTES)
        self._sessions.add(session)
        peer = broker.node.peer
        self._send(session, Attached(peer.uid, peer.url, session.secure))
        self._send_notices(session)
        self._send(session, self._alternates())
        try:
            with session.serving:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write, connection, nursery.cancel_scope)
                    await self._read(session, reader)
                    nursery.cancel_scope.cancel()
        finally:
            self._sessions.discard(session)
            self._gone.set()
            self.parked.forget(session)
            broker.router.forget(session)
            if connection.overflowed:
                broker.driver.counters["clients_too_slow"] += 1
                self._log.warning("client too slow, cut off", client=short(session.uid))

    @property
    def identities(self) -> list[PeerIdentity]:
        """The clients' identities, of those that have one."""
        return [session.identity for session in self._sessions if session.identity is not None]

    def detach(self, is_over: Callable[[PeerIdentity], bool]) -> list[PeerIdentity]:
        """End at once the connections of clients whose identity counts no more; returns whose."""
        found = []
        for session in list(self._sessions):
            if session.identity is not None and is_over(session.identity):
                found.append(session.identity)
                self._broker.router.forget(session)
                self.parked.forget(session)
                session.connection.abort()
                session.serving.cancel()
                self._sessions.discard(session)
        return found

    def tell_revocations(self) -> None:
        """There is a new list of revoked identities: tell all clients."""
        for session in self._sessions:
            self._send_notices(session)

    def tell_alternates(self) -> None:
        """The neighbourhood has changed: tell all clients where else they can go."""
        message = self._alternates()
        for session in self._sessions:
            self._send(session, message)

    async def dismiss(self) -> None:
        """Close all clients' connections after what is queued; they go to other brokers."""
        self._closed = True
        for session in self._sessions:
            session.connection.finish()
        while self._sessions:
            self._gone = trio.Event()
            await self._gone.wait()

    # ── reading ───────────────────────────────────────────────────────────────────────────────

    async def _write(self, connection: Connection, scope: trio.CancelScope) -> None:
        with contextlib.suppress(*BROKEN):
            await connection.write_forever()
            if isinstance(connection.stream, trio.SocketStream) and not connection.overflowed:
                # Closing with bytes unread would reset the connection, and the client might never
                # see the last of what was sent: let it close first.
                await connection.stream.send_eof()
                await trio.sleep(CLOSE_SECONDS)
        scope.cancel()

    async def _read(self, session: Session, reader: FrameReader) -> None:
        broker = self._broker
        try:
            chunk: bytes | bytearray = b"-"
            while chunk:
                await broker.on_ring()
                for kind, body in reader.frames():
                    self._take(session, kind, body)
                self._acknowledge(session)
                await broker.after_batch()
                with trio.fail_after(SILENCE_SECONDS):
                    chunk = await session.connection.receive()
                reader.feed(chunk)
        except ProtocolError as error:
            broker.driver.counters["protocol_errors"] += 1
            self._log.warning("protocol error", client=short(session.uid), why=str(error))
        except trio.TooSlowError:
            self._log.info("client silent, given up", client=short(session.uid))
        except BROKEN:
            pass

    def _take(self, session: Session, kind: int, body: bytes) -> None:
        if kind == EVENT:
            self._take_event(session, body)
            return
        if kind != CONTROL:
            raise ProtocolError("a delivery from a client")
        message = CLIENT_CODEC.decode(body)
        if isinstance(message, Subscribe):
            self._subscribe(session, message)
        elif isinstance(message, Unsubscribe):
            self._broker.router.unsubscribe(session, message.number)
        elif isinstance(message, KeepAlive):
            if not message.answer:
                self._send(session, KeepAlive(message.token, answer=True))
        elif isinstance(message, RevocationNotice):
            self._send(session, RevocationTaken(self._broker.take_notice(message)))
        elif isinstance(message, StatusRequest):
            self._send(session, self._broker.status())
        else:
            raise ProtocolError(f"{type(message).__name__} from a client")

    def _take_event(self, session: Session, body: bytes) -> None:
        head = read_head(body)
        if (head.publisher, head.incarnation) != (session.publisher, session.incarnation):
            raise ProtocolError("an event in somebody else's name")
        link_class = LinkClass.SECURE if head.secure else LinkClass.NORMAL
        if head.hops or head.limit:
            body = body[:PATCH_AT] + PATCH.pack(0, 0) + body[PATCH_END:]
        problem = self._topic_problem(head)
        if problem is None:
            problem = self._broker.router.why_not(session, head)
            if head.secure and session.secure:
                problem, is_parked = self.parked.take(session, head, body, problem)
                if is_parked:
                    return
        if problem is not None:
            self.refuse(session, head, problem)
            return
        self._broker.router.publish(session, head, body)
        session.accepted[link_class] = head.sequence

    def refuse(self, session: Session, head: Head, problem: str) -> None:
        """Tell a client that an event of its is not taken."""
        link_class = LinkClass.SECURE if head.secure else LinkClass.NORMAL
        self._broker.driver.counters["events_refused"] += 1
        self._send(session, EventRefused(link_class, head.sequence, problem[:500]))

    def accept(self, session: Session, head: Head) -> None:
        """Tell a client that its parked events up to this one are taken."""
        self._send(session, Accepted(LinkClass.SECURE, head.sequence))

    def _topic_problem(self, head: Head) -> str | None:
        topic = head.topic
        if topic in self._topics:
            return None
        try:
            check_topic(topic.decode())
        except UnicodeDecodeError:
            return "the topic is not UTF-8"
        except TopicError as error:
            return str(error)
        if len(self._topics) >= MAX_KNOWN_TOPICS:
            self._topics.clear()
        self._topics.add(topic)
        return None

    def _subscribe(self, session: Session, request: Subscribe) -> None:
        reason = None
        try:
            check_filter(request.filter)
        except TopicError as error:
            reason = str(error)
        if request.link_class is LinkClass.SECURE and not session.secure:
            reason = "the hop from the broker to this client is not secure; attach over chordals://"
        if len(session.filters) >= MAX_SUBSCRIPTIONS and request.number not in session.filters:
            reason = f"a client may have {MAX_SUBSCRIPTIONS} subscriptions"
        if reason is not None:
            self._send(session, SubscriptionRefused(request.number, reason[:500]))
            return
        self._broker.router.subscribe(session, request.number, request.filter, request.link_class)
        self._send(session, Subscribed(request.number))
        self.parked.stir()  # who is alone may publish to its own subscribers

    def _acknowledge(self, session: Session) -> None:
        """Tell the client, once for all it sent together, what has been taken."""
        for link_class, sequence in session.accepted.items():
            self._send(session, Accepted(link_class, sequence))
        session.accepted.clear()

    def _send_notices(self, session: Session) -> None:
        if session.secure:  # others could not check it, and have no use for it
            for notice in self._broker.node.notices.known:
                self._send(session, notice)

    def _alternates(self) -> Alternates:
        return Alternates(self._broker.node.ring.known_urls[:MAX_ALTERNATES])

    def _send(self, session: Session, message: Message) -> None:
        session.connection.send(CLIENT_CODEC.encode(message))
