"""Taking calls: a stranger has little time and little memory to show that it is one of ours."""

from __future__ import annotations

import contextlib
from collections import Counter

import structlog
import trio

from overlay.codec import MAX_CONTROL_BYTES, FrameReader
from overlay.connection import BROKEN
from overlay.errors import ProtocolError
from overlay.greeting import read_greeting
from overlay.handshake import GREETINGS, Hello, LinkTable, Refusal, Welcome, judge_hello
from overlay.identity import PeerIdentity, Role
from overlay.ids import LinkClass
from overlay.link import Upper
from overlay.link_life import Links
from overlay.machine import Machine, Refused
from overlay.transport import Transport, Wire, close

HANDSHAKE_SECONDS = 2.0  #: for a stranger to become a peer or a client
MAX_STRANGERS = 512  #: connections that have not greeted yet
MAX_CONNECTIONS = 8192


class Acceptor:
    """Judges who calls, and hands brokers to the links and clients to the layer above."""

    def __init__(
        self,
        machine: Machine,
        transport: Transport,
        table: LinkTable,
        links: Links,
        upper: Upper,
        *,
        overlay: str,
        counters: Counter[str],
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self._machine = machine
        self._transport = transport
        self._table = table
        self._links = links
        self._upper = upper
        self._overlay = overlay
        self._counters = counters
        self._log = log
        self._strangers = 0
        self._connections = 0

    async def accept(self, stream: trio.abc.Stream) -> None:
        """Serve one incoming connection; whatever it does, nobody else notices."""
        if self._strangers >= MAX_STRANGERS or self._connections >= MAX_CONNECTIONS:
            self._counters["connections_turned_away"] += 1
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
            self._counters["strangers_dropped"] += 1
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
        own = self._machine.peer
        if not isinstance(hello, Hello):
            self._counters["strangers_dropped"] += 1
            return
        refusal = judge_hello(hello, overlay=self._overlay, own_uid=own.uid)
        if refusal is None:
            refusal = _judge_identity(hello, wire.identity)
        if refusal is None and hello.peer is not None:
            refused = self._machine.admit(hello.peer)
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
            await self._links.run(
                hello.peer, hello.peer.url, hello.link_class, wire, reader, welcome
            )

    def _is_blind_duplicate(self, hello: Hello) -> bool:
        """Say whether the caller does not know that it is linked to whom it calls.

        It may have got our address under another name, from its seeds. One that has lost its link
        to us would say whom it expects, or come in another incarnation.
        """
        link = self._links.up.get((hello.uid, hello.link_class))
        return (
            hello.expected is None
            and link is not None
            and link.peer.incarnation == hello.incarnation
        )

    async def _reply(self, wire: Wire, data: bytes) -> None:
        with trio.move_on_after(HANDSHAKE_SECONDS):
            with contextlib.suppress(*BROKEN):
                await wire.stream.send_all(data)


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
