"""Serving clients: let in, written to, told what changes, until they go."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import Counter
from collections.abc import Callable

import trio

from ges.access.admission import Admission, Admitted
from ges.access.rules import AccessRules
from ges.node import BrokerNode
from ges.sessions.intake import Intake
from ges.sessions.letting_in import LetIn, LettingIn
from ges.sessions.reader import ClientReader
from ges.sessions.session import CLIENT_QUEUE_BYTES, Session
from ges.sessions.visitors import Visitors
from ges.wire.client_messages import Alternates, Attached
from overlay.driver import Driver
from overlay.errors import ProtocolError
from overlay.ids import Nanos
from overlay.limits import Limits
from overlay.machine import Refused
from overlay.net.connection import BROKEN, Connection
from overlay.net.transport import CLOSE_SECONDS, Wire
from overlay.queues.lanes import Policy
from overlay.queues.pace import Pace
from overlay.security.identity import PeerIdentity
from overlay.shares import Shares, Source
from overlay.wire.codec import FrameReader
from overlay.wire.frames import MAX_FRAME_BYTES
from overlay.wire.greetings import GREETINGS, Hello, Refusal
from overlay.wire.versions import DIALECT
from overlay.wording import counted

NOTHING = AccessRules(())  #: allows nothing
ENDS_AT_ONCE = 8  #: clients let go in one turn; thousands that close together hold nobody up
MAX_ALTERNATES = 16
LAST_SECONDS = 5.0  #: to read what a client has said before it closed
AWAY_SECONDS = 0.01  #: at most, between two clients that are told to go to another broker


class Clients:
    """All clients of one broker."""

    def __init__(
        self,
        sessions: set[Session],
        driver: Driver,
        node: BrokerNode,
        admission: Admission,
        intake: Intake,
        reader: ClientReader,
        *,
        limits: Limits,
        policy: Policy,
    ) -> None:
        """Take where clients are kept, and what serves them.

        Args:
            sessions: empty; this adds to it who comes, and takes out who goes.
            driver: has the turn in which queues are written, the counters and the log.
            node: knows where else clients can go, and who is revoked.
            admission: judges who comes.
            intake: takes what clients send.
            reader: reads it.
            limits: on the number of clients.
            policy: what becomes of normal events for clients that take them too slowly.
        """
        self._sessions = sessions
        self._serving: dict[Session, trio.CancelScope] = {}
        self._driver = driver
        self._node = node
        self._admission = admission
        self._intake = intake
        self._reader = reader
        self._limits = limits
        self.policy = policy  #: for clients that come from now on
        self._slots = Shares(
            limits.clients, of_one=limits.clients_of_one, reserved=limits.clients_reserved
        )
        self._visitors: Visitors[Session] = Visitors(
            limits.visitors, of_one=limits.visitors_of_one, end=self._end_visit
        )
        self._counted_log = driver.counted_log
        self._letting_in = LettingIn(
            admission, driver.counted_log, lambda: node.peer.uid, driver.overlay, limits
        )
        self._gone = trio.Event()  #: one of them went
        self._ends = trio.Semaphore(ENDS_AT_ONCE)
        self._closed = False
        self._numbers = itertools.count(1)

    @property
    def size(self) -> int:
        """How many clients are here, beside those that only look."""
        return len(self._sessions) - len(self._visitors)

    async def serve(
        self,
        hello: Hello,
        wire: Wire,
        reader: FrameReader,
        let_in: LetIn | None = None,
        mqtt_client_id: str | None = None,
    ) -> None:
        """Serve one client until it goes, or breaks the protocol.

        Args:
            hello: its greeting.
            wire: its connection.
            reader: with what has come behind the greeting.
            let_in: who it is, where that was found out otherwise than by its greeting.
            mqtt_client_id: what it calls itself, if it speaks MQTT.
        """
        try:
            found = await self._judge(hello, wire, reader, let_in)
        except ProtocolError as error:
            self._counted_log.note("protocol_errors", "protocol error", why=str(error))
            return
        if isinstance(found, Refusal):
            await self._turn_away(wire, found)
            return
        admission, source = found.admitted, found.source
        connection = Connection(
            wire.stream,
            secure=wire.identity is not None,
            limit_bytes=CLIENT_QUEUE_BYTES,
            policy=self.policy,
            turn=self._driver.turn,
            pace=Pace(CLIENT_QUEUE_BYTES),
        )
        session = Session(
            hello.uid,
            hello.incarnation,
            connection,
            admission,
            wire.identity,
            reader,
            only_looks=hello.only_looks,
            host=wire.remote,
            port=wire.port,
            mqtt_client_id=mqtt_client_id,
            source=source,
            since=self._driver.now(),
            number=next(self._numbers),
        )
        reader.limit(MAX_FRAME_BYTES)
        self._sessions.add(session)
        if hello.only_looks:
            self._visitors.enter(session, source)
        else:
            self._slots.take(source)
        peer = self._node.peer
        subject = admission.principal.label
        self._driver.first_seen.note(
            "a client is attached",
            (subject, source),
            subject=subject,
            host=wire.remote,
            secure=session.secure,
        )
        told = (peer.uid, peer.url, session.secure, reader.version, subject)
        session.tell(Attached(*told, DIALECT.names, found.token_proof))
        self._tell_revoked(session)
        session.tell(self._alternates())
        ends, is_ending = self._ends, False
        try:
            seconds = self._limits.visit_seconds if hello.only_looks else math.inf
            with trio.move_on_after(seconds) as self._serving[session]:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write, connection, nursery.cancel_scope)
                    await self._reader.read(session, connection, reader)
                    await ends.acquire()
                    is_ending = True
                    nursery.cancel_scope.cancel()
            if session.last_word and not connection.is_torn:
                await self._say(wire, session.last_word)
        finally:
            if is_ending:
                ends.release()
            self._sessions.discard(session)
            if hello.only_looks:
                self._visitors.leave(session)
            else:
                self._slots.free(source)
            self._serving.pop(session, None)
            self._gone.set()
            self._intake.forget(session)
            self._driver.counters.update(_dropped(session))
            if connection.overflowed:
                self._counted_log.note(
                    "clients_too_slow", "client too slow, cut off", **session.who
                )

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
                self._intake.forget(session)
                session.connection.abort()
                session.is_detached = True
                if (serving := self._serving.get(session)) is not None:
                    serving.cancel()
                self._sessions.discard(session)
                self._visitors.leave(session)
        return found

    def tell_revocations(self) -> None:
        """There is a new list of revoked identities: tell all clients."""
        for session in self._sessions:
            self._tell_revoked(session)

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
            session.tell(message)

    def tell_missed(self, absence: Nanos) -> None:
        """This broker's place was in doubt for so long: tell all clients."""
        for session in self._sessions:
            session.tell_missed(absence)

    async def apply_rules(self) -> None:
        """The rules have changed: judge anew what clients have, and what they do from now on."""
        for session in tuple(self._sessions):
            await trio.lowlevel.checkpoint()  # there may be thousands
            old = session.admission
            permissions = self._admission.permissions(old.principal)
            session.admission = Admitted(old.principal, old.record, permissions)
            session.forget_verdicts()
            self._intake.judge_anew(session)

    def check_tokens(self) -> None:
        """Cut off whose token was revoked, or has expired."""
        for session in self._sessions:
            record = session.admission.record
            if record is not None and not self._admission.is_good(record):
                self._counted_log.note(
                    "clients_token_ended",
                    "client cut off, its token has ended",
                    name=record.name,
                    **session.who,
                )
                # Until its connection is closed, it gets nothing and may do nothing.
                self._intake.end_subscriptions(session)
                principal = session.admission.principal
                session.admission = Admitted(principal, None, NOTHING.permissions(principal))
                session.forget_verdicts()
                self._intake.judge_anew(session)
                session.connection.finish()

    async def send_away(self, grace_s: float) -> None:
        """Take nobody new, and let those who are here go to other brokers, one after another.

        They are told within the first half of ``grace_s`` seconds, a hundred a second or more, lest
        all of them come to the others at one moment. Returns once all have gone, or then.
        """
        self._closed = True
        with trio.move_on_after(grace_s):
            sessions = list(self._sessions)
            pause = min(AWAY_SECONDS, grace_s / 2 / max(1, len(sessions)))
            for session in sessions:
                self._intake.confirm(session)
                session.send_away()
                await trio.sleep(pause)
            while self._sessions:
                self._gone = trio.Event()
                await self._gone.wait()

    async def dismiss(self) -> None:
        """Close all clients' connections after what is queued; they go to other brokers."""
        self._closed = True
        for session in self._sessions:
            self._intake.confirm(session)
            session.connection.finish()
        while self._sessions:
            self._gone = trio.Event()
            await self._gone.wait()

    def judge_password(
        self,
        user: str | None,
        password: bytes | None,
        host: str,
        certificate: str | None = None,
        *,
        is_private: bool,
    ) -> LetIn | str:
        """Return who a client is that shows a user name and a password, or why it is not let in.

        ``certificate``: fingerprint of the one that it has shown, if it has; ``is_private``: nobody
        but this broker could read them.
        """
        return self._letting_in.judge_password(
            user, password, host, certificate, is_private=is_private
        )

    # ── letting in ────────────────────────────────────────────────────────────────────────────

    async def _judge(
        self, hello: Hello, wire: Wire, reader: FrameReader, let_in: LetIn | None
    ) -> LetIn | Refusal:
        leaving = Refusal(Refused.LEAVING, "this broker is leaving")
        if self._closed:
            return leaving
        found = let_in or await self._letting_in.judge(hello, wire, reader)
        if isinstance(found, Refusal):
            return found
        if self._closed:  # meanwhile
            return leaving
        full = self._why_full(found.source) if not hello.only_looks else None
        return full or found

    def _why_full(self, source: Source) -> Refusal | None:
        """Return why there is no slot for one more of ``source``, or None."""
        limits = self._limits
        self._slots.resize(
            limits.clients, of_one=limits.clients_of_one, reserved=limits.clients_reserved
        )
        crowd = self._slots.crowd(source)
        if crowd is None:
            return None
        self._counted_log.note("clients_turned_away", "too many clients", of=source.name)
        told = f"this broker serves {counted(self.size, 'client')}"
        if crowd == source and self.size < self._limits.clients:  # it alone has too many
            many = self._slots.of(source)
            told = f"this broker serves {counted(many, 'client')} of {source.name}"
        return Refusal(Refused.BUSY, told)

    def _end_visit(self, session: Session) -> None:
        self._counted_log.note(
            "visitors_evicted", "too many clients that ask for the status, the oldest is cut off"
        )
        session.connection.abort()
        if (serving := self._serving.get(session)) is not None:
            serving.cancel()

    async def _turn_away(self, wire: Wire, refusal: Refusal) -> None:
        with trio.move_on_after(CLOSE_SECONDS), contextlib.suppress(*BROKEN):
            await wire.stream.send_all(GREETINGS.encode(refusal))

    async def _say(self, wire: Wire, last_word: bytes) -> None:
        """Send it, and let the client close first: bytes unread would reset the connection."""
        with trio.move_on_after(CLOSE_SECONDS), contextlib.suppress(*BROKEN):
            await wire.stream.send_all(last_word)
            while await wire.stream.receive_some():
                pass

    # ── writing ───────────────────────────────────────────────────────────────────────────────

    async def _write(self, connection: Connection, scope: trio.CancelScope) -> None:
        try:
            await connection.write_forever()
            if isinstance(connection.stream, trio.SocketStream) and not connection.overflowed:
                # Closing with bytes unread would reset the connection, and the client might never
                # see the last of what was sent: let it close first.
                await connection.stream.send_eof()
                await trio.sleep(CLOSE_SECONDS)
        except BROKEN:
            # The client has closed, and takes nothing more: what it has said before still counts.
            connection.abort()
            await trio.sleep(LAST_SECONDS)
        scope.cancel()

    def _tell_revoked(self, session: Session) -> None:
        if session.secure:  # others could not check it, and have no use for it
            for notice in self._node.revocation_lists.known:
                session.tell(notice)

    def _alternates(self) -> Alternates:
        return Alternates(self._node.ring.known_urls[:MAX_ALTERNATES])


def _dropped(session: Session) -> dict[str, int]:
    normal, express = session.dropped
    return {"events_dropped_for_clients": normal, "express_dropped_for_clients": express}
