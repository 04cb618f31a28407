"""The clients of one whole broker in the simulator: let in, read, told what changes, until they go.

It mirrors :mod:`ges.sessions.clients` and :mod:`ges.sessions.reader`, which run on trio; what
clients send is taken by the same :class:`ges.sessions.intake.Intake`. Not modelled: tokens, rules,
limits, and clients that are given up as they are silent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ges.node import BrokerNode
from ges.sessions.intake import Intake
from ges.sessions.replies import Replies
from ges.sessions.session import CLIENT_QUEUE_BYTES, Session
from ges.wire.client_messages import Alternates, Attached
from overlay.errors import ProtocolError
from overlay.ids import Nanos, nanos, short
from overlay.machine import Refused
from overlay.wire.codec import FrameReader, FrameRun
from overlay.wire.frames import EVENT, MAX_FRAME_BYTES
from overlay.wire.greetings import GREETINGS, Hello, Refusal
from overlay.wire.versions import DIALECT
from sims.world.connections import Connection
from sims.world.processes import Process, Socket

JOIN_PATIENCE_NS = nanos(2.0)  #: as in :mod:`ges.sessions.reader`
MAX_ALTERNATES = 16  #: as in :mod:`ges.sessions.clients`


class _Served:
    """One client's connection, as it is read."""

    __slots__ = ("connection", "pending", "reader", "session", "waits")

    def __init__(self, session: Session, connection: Connection, reader: FrameReader) -> None:
        self.session = session
        self.connection = connection
        self.reader = reader
        self.waits = False  #: for the broker to join; meanwhile nothing more is taken
        self.pending: list[FrameRun] = []  #: what waits


class Sessions:
    """All clients of one broker."""

    def __init__(
        self,
        process: Process,
        node: BrokerNode,
        intake: Intake,
        replies: Replies,
        *,
        is_member: Callable[[], bool],
        after_batch: Callable[[], None],
    ) -> None:
        """``is_member``: whether the broker is on the ring; what needs it waits until then."""
        self._process = process
        self._node = node
        self._intake = intake
        self._replies = replies
        self._is_member = is_member
        self._after_batch = after_batch
        self._served: dict[Session, _Served] = {}
        self._closed = False
        self.protocol_errors: list[str] = []

    def serve(self, hello: Hello, socket: Socket, reader: FrameReader) -> None:
        """Serve one client until it goes, or breaks the protocol."""
        if self._closed:
            refusal = Refusal(Refused.LEAVING, "this broker is leaving")
            socket.write(GREETINGS.encode(refusal))
            socket.close()
            return
        connection = Connection(self._process, socket, limit_bytes=CLIENT_QUEUE_BYTES)
        session = Session(
            hello.uid,
            hello.incarnation,
            connection,
            reader=reader,
        )
        served = self._served[session] = _Served(session, connection, reader)
        reader.limit(MAX_FRAME_BYTES)
        socket.on_bytes = partial(self._on_bytes, served)
        socket.on_closed = partial(self._end, served)
        connection.on_change = partial(self._look, served)
        peer = self._node.peer
        told = (peer.uid, peer.url, session.secure, reader.version, "anyone")
        session.tell(Attached(*told, DIALECT.names))
        session.tell(self._alternates())
        self._read(served, can_wait=True)
        if socket.ended:
            self._end(served)

    def tell_alternates(self) -> None:
        """The neighbourhood has changed: tell all clients where else they can go."""
        message = self._alternates()
        for session in self._served:
            session.tell(message)

    def tell_missed(self, absence: Nanos) -> None:
        """This broker's place was in doubt for so long: tell all clients."""
        for session in self._served:
            session.tell_missed(absence)

    def go_on(self) -> None:
        """The broker has joined: take what has waited for that."""
        for served in list(self._served.values()):
            self._wait_no_more(served)

    def dismiss(self) -> None:
        """Close all clients' connections after what is queued; they go to other brokers."""
        self._closed = True
        for session in list(self._served):
            self._intake.confirm(session)
            session.connection.finish()

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _on_bytes(self, served: _Served, data: bytes) -> None:
        served.reader.feed(data)
        if not served.waits:
            self._read(served, can_wait=True)

    def _read(self, served: _Served, *, can_wait: bool) -> None:
        """Take what a client has sent; what needs the ring waits until this broker is on it."""
        session = served.session
        try:
            runs = served.pending + served.reader.runs()
            served.pending = []
            if not self._is_member() and can_wait and self._has_to_wait(served, runs):
                return
            for _ in self._intake.steps(session, runs):
                pass
        except ProtocolError as error:
            self.protocol_errors.append(f"{short(session.uid)}: {error}")
            self._end(served)
            return
        self._replies.settle(session)
        self._after_batch()

    def _has_to_wait(self, served: _Served, runs: list[FrameRun]) -> bool:
        """A subscriber waits for the ring; a publisher is told after a while that there is none."""
        has_subscription = self._intake.has_subscription(runs)
        if not has_subscription and all(run.kind != EVENT for run in runs):
            return False
        served.waits, served.pending = True, runs
        if not has_subscription:
            until = self._process.timeline.now + JOIN_PATIENCE_NS
            self._process.later(until, self._wait_no_more, served)
        return True

    def _wait_no_more(self, served: _Served) -> None:
        if served.waits and served.session in self._served:
            served.waits = False
            self._read(served, can_wait=False)

    def _look(self, served: _Served) -> None:
        if served.connection.is_written:
            self._end(served)

    def _end(self, served: _Served) -> None:
        if self._served.pop(served.session, None) is not None:
            self._intake.forget(served.session)
            served.connection.abort()
            served.connection.socket.close()

    def _alternates(self) -> Alternates:
        return Alternates(self._node.ring.known_urls[:MAX_ALTERNATES])
