"""How two whole brokers greet in the simulator, as bytes: calls, answers, refusals.

It mirrors :mod:`overlay.links.calling` and :mod:`overlay.links.accepting` without trio, and with
:class:`overlay.wire.greetings.LinkTable` decides the same. Not modelled: strangers, limits on their
number, and certificates; a stream says whether it runs over TLS.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from overlay.errors import ProtocolError
from overlay.ids import Nanos, nanos
from overlay.machine import Closed, Input, LinkRefused, Machine, OpenLink, Refused
from overlay.wire.codec import FrameReader, MessageCodec
from overlay.wire.frames import MAX_CONTROL_BYTES
from overlay.wire.greetings import (
    GREETINGS,
    Goodbye,
    Hello,
    LinkTable,
    Refusal,
    Welcome,
    judge_hello,
)
from overlay.wire.versions import DIALECT, Agreement
from sims.world.links import Links
from sims.world.processes import Process, Socket

CONNECT_NS = nanos(2.0)  #: as in :mod:`overlay.links.calling`, and ...
PAUSES_NS = (nanos(0.02), nanos(0.04))  #: ... so are these
DECLINE_NS = nanos(10.0)  #: for the other end to close a link that is declined
OVERLAY = "chordal"


class Call:
    """One call of another broker, from the wish to the link or to why there is none."""

    __slots__ = ("cuts", "is_over", "number", "request", "serial", "socket")

    def __init__(self, request: OpenLink, number: int | None) -> None:
        self.request = request
        self.number = number  #: by the table; None where the request does not say whom to expect
        self.cuts = 0  #: times that the connection was cut before the answer
        self.serial = 0
        self.socket: Socket | None = None
        self.is_over = False


class Caller:
    """Makes the links that a machine asks for."""

    def __init__(
        self,
        process: Process,
        machine: Machine,
        table: LinkTable,
        links: Links,
        codec: MessageCodec,
        give: Callable[[Input], None],
    ) -> None:
        self._process = process
        self._machine = machine
        self._table = table
        self._links = links
        self._codec = codec
        self._give = give

    def call(self, request: OpenLink) -> None:
        """Try to make a link; the machine is told how it went."""
        uid, link_class, number = request.uid, request.link_class, None
        if uid is not None:
            number = self._table.call(uid, link_class, replace=request.replace)
            if number is None:
                self._refuse(request, Refused.DUPLICATE, "")
                return
        call = Call(request, number)
        self._process.later(self._now() + CONNECT_NS, self._time_out, call)
        self._try(call)

    def _try(self, call: Call) -> None:
        if call.is_over:
            return
        call.serial = self._table.next_serial()
        request = call.request
        self._process.network.connect(
            self._process,
            request.url,
            secure=request.link_class.is_secret,
            on_open=partial(self._on_open, call),
            on_refused=partial(self._on_refused, call),
        )

    def _on_open(self, call: Call, socket: Socket) -> None:
        if call.is_over:
            socket.close()
            return
        call.socket = socket
        reader = FrameReader(MAX_CONTROL_BYTES)
        socket.on_bytes = partial(self._on_bytes, call, socket, reader)
        socket.on_closed = partial(self._on_cut, call, socket)
        peer, request = self._machine.peer, call.request
        hello = Hello(
            OVERLAY,
            DIALECT.highest,
            peer.uid,
            peer.incarnation,
            peer,
            request.link_class,
            request.uid,
            call.serial,
            DIALECT.lowest,
            DIALECT.names,
        )
        socket.write(GREETINGS.encode(hello))
        if socket.ended:
            self._on_cut(call, socket)

    def _on_bytes(self, call: Call, socket: Socket, reader: FrameReader, data: bytes) -> None:
        if call.is_over:
            return
        reader.feed(data)
        found = reader.next_frame()
        if found is not None:
            self._on_answer(call, socket, GREETINGS.decode(found[1]), reader)

    def _on_answer(self, call: Call, socket: Socket, answer: object, reader: FrameReader) -> None:
        request, table = call.request, self._table
        link_class = request.link_class
        problem: tuple[Refused, str] | None = None
        agreed: Agreement | None = None
        if isinstance(answer, Refusal):
            problem = (answer.reason, answer.detail)
        else:
            assert isinstance(answer, Welcome)
            agreed = DIALECT.accept(answer.version, answer.capabilities)
            assert agreed is not None
            peer = answer.peer
            if request.uid not in (None, peer.uid):
                problem = (Refused.OTHER_PEER, "another broker listens there now")
            elif (refused := self._machine.admit(peer)) is not None:
                problem = (refused, "")
            elif not table.on_welcome(
                peer.uid, link_class, answer.serial, peer.incarnation, call=call.number
            ):
                problem = (Refused.DUPLICATE, "")
        if problem is not None:
            self._fail(call, *problem)
            if agreed is not None and problem[0] is Refused.DUPLICATE:
                self._decline(socket, agreed.version)
            else:
                socket.close()
            return
        assert isinstance(answer, Welcome)
        assert agreed is not None
        call.is_over = True
        self._links.run(answer.peer, request.url, link_class, socket, reader, agreed)

    def _decline(self, socket: Socket, version: int) -> None:
        """Do without a link that the other end has made, as its own call has won meanwhile."""
        socket.write(self._codec.encode(Goodbye(Closed.REPLACED), version))
        socket.on_bytes = _ignore
        socket.on_closed = socket.close
        self._process.later(self._now() + DECLINE_NS, socket.close)
        if socket.ended:
            socket.close()

    # ── calls that lead nowhere ───────────────────────────────────────────────────────────────

    def _time_out(self, call: Call) -> None:
        if not call.is_over:
            if call.socket is not None:
                call.socket.close()
            self._fail(call, self._unless_called(call, Refused.TIMEOUT), "no answer in time")

    def _on_refused(self, call: Call) -> None:
        if not call.is_over:
            self._fail(call, self._unless_called(call, Refused.UNREACHABLE), "refused")

    def _on_cut(self, call: Call, socket: Socket) -> None:
        """The connection was cut before the answer; its end may live all the same."""
        if call.is_over:
            return
        socket.close()
        call.socket = None
        if call.cuts < len(PAUSES_NS):
            call.cuts += 1
            pause = PAUSES_NS[call.cuts - 1]
            self._process.later(self._now() + pause, self._try_again, call)
        else:
            self._on_refused(call)

    def _try_again(self, call: Call) -> None:
        if self._is_calling(call):
            self._try(call)
        else:
            self._on_refused(call)

    def _is_calling(self, call: Call) -> bool:
        uid = call.request.uid
        return uid is None or self._table.is_calling(uid, call.request.link_class, call.number)

    def _unless_called(self, call: Call, reason: Refused) -> Refused:
        return reason if self._is_calling(call) else Refused.DUPLICATE

    def _fail(self, call: Call, reason: Refused, detail: str) -> None:
        call.is_over = True
        request, number = call.request, call.number
        if request.uid is not None and number is not None:
            self._table.call_ended(request.uid, request.link_class, number)
            if not self._table.is_calling(request.uid, request.link_class):
                self._links.stay(request.uid, request.link_class)
        self._refuse(request, reason, detail)

    def _refuse(self, request: OpenLink, reason: Refused, detail: str) -> None:
        self._give(LinkRefused(request.url, request.uid, reason, detail, request.link_class))

    def _now(self) -> Nanos:
        return self._process.timeline.now


class Acceptor:
    """Judges who calls, and hands brokers to the links and clients to the layer above."""

    def __init__(
        self,
        machine: Machine,
        table: LinkTable,
        links: Links,
        on_client: Callable[[Hello, Socket, FrameReader], None],
    ) -> None:
        self._machine = machine
        self._table = table
        self._links = links
        self._on_client = on_client

    def accept(self, socket: Socket) -> None:
        """Serve one incoming connection."""
        reader = FrameReader(MAX_CONTROL_BYTES)
        socket.on_bytes = partial(self._on_bytes, socket, reader)
        socket.on_closed = socket.close

    def _on_bytes(self, socket: Socket, reader: FrameReader, data: bytes) -> None:
        reader.feed(data)
        found = reader.next_frame()
        if found is None:
            return
        hello = GREETINGS.decode(found[1])
        if not isinstance(hello, Hello):
            raise ProtocolError("no greeting")
        agreed = judge_hello(hello, overlay=OVERLAY, own_uid=self._machine.peer.uid)
        refusal = agreed if isinstance(agreed, Refusal) else None
        if refusal is None and hello.peer is not None:
            refusal = self._judge_peer(hello, is_secure=socket.secure)
        if refusal is not None:
            socket.write(GREETINGS.encode(refusal))
            socket.close()
            return
        assert isinstance(agreed, Agreement)
        if hello.peer is None:
            reader.agree(agreed.version)
            self._on_client(hello, socket, reader)
            return
        serial = self._table.next_serial()
        welcome = Welcome(self._machine.peer, serial, agreed.version, DIALECT.names)
        peer = hello.peer
        self._links.run(peer, peer.url, hello.link_class, socket, reader, agreed, welcome)

    def _judge_peer(self, hello: Hello, *, is_secure: bool) -> Refusal | None:
        assert hello.peer is not None
        if hello.link_class.is_secret and not is_secure:
            return Refusal(Refused.NOT_AUTHENTICATED, "a secure link needs TLS")
        refused = self._machine.admit(hello.peer)
        if refused is not None:
            return Refusal(refused, "")
        link = self._links.up.get((hello.uid, hello.link_class))
        if (
            hello.expected is None
            and link is not None
            and link.peer.incarnation == hello.incarnation
        ):
            return Refusal(Refused.DUPLICATE, "there is a link already")
        if not self._table.on_hello(hello.uid, hello.link_class, hello.serial, hello.incarnation):
            return Refusal(Refused.DUPLICATE, "")
        return None


def _ignore(data: bytes) -> None:
    pass
