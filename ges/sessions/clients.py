"""Serving clients: let in, read and written, told what changes, until they go."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from ges.access.admission import Admitted, Rejection
from ges.access.rules import AccessRules
from ges.sessions.intake import Intake
from ges.sessions.session import CLIENT_QUEUE_BYTES, Session
from ges.sessions.subscriptions import Subscriptions
from ges.wire.events import EXPRESS_FLAG
from ges.wire.messages import Alternates, Attached
from overlay.errors import ProtocolError
from overlay.ids import short
from overlay.links.memory_limit import MemoryLimit
from overlay.machine import Refused
from overlay.net.connection import BROKEN, Connection
from overlay.net.slices import Sliced
from overlay.net.transport import CLOSE_SECONDS, Wire
from overlay.security.identity import PeerIdentity
from overlay.wire.codec import FrameReader, FrameRun
from overlay.wire.frames import EVENT, HEADER, MAX_FRAME_BYTES
from overlay.wire.handshake import GREETINGS, Hello, Refusal
from overlay.wording import counted

if TYPE_CHECKING:
    from ges.broker import Broker

NOTHING = AccessRules(())  #: allows nothing
ENDS_AT_ONCE = 8  #: clients let go in one turn; thousands that close together hold nobody up
MAX_ALTERNATES = 16
JOIN_PATIENCE_SECONDS = 2.0  #: for which what clients publish waits for the broker to join
EXPRESS_BYTES = 16 * 1024  #: a client with more in one read is none that goes first


class Clients:
    """All clients of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._limits = broker.config.limits
        self._notices = broker.driver.counted_log
        self._sessions: set[Session] = set()
        self._gone = trio.Event()  #: one of them went
        self._ends = trio.Semaphore(ENDS_AT_ONCE)
        self._subscriptions = Subscriptions(broker.router, self._limits, self._notices)
        self.intake = Intake(broker, self._subscriptions)
        self.relief = MemoryLimit(self._sessions, self._limits.client_bytes_total)
        self._closed = False

    @property
    def size(self) -> int:
        """How many clients are here."""
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
        session.tell(Attached(peer.uid, peer.url, session.secure, reader.version, subject))
        self._send_notices(session)
        session.tell(self._alternates())
        ends, is_ending = self._ends, False
        try:
            with session.serving:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write, connection, nursery.cancel_scope)
                    await self._read(session, reader)
                    await ends.acquire()
                    is_ending = True
                    nursery.cancel_scope.cancel()
            if session.last_word and not connection.is_torn:
                await self._say(wire, session.last_word)
        finally:
            if is_ending:
                ends.release()
            self._sessions.discard(session)
            self._gone.set()
            self._forget(session)
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
                self._forget(session)
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
            session.tell(message)

    async def apply_rules(self) -> None:
        """The rules have changed: judge anew what clients have, and what they do from now on."""
        gate = self._broker.gate
        for session in tuple(self._sessions):
            await trio.lowlevel.checkpoint()  # there may be thousands
            old = session.admission
            permissions = gate.permissions(old.principal)
            session.admission = Admitted(old.principal, old.record, permissions)
            session.forget_verdicts()
            self.intake.parked.judge_anew(session)
            self._subscriptions.judge_anew(session)

    def check_tokens(self) -> None:
        """Cut off whose token was revoked, or has expired."""
        for session in self._sessions:
            record = session.admission.record
            if record is not None and not self._broker.gate.is_good(record):
                self._notices.note(
                    "clients_token_ended", "client cut off, its token has ended", name=record.name
                )
                # Until its connection is closed, it gets nothing and may do nothing.
                self._subscriptions.forget(session)
                principal = session.admission.principal
                session.admission = Admitted(principal, None, NOTHING.permissions(principal))
                session.forget_verdicts()
                self.intake.parked.judge_anew(session)
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

    def _admit(self, hello: Hello, wire: Wire) -> Admitted | Refusal:
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

    async def _say(self, wire: Wire, last_word: bytes) -> None:
        """Send it, and let the client close first: bytes unread would reset the connection."""
        with trio.move_on_after(CLOSE_SECONDS), contextlib.suppress(*BROKEN):
            await wire.stream.send_all(last_word)
            while await wire.stream.receive_some():
                pass

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
        fileno = session.connection.fileno
        client = short(session.uid)
        is_express = False
        unfinished = _Unfinished(reader, self._limits.frame_seconds)
        try:
            chunk: bytes | bytearray = b"-"
            while chunk:
                runs = reader.runs()
                await self.on_ring(runs)
                events = [run for run in runs if run.kind == EVENT]
                if events:  # else it is as it was
                    is_express = _are_express(events)
                if is_express:
                    precedence.enter(fileno)
                else:
                    precedence.leave(fileno)
                    await precedence.give_way()
                work = Sliced(self.intake.steps(session, runs), None if is_express else precedence)
                await work.finish(broker.driver.turn, partial(self.intake.acknowledge, session))
                await broker.after_batch()
                if reader.has_begun:
                    self.relief.look()
                unfinished.look(has_finished=bool(runs))
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
            precedence.leave(fileno)

    async def on_ring(self, runs: list[FrameRun]) -> None:
        """Let what needs it wait until this broker is a member; questions are answered at once.

        A publisher is told after a while that it is none yet. A subscriber is not answered before:
        it would miss what is published elsewhere. No checkpoint where the broker is a member: what
        a reader holds in its hands the kernel no longer knows of, and were others to have their
        turn now, :mod:`overlay.net.precedence` could not tell them that something express has come.
        """
        broker = self._broker
        if broker.is_on_ring:
            return
        if self.intake.has_subscription(runs):
            await broker.on_ring()
        elif any(run.kind == EVENT for run in runs):
            with trio.move_on_after(JOIN_PATIENCE_SECONDS):
                await broker.on_ring()

    def _forget(self, session: Session) -> None:
        self._subscriptions.forget(session)
        self.intake.parked.forget(session)

    def _send_notices(self, session: Session) -> None:
        if session.secure:  # others could not check it, and have no use for it
            for notice in self._broker.node.notices.known:
                session.tell(notice)

    def _alternates(self) -> Alternates:
        return Alternates(self._broker.node.ring.known_urls[:MAX_ALTERNATES])


