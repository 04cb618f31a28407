"""Runs a machine over real streams and real time, in trio.

The machine is touched from reader tasks, the timer task and the layer above, but trio switches
tasks only at an ``await``, and there is none between an input and the last of its effects: each is
one step, in one process, without a lock or a queue.

Frames that are no control messages go to ``on_frame`` as they are, and callers that are no brokers
to ``on_client``; this package knows neither events nor clients.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

import structlog
import trio

from overlay.address import Address, parse_url
from overlay.codec import (
    CONTROL,
    MAX_CONTROL_BYTES,
    MAX_FRAME_BYTES,
    PROTOCOL_VERSION,
    FrameReader,
    MessageCodec,
)
from overlay.connection import BROKEN, FINISH_SECONDS, Connection
from overlay.errors import ConfigError, ConnectionFailed, ProtocolError
from overlay.handshake import GREETINGS, Goodbye, Hello, LinkTable, Refusal, Welcome, judge_hello
from overlay.identity import PeerIdentity, Role
from overlay.ids import NANOS_PER_SECOND, LinkClass, Nanos, Peer, short
from overlay.machine import (
    Closed,
    CloseLink,
    Effect,
    Fact,
    Input,
    LinkDown,
    LinkRefused,
    LinkUp,
    Machine,
    MessageReceived,
    Notify,
    OpenLink,
    Refused,
    Send,
)
from overlay.transport import Transport, Wire, close

HANDSHAKE_SECONDS = 2.0  #: for a stranger to become a peer or a client
CONNECT_SECONDS = 2.0
MAX_STRANGERS = 512  #: connections that have not greeted yet
MAX_CONNECTIONS = 8192
LINK_QUEUE_BYTES = 64 * 1024 * 1024
PARTING_SECONDS = 10.0  #: for both ends of a link given up in peace to send what they have queued

#: Ends of a link that lose nothing: both ends go on, and send what they have queued.
PEACEFUL = frozenset({Closed.UNWANTED, Closed.REPLACED})


T = TypeVar("T")
R = TypeVar("R")


class Link:
    """A link that is up, as the driver holds it."""

    __slots__ = ("connection", "link_class", "parted", "peer", "since_ns")

    def __init__(
        self, peer: Peer, link_class: LinkClass, connection: Connection, since_ns: Nanos
    ) -> None:
        self.parted = trio.Event()  #: the other end has said good-bye
        self.peer = peer
        self.link_class = link_class
        self.connection = connection
        self.since_ns = since_ns


class Upper(Protocol):
    """What the layer above does with what the driver brings."""

    def on_fact(self, fact: Fact) -> None:
        """The machine says something."""

    def on_frame(self, link: Link, kind: int, body: bytes) -> None:
        """A frame came over ``link`` that is no control message.

        Raises:
            ProtocolError: it makes no sense; the link is closed.
        """

    async def on_batch(self, link: Link) -> None:
        """All frames that had arrived together over ``link`` have been handed over.

        Nothing more is read from it before this returns.
        """

    def on_links_changed(self) -> None:
        """A link came up or went down."""

    def on_cut(self, link: Link) -> None:
        """A link ended otherwise than in peace; what was under way on it may be lost."""

    async def on_client(self, hello: Hello, wire: Wire, reader: FrameReader) -> None:
        """A client has greeted; serve it until it goes."""


class Driver:
    """One machine, its links and its timers."""

    def __init__(
        self,
        machine: Machine,
        transport: Transport,
        codec: MessageCodec,
        upper: Upper,
        *,
        overlay: str = "chordal",
    ) -> None:
        self.machine = machine
        self.links: dict[tuple[str, LinkClass], Link] = {}
        self.counters: Counter[str] = Counter()
        self.sent_about: Counter[str] = Counter()  #: messages by the failure they are about
        self.overlay = overlay
        self._transport = transport
        self._codec = codec
        self._upper = upper
        self._table = LinkTable(machine.peer.uid)
        self._nursery: trio.Nursery | None = None
        self._started = trio.current_time()
        self._rearm = trio.Event()
        self._armed: Nanos | None = None
        self._strangers = 0
        self._connections = 0
        self._running = 0  #: links whose tasks have not ended
        self._quiet = trio.Event()
        self._log = structlog.get_logger("chordal.overlay").bind(broker=short(machine.peer.uid))

    # ── for the layer above ───────────────────────────────────────────────────────────────────

    def now(self) -> Nanos:
        """Nanoseconds since the driver was made."""
        return round((trio.current_time() - self._started) * NANOS_PER_SECOND)

    def give(self, event: Input) -> None:
        """Hand an input to the machine and do what it says."""
        self._perform(self.machine.handle(event, self.now()))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await nursery.start(self._transport.serve, partial(self._contain, self._accept))
            nursery.start_soon(self._run_timers)
            task_status.started()

    async def drained(self) -> None:
        """Wait until no link is left, as after a machine has left."""
        while self._running:
            self._quiet = trio.Event()
            await self._quiet.wait()

    async def _contain(self, work: Callable[[T], Awaitable[R]], subject: T) -> R | None:
        """Do the work of one connection; a fault of ours in it ends that connection, not us all."""
        try:
            return await work(subject)
        except Exception as error:  # noqa: BLE001 - the one place where the unforeseen is stopped
            self.counters["internal_errors"] += 1
            self._log.error("BUG: internal error, connection closed", why=repr(error))
            self._log.debug("where it happened", exc_info=True)
            return None

    # ── effects and timers ────────────────────────────────────────────────────────────────────

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                link = self.links.get((effect.uid, LinkClass.NORMAL))
                if link is not None:
                    link.connection.send(self._codec.encode(effect.message))
                    self.counters["control_messages_sent"] += 1
                    if effect.about is not None:
                        self.sent_about[effect.about] += 1
            elif isinstance(effect, OpenLink):
                if effect.about is not None:
                    self.sent_about[effect.about] += 1
                assert self._nursery is not None
                self._nursery.start_soon(self._contain, self._call, effect)
            elif isinstance(effect, CloseLink):
                self._close(effect)
            elif isinstance(effect, Notify):
                self._upper.on_fact(effect.fact)
        deadline = self.machine.next_deadline()
        if deadline is not None and (self._armed is None or deadline < self._armed):
            self._rearm.set()

    def _close(self, effect: CloseLink) -> None:
        link = self.links.pop((effect.uid, effect.link_class), None)
        if link is not None:
            self._table.closed(effect.uid, effect.link_class)
            self._say_goodbye(link, effect.reason)
            if effect.reason not in PEACEFUL:
                self._upper.on_cut(link)
            self._upper.on_links_changed()

    def _say_goodbye(self, link: Link, reason: Closed) -> None:
        """Send this last; the other end then sends what it has queued, and closes."""
        link.connection.send(self._codec.encode(Goodbye(reason)))
        link.connection.finish(PARTING_SECONDS if reason in PEACEFUL else FINISH_SECONDS)

    async def _run_timers(self) -> None:
        while True:
            self._armed = self.machine.next_deadline()
            self._rearm = trio.Event()
            if self._armed is None:
                await self._rearm.wait()
                continue
            with trio.move_on_at(self._started + self._armed / NANOS_PER_SECOND):
                await self._rearm.wait()
                continue
            # The clock may show a hair less than the deadline that woke us.
            now = max(self.now(), self._armed)
            self._perform(self.machine.handle_timers(now))

    # ── calling ───────────────────────────────────────────────────────────────────────────────

    async def _call(self, request: OpenLink) -> None:
        """Try to make a link; the machine is told how it went."""
        link_class = request.link_class
        uid = request.uid
        if uid is not None and not self._table.call(uid, link_class):
            self._refuse(request, Refused.DUPLICATE, "")
            return
        # Numbered now, not when it is sent: by then we may have welcomed the other end's call, and
        # a greeting that is numbered after that would say that we have lost the link again.
        serial = self._table.next_serial()
        try:
            with trio.fail_after(CONNECT_SECONDS):
                address = parse_url(request.url)
                if link_class is LinkClass.SECURE:
                    address = Address(address.host, address.port, tls=True)
                wire = await self._transport.connect(address)
                try:
                    answer, reader = await self._greet(wire, request, serial)
                except BaseException:
                    await close(wire.stream)
                    raise
        except trio.TooSlowError:
            self._fail(request, Refused.TIMEOUT, "no answer in time")
            return
        except (ConnectionFailed, ConfigError) as error:
            reason = error.reason if isinstance(error, ConnectionFailed) else str(error)
            self._fail(request, Refused.UNREACHABLE, reason)
            return
        except BROKEN as error:
            self._fail(request, Refused.UNREACHABLE, str(error) or "connection lost")
            return
        except ProtocolError as error:
            self._fail(request, Refused.NOT_CHORDAL, str(error))
            return
        await self._called(request, wire, answer, reader)

    async def _greet(
        self, wire: Wire, request: OpenLink, serial: int
    ) -> tuple[Welcome | Refusal, FrameReader]:
        peer = self.machine.peer
        hello = Hello(
            self.overlay,
            PROTOCOL_VERSION,
            peer.uid,
            peer.incarnation,
            peer,
            request.link_class,
            request.uid,
            serial,
        )
        await wire.stream.send_all(GREETINGS.encode(hello))
        reader = FrameReader(MAX_CONTROL_BYTES)
        answer = await read_greeting(wire.stream, reader)
        if not isinstance(answer, Welcome | Refusal):
            raise ProtocolError(f"{type(answer).__name__} is no answer to a greeting")
        return answer, reader

    async def _called(
        self,
        request: OpenLink,
        wire: Wire,
        answer: Welcome | Refusal,
        reader: FrameReader,
    ) -> None:
        link_class = request.link_class
        problem: tuple[Refused, str] | None = None
        if isinstance(answer, Refusal):
            problem = (answer.reason, answer.detail)
        elif wire.identity is not None and wire.identity.uid != answer.peer.uid:
            problem = (Refused.NOT_AUTHENTICATED, "the certificate names another uid")
        elif request.uid not in (None, answer.peer.uid):
            problem = (Refused.OTHER_PEER, "another broker listens there now")
        else:
            refused = self.machine.admit(answer.peer)
            if refused is not None:
                problem = (refused, "")
            elif not self._table.on_welcome(answer.peer.uid, link_class, answer.serial):
                problem = (Refused.DUPLICATE, "")
        if problem is not None:
            await close(wire.stream)
            self._fail(request, *problem)
            return
        assert isinstance(answer, Welcome)
        await self._run_link(answer.peer, request.url, link_class, wire, reader)

    def _fail(self, request: OpenLink, reason: Refused, detail: str) -> None:
        if request.uid is not None:
            self._table.call_ended(request.uid, request.link_class)
        self._refuse(request, reason, detail)

    def _refuse(self, request: OpenLink, reason: Refused, detail: str) -> None:
        self.give(LinkRefused(request.url, request.uid, reason, detail, request.link_class))

    # ── being called ──────────────────────────────────────────────────────────────────────────

    async def _accept(self, stream: trio.abc.Stream) -> None:
        """Serve one incoming connection; whatever it does, nobody else notices."""
        if self._strangers >= MAX_STRANGERS or self._connections >= MAX_CONNECTIONS:
            self.counters["connections_turned_away"] += 1
            await trio.aclose_forcefully(stream)
            return
        self._strangers += 1
        wire = None
        reader = FrameReader(MAX_CONTROL_BYTES)
        try:
            with trio.fail_after(HANDSHAKE_SECONDS):
                wire = await self._transport.accept(stream)
                hello = await read_greeting(wire.stream, reader)
        except (trio.TooSlowError, *BROKEN, ProtocolError) as error:
            self.counters["strangers_dropped"] += 1
            self._log.debug("stranger dropped", why=str(error) or type(error).__name__)
            await close(wire.stream if wire is not None else stream)
            return
        finally:
            self._strangers -= 1
        self._connections += 1
        try:
            await self._on_greeting(hello, wire, reader)
        finally:
            self._connections -= 1
            await close(wire.stream)

    async def _on_greeting(self, hello: object, wire: Wire, reader: FrameReader) -> None:
        own = self.machine.peer
        if not isinstance(hello, Hello):
            self.counters["strangers_dropped"] += 1
            return
        refusal = judge_hello(hello, overlay=self.overlay, own_uid=own.uid)
        if refusal is None:
            refusal = _judge_identity(hello, wire.identity)
        if refusal is None and hello.peer is not None:
            refused = self.machine.admit(hello.peer)
            if refused is not None:
                refusal = Refusal(refused, "")
            elif self._is_blind_duplicate(hello):
                refusal = Refusal(Refused.DUPLICATE, "there is a link already")
            elif not self._table.on_hello(hello.uid, hello.link_class, hello.serial):
                refusal = Refusal(Refused.DUPLICATE, "")
        if refusal is not None:
            await self._reply(wire, GREETINGS.encode(refusal))
        elif hello.peer is None:
            await self._upper.on_client(hello, wire, reader)
        else:
            welcome = Welcome(own, self._table.next_serial())
            await self._run_link(
                hello.peer, hello.peer.url, hello.link_class, wire, reader, welcome
            )

    def _is_blind_duplicate(self, hello: Hello) -> bool:
        """Say whether the caller does not know that it is linked to whom it calls.

        It may have got our address under another name, from its seeds. One that has lost its link
        to us would say whom it expects, or come in another incarnation.
        """
        link = self.links.get((hello.uid, hello.link_class))
        return (
            hello.expected is None
            and link is not None
            and link.peer.incarnation == hello.incarnation
        )

    async def _reply(self, wire: Wire, data: bytes) -> None:
        with trio.move_on_after(HANDSHAKE_SECONDS):
            with contextlib.suppress(*BROKEN):
                await wire.stream.send_all(data)

    # ── a link's life ─────────────────────────────────────────────────────────────────────────

    async def _run_link(
        self,
        peer: Peer,
        url: str,
        link_class: LinkClass,
        wire: Wire,
        reader: FrameReader,
        welcome: Welcome | None = None,
    ) -> None:
        """Read and write until the link ends; the machine is told of both ends of its life."""
        connection = Connection(
            wire.stream, secure=wire.identity is not None, limit_bytes=LINK_QUEUE_BYTES
        )
        if welcome is not None:
            connection.send(GREETINGS.encode(welcome))
        reader.limit(MAX_FRAME_BYTES)
        link = Link(peer, link_class, connection, self.now())
        key = (peer.uid, link_class)
        old = self.links.get(key)
        self.links[key] = link
        if old is not None:
            self._say_goodbye(old, Closed.REPLACED)
        self._running += 1
        self.give(LinkUp(peer, url, link_class))
        self._upper.on_links_changed()
        reason = None
        try:
            reason = await self._contain(partial(self._read_and_write, link), reader)
        finally:
            self._running -= 1
            self._quiet.set()
            ended_by_itself = self._forget(link)
            await close(wire.stream)
        if ended_by_itself:
            self._upper.on_cut(link)
            self.give(LinkDown(peer.uid, reason or Closed.LOST, link_class))
            self._upper.on_links_changed()

    def _forget(self, link: Link) -> bool:
        """Take a link out of the tables; False if it is out already, or another in its place."""
        key = (link.peer.uid, link.link_class)
        if self.links.get(key) is not link:
            return False
        del self.links[key]
        self._table.closed(*key)
        return True

    def _part(self, link: Link, reason: Closed) -> None:
        """The other end said good-bye: nothing new goes this way, but what is queued still does.

        It reads on until we close, so no event is lost where a link is given up in peace.
        """
        link.parted.set()
        if self._forget(link):
            if reason not in PEACEFUL:
                self._upper.on_cut(link)
            self.give(LinkDown(link.peer.uid, reason, link.link_class))
            self._upper.on_links_changed()
        link.connection.finish(PARTING_SECONDS)

    async def _read_and_write(self, link: Link, reader: FrameReader) -> Closed:
        reason = Closed.LOST
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write, link, nursery.cancel_scope)
            reason = await self._read(link, reader)
            if not link.parted.is_set():
                nursery.cancel_scope.cancel()
        return Closed.OVERFLOW if link.connection.overflowed else reason

    async def _write(self, link: Link, scope: trio.CancelScope) -> None:
        try:
            await link.connection.write_forever()
            if not link.connection.overflowed:
                # Closing with bytes unread would reset the connection, and the other end might
                # never see our goodbye: wait for its own, or until it closes.
                with trio.move_on_at(link.connection.closed_by):
                    await link.parted.wait()
        except BROKEN:
            pass
        scope.cancel()

    async def _read(self, link: Link, reader: FrameReader) -> Closed:
        upper, uid, codec = self._upper, link.peer.uid, self._codec
        try:
            chunk: bytes | bytearray = b"-"
            while chunk:
                goodbye = self._take(link, reader, codec, uid)
                if goodbye is not None:
                    self._part(link, goodbye)
                    return goodbye
                await upper.on_batch(link)
                chunk = await link.connection.receive()
                reader.feed(chunk)
        except ProtocolError as error:
            self._protocol_error(link, error)
            return Closed.PROTOCOL
        except BROKEN:
            pass
        return Closed.LOST

    def _take(
        self, link: Link, reader: FrameReader, codec: MessageCodec, uid: str
    ) -> Closed | None:
        on_frame = self._upper.on_frame
        secure = link.link_class is not LinkClass.NORMAL
        for kind, body in reader.frames():
            if kind != CONTROL:
                on_frame(link, kind, body)
                continue
            message = codec.decode(body)
            if isinstance(message, Goodbye):
                return message.reason
            if secure:
                raise ProtocolError(f"{type(message).__name__} on a link for events")
            self.give(MessageReceived(uid, message))
        return None

    def _protocol_error(self, link: Link, error: ProtocolError) -> None:
        self.counters["protocol_errors"] += 1
        self._log.warning("protocol error", peer=short(link.peer.uid), why=str(error))


def _judge_identity(hello: Hello, identity: PeerIdentity | None) -> Refusal | None:
    """Compare what the caller says with what its certificate says."""
    if identity is None:
        if hello.link_class is LinkClass.SECURE and hello.peer is not None:
            return Refusal(Refused.NOT_AUTHENTICATED, "a secure link needs TLS")
        return None
    if identity.uid != hello.uid:
        return Refusal(Refused.NOT_AUTHENTICATED, "the certificate names another uid")
    if hello.peer is not None and identity.role is not Role.BROKER:
        return Refusal(Refused.NOT_AUTHENTICATED, "the certificate is not a broker's")
    return None


async def read_greeting(stream: trio.abc.Stream, reader: FrameReader) -> object:
    """Read the first message of a stream; what follows it stays in ``reader``.

    Raises:
        ProtocolError: the stream is not ours.
        trio.BrokenResourceError: it ends.
    """
    while True:
        frame = reader.next_frame()
        if frame is not None:
            kind, body = frame
            if kind != CONTROL:
                raise ProtocolError("an event before any greeting")
            return GREETINGS.decode(body)
        data = await stream.receive_some(4096)
        if not data:
            raise trio.BrokenResourceError("closed without a greeting")
        reader.feed(data)
