"""Serving clients: attach, subscriptions, events in, acknowledgements out, until they go."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import structlog
import trio

from ges.access import AccessRules
from ges.errors import TopicError
from ges.events import EXPRESS_FLAG, Head
from ges.gate import Admission, Rejection
from ges.messages import (
    CLIENT_CODEC,
    Accepted,
    Alternates,
    Attached,
    Dropped,
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
from ges.relief import Relief
from ges.runs import EventRun, event_runs
from ges.session import CLIENT_QUEUE_BYTES, Session, filter_cost
from ges.topics import check_filter, check_topic
from overlay.codec import CONTROL, EVENT, HEADER, MAX_FRAME_BYTES, FrameReader, Run
from overlay.connection import BROKEN, Connection
from overlay.errors import ProtocolError
from overlay.handshake import GREETINGS, Hello, Refusal
from overlay.identity import PeerIdentity
from overlay.ids import LinkClass, short
from overlay.machine import Message, Refused
from overlay.slices import Sliced
from overlay.transport import CLOSE_SECONDS, Wire
from overlay.wording import counted

if TYPE_CHECKING:
    from ges.broker import Broker

NOTHING = AccessRules(())  #: allows nothing
ENDS_AT_ONCE = 8  #: clients let go in one turn; thousands that close together hold nobody up
MAX_ALTERNATES = 16
MAX_KNOWN_TOPICS = 16384
EXPRESS_BYTES = 16 * 1024  #: a client with more in one read is none that goes first


class Attendance:
    """All clients of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._limits = broker.config.limits
        self._notices = broker.driver.notices
        self._filter_bytes = 0  #: memory the filters of all may take
        self._sessions: set[Session] = set()
        self._topics: set[bytes] = set()  #: topics found to be well-formed
        self._gone = trio.Event()  #: one of them went
        self._ends = trio.Semaphore(ENDS_AT_ONCE)
        self.parked = ParkedEvents(broker, self)
        self.relief = Relief(self._sessions, self._limits.client_bytes_total)
        self._closed = False
        self._log = structlog.get_logger("chordal.clients").bind(broker=short(broker.node.peer.uid))

    @property
    def size(self) -> int:
        return len(self._sessions)

    async def serve(self, hello: Hello, wire: Wire, reader: FrameReader) -> None:
        """Serve one client until it goes, or breaks the protocol."""
        broker = self._broker
        admission = self._admit(hello, wire)
        if isinstance(admission, Refusal):
            await self._turn_away(wire, admission)
            return
        connection = Connection(
            wire.stream,
            secure=wire.identity is not None,
            limit_bytes=CLIENT_QUEUE_BYTES,
            policy=broker.config.slow_clients,
            turn=broker.driver.turn,
        )
        session = Session(
            hello.uid, hello.incarnation, connection, admission, wire.identity, reader
        )
        reader.limit(MAX_FRAME_BYTES)
        self._sessions.add(session)
        peer = broker.node.peer
        subject = admission.principal.label
        self._send(session, Attached(peer.uid, peer.url, session.secure, reader.version, subject))
        self._send_notices(session)
        self._send(session, self._alternates())
        ends, is_ending = self._ends, False
        try:
            with session.serving:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write, connection, nursery.cancel_scope)
                    await self._read(session, reader)
                    await ends.acquire()
                    is_ending = True
                    nursery.cancel_scope.cancel()
        finally:
            if is_ending:
                ends.release()
            self._sessions.discard(session)
            self._filter_bytes -= session.filter_bytes
            self._gone.set()
            self.parked.forget(session)
            broker.router.forget(session)
            broker.driver.counters.update(_dropped(session))
            if connection.overflowed:
                client = short(session.uid)
                self._notices.note("clients_too_slow", "client too slow, cut off", client=client)

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

    @property
    def dropped(self) -> Counter[str]:
        """Events that clients who are attached did not get, as they take them too slowly."""
        total: Counter[str] = Counter()
        for session in self._sessions:
            total.update(_dropped(session))
        return total

    def tell_alternates(self) -> None:
        """The neighbourhood has changed: tell all clients where else they can go."""
        message = self._alternates()
        for session in self._sessions:
            self._send(session, message)

    async def apply_rules(self) -> None:
        """The rules have changed: judge anew what clients have, and what they do from now on."""
        gate = self._broker.gate
        for session in tuple(self._sessions):
            await trio.lowlevel.checkpoint()  # there may be thousands
            old = session.admission
            permissions = gate.permissions(old.principal)
            session.admission = Admission(old.principal, old.record, permissions)
            session.forget_verdicts()
            for number, (text, _) in list(session.filters.items()):
                decision = permissions.subscribe(text) if permissions is not None else None
                if decision is not None and not decision.allowed:
                    self._unsubscribe(session, number)
                    self._deny(session, number, decision.reason)

    def check_tokens(self) -> None:
        """Cut off whose token was revoked, or has expired."""
        for session in self._sessions:
            record = session.admission.record
            if record is not None and not self._broker.gate.is_good(record):
                self._notices.note(
                    "clients_token_ended", "client cut off, its token has ended", name=record.name
                )
                # Until its connection is closed, it gets nothing and may do nothing.
                self._broker.router.forget(session)
                principal = session.admission.principal
                session.admission = Admission(principal, None, NOTHING.permissions(principal))
                session.forget_verdicts()
                session.connection.finish()

    async def dismiss(self) -> None:
        """Close all clients' connections after what is queued; they go to other brokers."""
        self._closed = True
        for session in self._sessions:
            session.connection.finish()
        while self._sessions:
            self._gone = trio.Event()
            await self._gone.wait()

    # ── letting in ────────────────────────────────────────────────────────────────────────────

    def _admit(self, hello: Hello, wire: Wire) -> Admission | Refusal:
        if self._closed:
            return Refusal(Refused.LEAVING, "this broker is leaving")
        if len(self._sessions) >= self._limits.clients:
            self._notices.note("clients_turned_away", "too many clients", host=wire.remote)
            return Refusal(Refused.BUSY, f"this broker serves {counted(self.size, 'client')}")
        found = self._broker.gate.admit(hello.token, wire.identity, exposed=wire.is_exposed)
        if isinstance(found, Rejection):
            self._notices.note(
                "clients_not_authenticated", "client refused", why=found.reason, host=wire.remote
            )
            return Refusal(Refused.NOT_AUTHENTICATED, found.reason)
        return found

    async def _turn_away(self, wire: Wire, refusal: Refusal) -> None:
        with trio.move_on_after(CLOSE_SECONDS), contextlib.suppress(*BROKEN):
            await wire.stream.send_all(GREETINGS.encode(refusal))

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
        precedence = broker.driver.precedence
        number = session.connection.number
        client = short(session.uid)
        begun = None  #: since when an unfinished frame waits for its rest
        try:
            chunk: bytes | bytearray = b"-"
            while chunk:
                await broker.on_ring()
                runs = reader.runs()
                if _is_express(runs):
                    precedence.enter(number)
                else:
                    precedence.leave(number)
                    await precedence.give_way()
                work = Sliced(self._steps(session, runs))
                is_more = True
                while is_more:
                    with broker.driver.turn:
                        is_more = work.go_on()
                        self._acknowledge(session)
                    if is_more:
                        await trio.lowlevel.checkpoint()
                await broker.after_batch()
                if reader.has_begun:
                    self.relief.look()
                begun = self._begun(reader, begun if not runs else None)
                with trio.fail_after(self._limits.client_silence_seconds):
                    chunk = await session.connection.receive(reader.appetite)
                reader.feed(chunk)
        except ProtocolError as error:
            self._notices.note("protocol_errors", "protocol error", client=client, why=str(error))
        except trio.TooSlowError:
            self._notices.note("clients_silent", "client silent, given up", client=client)
        except BROKEN:
            pass
        finally:
            precedence.leave(number)

    def _begun(self, reader: FrameReader, since: float | None) -> float | None:
        """Return when the frame that is on its way has begun; None: none is.

        Raises:
            ProtocolError: it takes too long.
        """
        if not reader.has_begun:
            return None
        now = trio.current_time()
        if since is not None and now - since > self._limits.frame_seconds:
            raise ProtocolError(f"a frame not finished in {self._limits.frame_seconds:g} s")
        return now if since is None else since

    def _steps(self, session: Session, runs: list[Run]) -> Generator[None, None, None]:
        """Take what a client sent; yields where others may have their turn."""
        session.status = None
        for run in runs:
            if run.kind == EVENT:
                for events in event_runs(run.data, run.bounds):
                    self._take_events(session, events)
                    yield
            elif run.kind == CONTROL:
                for body in run.bodies():
                    self._take_message(session, CLIENT_CODEC.decode(body))
                    yield
            else:
                raise ProtocolError("a delivery from a client")

    def _take_message(self, session: Session, message: Message) -> None:
        if isinstance(message, Subscribe):
            self._subscribe(session, message)
        elif isinstance(message, Unsubscribe):
            self._unsubscribe(session, message.number)
        elif isinstance(message, KeepAlive):
            if not message.answer:
                self._send(session, KeepAlive(message.token, answer=True))
            if session.dropped != session.told_dropped:
                session.told_dropped = session.dropped
                self._send(session, Dropped(*session.dropped))
        elif isinstance(message, RevocationNotice):
            self._send(session, RevocationTaken(self._broker.take_notice(message)))
        elif isinstance(message, StatusRequest):
            if session.status is None:
                session.status = CLIENT_CODEC.encode(self._broker.status())
            session.connection.send(session.status)
        else:
            raise ProtocolError(f"{type(message).__name__} from a client")

    def _take_events(self, session: Session, run: EventRun) -> None:
        head = run.head
        if (head.publisher, head.incarnation) != (session.publisher, session.incarnation):
            raise ProtocolError("an event in somebody else's name")
        if head.attribute_bytes:
            run.check_attributes()
        if head.hops or head.limit:
            run = run.unpatched()
        router = self._broker.router
        problem = self._topic_problem(head)
        if problem is None and (problem := session.why_not(head.topic)) is not None:
            self._notices.note("events_denied", "event denied", client=short(session.uid))
        elif problem is None:
            problem = router.why_not(session, head)
            if head.secure and session.secure and (problem or self.parked.holds(session)):
                self._park(session, run, problem, head.limit)
                return
        if problem is not None:
            for sequence in range(head.sequence, head.sequence + run.count):
                self.refuse(session, head.link_class, sequence, problem)
            return
        router.publish_run(session, run)
        session.accepted[head.link_class] = head.sequence + run.count - 1

    def _park(self, session: Session, run: EventRun, problem: str | None, park_ms: int) -> None:
        """Park secure events that cannot go now, as far as their publisher wants that."""
        for head, body in run.singles():
            if self._broker.router.has_come(head) and not self.parked.holds(session):
                session.accepted[head.link_class] = head.sequence
                continue
            refusal = self.parked.take(session, head, body, problem, park_ms)
            if refusal is not None:
                self.refuse(session, head.link_class, head.sequence, refusal)

    def refuse(self, session: Session, link_class: LinkClass, sequence: int, problem: str) -> None:
        """Tell a client that an event of its is not taken."""
        self._broker.driver.counters["events_refused"] += 1
        self._send(session, EventRefused(link_class, sequence, problem[:500]))

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
        permissions = session.admission.permissions
        if reason is None and permissions is not None:
            decision = permissions.subscribe(request.filter)
            if not decision.allowed:
                self._deny(session, request.number, decision.reason)
                return
        if reason is None:
            self._unsubscribe(session, request.number)  # the same number again replaces it
            reason = self._no_room(session, filter_cost(request.filter))
        if reason is not None:
            self._send(session, SubscriptionRefused(request.number, reason[:500]))
            return
        self._charge(session, filter_cost(request.filter))
        self._broker.router.subscribe(session, request.number, request.filter, request.link_class)
        self._send(session, Subscribed(request.number))
        self.parked.stir()  # who is alone may publish to its own subscribers

    def _deny(self, session: Session, number: int, reason: str) -> None:
        client = short(session.uid)
        self._notices.note("subscriptions_denied", "subscription denied", client=client)
        self._send(session, SubscriptionRefused(number, reason[:500]))

    def _no_room(self, session: Session, cost: int) -> str | None:
        limits = self._limits
        if len(session.filters) >= limits.subscriptions:
            return f"a client may have {limits.subscriptions} subscriptions"
        if session.filter_bytes + cost > limits.subscription_bytes:
            return "this client's filters take too much memory; unsubscribe some, or shorten them"
        if self._filter_bytes + cost > limits.subscription_bytes_total:
            return "this broker has no memory for more filters; attach to another"
        return None

    def _charge(self, session: Session, cost: int) -> None:
        session.filter_bytes += cost
        self._filter_bytes += cost

    def _unsubscribe(self, session: Session, number: int) -> None:
        entry = session.filters.get(number)
        if entry is not None:
            self._charge(session, -filter_cost(entry[0]))
            self._broker.router.unsubscribe(session, number)

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


def _is_express(runs: list[Run]) -> bool:
    """Say whether a client's events go first: it sends express ones, and hardly any others."""
    events = [run for run in runs if run.kind == EVENT]
    if not events:
        return False
    first = events[0].bounds[0] + HEADER.size
    size = sum(run.bounds[-1] - run.bounds[0] for run in events)
    has_flags = first < events[0].bounds[1]  # an empty frame is judged where events are read
    return has_flags and size <= EXPRESS_BYTES and bool(events[0].data[first] & EXPRESS_FLAG)


def _dropped(session: Session) -> dict[str, int]:
    normal, express = session.dropped
    return {"events_dropped_for_clients": normal, "express_dropped_for_clients": express}