class _Unfinished:
    """Since when a client owes the rest of a frame: others may come between the slices of one."""

    def __init__(self, reader: FrameReader, limit_seconds: float) -> None:
        self._reader = reader
        self._limit = limit_seconds
        self._since = self._sliced_since = trio.current_time()
        self._number = 0  #: of the frame in slices

    def look(self, *, has_finished: bool) -> None:
        """Look after each read; ``has_finished``: it has brought the end of a frame.

        Raises:
            ProtocolError: the rest of a frame takes too long.
        """
        now, number = trio.current_time(), self._reader.in_slices
        if has_finished or not self._reader.has_begun:
            self._since = now
        if number != self._number or not number:
            self._number, self._sliced_since = number, now
        if now - min(self._since, self._sliced_since) > self._limit:
            raise ProtocolError(f"a frame not finished in {self._limit:g} s")


def _are_express(events: list[FrameRun]) -> bool:
    """Say whether a client's events go first: it sends express ones, and hardly any others."""
    first = events[0].bounds[0] + HEADER.size
    size = sum(run.bounds[-1] - run.bounds[0] for run in events)
    has_flags = first < events[0].bounds[1]  # an empty frame is judged where events are read
    return has_flags and size <= EXPRESS_BYTES and bool(events[0].data[first] & EXPRESS_FLAG)


def _dropped(session: Session) -> dict[str, int]:
    normal, express = session.dropped
    return {"events_dropped_for_clients": normal, "express_dropped_for_clients": express}
