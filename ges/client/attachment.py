"""A client's connection to its broker, on trio: find one, hold it, find another when it is lost.

What is done with whatever the broker says is decided in :mod:`ges.client.core`.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Awaitable, Callable

import trio

from ges.client.certified import HANDSHAKE_SECONDS, stay_certified
from ges.client.core import QUEUE_BYTES, ClientCore
from ges.client.gaps import Gap
from ges.client.loop import Loop, T
from ges.client.search import BrokerSearch
from ges.client.waiting import KEPT_BYTES, Waiting
from ges.client.wish import Wish
from ges.errors import ConnectionLost
from overlay.address import Address, parse_url
from overlay.errors import ConnectionFailed, ProtocolError
from overlay.net.connection import BROKEN, Connection
from overlay.net.tls_stream import TlsStream
from overlay.net.transport import CLOSE_SECONDS, MakeTransport, TcpTransport, Wire, close
from overlay.security.identity import PeerIdentity

__all__ = ["KEPT_BYTES", "TRIO", "Attachment"]


async def _within(seconds: float, what: Callable[[], Awaitable[T]]) -> T | None:
    with trio.move_on_after(seconds):
        return await what()
    return None


TRIO = Loop(event=trio.Event, let_others=trio.lowlevel.checkpoint, sleep=trio.sleep, within=_within)


class Attachment(Waiting):
    """The present connection, whatever broker it is to. ``run`` keeps it."""

    def __init__(
        self,
        wish: Wish,
        rng: random.Random,
        transport: MakeTransport = TcpTransport,
        on_gap: Callable[[Gap], None] | None = None,
    ) -> None:
        self._transport = transport(wish.identity)
        credentials = self._transport.credentials
        revocations = credentials.revocations if credentials is not None else None
        super().__init__(wish, ClientCore(wish, revocations, on_gap), TRIO, rng)
        self._search = BrokerSearch(wish, self._transport, rng)
        self._stream: trio.abc.Stream | None = None  #: of the present connection
        self._is_over = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Attach, and attach again whenever the broker is lost.

        Raises:
            ConnectionLost: no broker takes us in time, or the only one is lost.
        """
        core, state = self.core, self.core.state
        is_first = True
        try:
            while True:
                found = await self._search.find(state.choices, state.unusable, is_first=is_first)
                address, wire, reader, attached = found
                connection = Connection(
                    wire.stream, secure=attached.secure, limit_bytes=QUEUE_BYTES
                )
                connection.on_part = lambda: state.keepalive.heard(trio.current_time())
                now = trio.current_time()
                core.attach(address.url, attached, reader, connection, now, time.time_ns())
                if is_first:
                    is_first = False
                    task_status.started()
                await self._serve(wire, connection)
                if core.is_closed:
                    return
                core.lose()
                if not self.wish.reattach:
                    raise ConnectionLost(f"{state.lost_url}: the broker is gone")
                await trio.sleep(self.pause_after_loss(now, trio.current_time()))
        except ConnectionLost as error:
            core.give_up(error)
            raise
        finally:
            self._is_over.set()

    async def part(self) -> None:
        """Say to the broker that nothing more comes, and wait until it has closed its end."""
        stream = self._stream
        below = stream.transport_stream if isinstance(stream, TlsStream) else stream
        if isinstance(below, trio.abc.HalfCloseableStream):
            with contextlib.suppress(*BROKEN), trio.move_on_after(CLOSE_SECONDS):
                await below.send_eof()
                await self._is_over.wait()

    async def _serve(self, wire: Wire, connection: Connection) -> None:
        """Read, write and keep alive until the connection breaks or falls silent."""
        self._stream = wire.stream
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, connection, nursery.cancel_scope)
                nursery.start_soon(self._keep_alive, nursery.cancel_scope)
                if wire.identity is not None:
                    nursery.start_soon(self._stay_certified, wire.identity, nursery.cancel_scope)
                await self._read(connection)
                nursery.cancel_scope.cancel()
        finally:
            connection.abort()
            await close(wire.stream)

    async def _write(self, connection: Connection, scope: trio.CancelScope) -> None:
        with contextlib.suppress(*BROKEN):
            await connection.write_forever()
        scope.cancel()

    async def _read(self, connection: Connection) -> None:
        core = self.core
        with contextlib.suppress(*BROKEN, ProtocolError):
            core.read_on(trio.current_time())
            while data := await connection.receive(core.appetite):
                core.receive(data, trio.current_time())

    async def _keep_alive(self, scope: trio.CancelScope) -> None:
        while True:
            await trio.sleep(self.state.keepalive.pause(trio.current_time()))
            if self.core.is_silent(trio.current_time()):
                scope.cancel()
                return

    async def _stay_certified(self, broker: PeerIdentity, scope: trio.CancelScope) -> None:
        credentials, address = self._transport.credentials, parse_url(self.state.url)
        assert credentials is not None
        await stay_certified(credentials, broker, lambda: self._shake_hands(address), trio.sleep)
        scope.cancel()

    async def _shake_hands(self, address: Address) -> PeerIdentity | None:
        with trio.move_on_after(HANDSHAKE_SECONDS):
            with contextlib.suppress(ConnectionFailed, ProtocolError, *BROKEN):
                wire = await self._transport.connect(address)
                try:
                    return wire.identity
                finally:
                    await close(wire.stream)
        return None
