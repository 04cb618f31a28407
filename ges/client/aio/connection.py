"""One connection to a broker, under asyncio: its queue, TLS on it, and what has come.

As under trio, :meth:`Connection.send` appends to a queue and calls nothing: what gathers until the
event loop has its turn goes out in a few writes. The transport below keeps no queue of its own, but
for what the kernel did not take of the last write, so an express event still goes before all that
waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import cast

from ges.client.core import QUEUE_BYTES
from overlay.address import is_loopback
from overlay.ids import Nanos
from overlay.net.round_trip import one_way_us
from overlay.net.tls_bytes import TlsBytes
from overlay.queues.lanes import ExpressLane, NormalLane, Policy
from overlay.queues.outbox import Outbox
from overlay.queues.resend import Item
from overlay.security.identity import PeerIdentity
from overlay.wire.frames import Bytes

EXPRESS_QUEUE_BYTES = 4 * 1024 * 1024  #: beyond that the oldest express events go
HOLD_BYTES = 1024 * 1024  #: with so much in the queue, who can holds back
UNREAD_BYTES = 1024 * 1024  #: come, and not taken yet; then nothing more is read for a while
CLOSE_SECONDS = 1.0


class Connection(asyncio.Protocol):
    """A connection; made by :func:`ges.client.aio.calling.call`."""

    def __init__(self, tls: TlsBytes | None = None) -> None:
        self.tls = tls
        self.identity: PeerIdentity | None = None  #: of the broker, as certified; None: plain
        self.outbox = Outbox(
            NormalLane(QUEUE_BYTES, Policy.DISCONNECT), ExpressLane(EXPRESS_QUEUE_BYTES)
        )
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._closed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._come: deque[bytes] = deque()
        self._come_bytes = 0
        self._is_paused = False  #: nothing more is read for now
        self.on_part: Callable[[], None] = lambda: None  #: something came, if nothing whole yet
        self._arrived = asyncio.Event()
        self._failure: OSError | None = None
        self._is_ended = False  #: nothing more comes
        self._is_closing = False
        self._is_finishing = False  #: nothing more is sent behind what is queued
        self._is_full = False  #: the kernel takes no more for now
        self._is_due = False  #: writing has been asked for, or waits for the kernel

    # ── the queue ─────────────────────────────────────────────────────────────────────────────

    def send(self, item: Bytes, events: int = 0) -> None:
        """Queue whole frames; beyond the limit the connection is given up."""
        if self._is_closing or self._is_finishing:
            return
        lane = self.outbox.normal
        lane.put(item, events)
        if lane.size > lane.limit:
            self.abort()
        elif not self._is_due:
            self._ask_to_write()

    def send_again(self, items: Iterable[Item]) -> None:
        """Queue what an earlier connection has not brought over, however much it is."""
        for item, events in items:
            self.outbox.normal.put(item, events)
        if self.outbox and not self._is_due:
            self._ask_to_write()

    def send_express(self, item: bytearray, stamp_at: int) -> None:
        """Queue one express event before all that is not; see :mod:`overlay.queues.lanes`."""
        if self._is_closing or self._is_finishing:
            return
        self.outbox.express.put(item, stamp_at, _now())
        if not self._is_due:
            self._ask_to_write()

    @property
    def crowded(self) -> bool:
        """So much waits that who can should hold back."""
        return self.outbox.normal.size > HOLD_BYTES

    @property
    def queued_bytes(self) -> int:
        """Bytes that the kernel has not taken yet."""
        below = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return self.outbox.size + below

    async def room(self) -> None:
        """Wait until the queue is no longer crowded, or the connection is closing."""
        while self.crowded and not self._is_closing:
            self._room.clear()
            await self._room.wait()

    def _ask_to_write(self) -> None:
        self._is_due = True
        self._loop.call_soon(self._write)

    def _write(self) -> None:
        """Write what the kernel takes; what it does not take waits until it says so."""
        transport, outbox = self._transport, self.outbox
        assert transport is not None
        try:
            while outbox and not self._is_full and not self._is_closing:
                items = outbox.take(_now() if outbox.express else 0)
                if self.tls is not None:
                    items = [part for item in items for part in self.tls.seal(item)]
                transport.write(items[0] if len(items) == 1 else b"".join(items))
        except OSError as error:  # TLS cannot go on
            self._fail(error)
        self._is_due = self._is_full
        if self._is_finishing and not outbox and not transport.is_closing():
            transport.write_eof()  # the other end closes when it has read all
        if not self.crowded:
            self._room.set()

    # ── what has come ─────────────────────────────────────────────────────────────────────────

    async def shake_hands(self) -> None:
        """Agree with the other end on TLS; to be done before all else.

        Raises:
            OSError: they do not agree.
        """
        assert self.tls is not None
        assert self._transport is not None
        while True:
            is_done, to_send = self.tls.shake_hands()
            if to_send:
                self._transport.write(to_send)
            if is_done:
                return
            self.tls.put(await self._next())

    async def receive(self) -> bytes:
        """Return bytes as they come; empty once the other end has closed.

        Raises:
            OSError: the connection has failed.
        """
        tls = self.tls
        if tls is None:
            return await self._next()
        # What came with the end of the handshake, or a farewell:
        if (tls.has_more or tls.is_over) and ((data := tls.unseal()) or tls.is_over):
            return data
        while received := await self._next():
            if (data := tls.unseal(received)) or tls.is_over:
                return data
            self.on_part()
        return b""

    async def _next(self) -> bytes:
        """Return what the socket has brought; empty once it brings no more."""
        while not self._come:
            if self._failure is not None:
                raise self._failure
            if self._is_ended:
                return b""
            self._arrived.clear()
            await self._arrived.wait()
        data = self._come.popleft()
        self._come_bytes -= len(data)
        if self._is_paused and self._come_bytes < UNREAD_BYTES and not self._is_ended:
            assert self._transport is not None
            self._is_paused = False
            self._transport.resume_reading()
        return data

    # ── its end ───────────────────────────────────────────────────────────────────────────────

    def finish(self) -> None:
        """Close after what is queued has been sent, and the other end has closed, too."""
        if self._is_finishing or self._is_closing:
            return
        self._is_finishing = True
        if not self._is_due:
            self._ask_to_write()

    def abort(self) -> None:
        """Close now, dropping what is queued."""
        self._close()
        if self._transport is not None:
            self._transport.abort()

    async def part(self) -> None:
        """Say that nothing more comes, and wait until the other end closes, for a while."""
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.write_eof()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._closed.wait()

    async def aclose(self) -> None:
        """Close, with good manners if that is quick, and without if not."""
        self._close()
        assert self._transport is not None
        self._transport.close()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._closed.wait()
        finally:
            self._transport.abort()
        await self._closed.wait()

    def _close(self) -> None:
        self._is_closing = self._is_ended = True
        self.outbox.clear()
        self._room.set()
        self._arrived.set()

    def _fail(self, error: OSError) -> None:
        self._failure = error
        self.abort()

    # ── for the event loop ────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is up."""
        self._transport = cast("asyncio.Transport", transport)  # not every loop's is one by name
        self._transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        self._come.append(data)
        self._come_bytes += len(data)
        if self._come_bytes > UNREAD_BYTES and not self._is_paused and not self._is_closing:
            assert self._transport is not None
            self._is_paused = True
            self._transport.pause_reading()
        self._arrived.set()

    def pause_writing(self) -> None:
        """The kernel takes no more for now."""
        self._is_full = True

    def resume_writing(self) -> None:
        """The kernel has taken all."""
        self._is_full = False
        self._write()

    def eof_received(self) -> None:
        """The other end has closed; so do we."""
        self._is_ended = True
        self._arrived.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is down."""
        if isinstance(exc, OSError) and self._failure is None and not self._is_closing:
            self._failure = exc
        self._close()
        self._closed.set()

    # ── the other end ─────────────────────────────────────────────────────────────────────────

    @property
    def one_way_us(self) -> int:
        """Microseconds to the other end, by estimate; 0: the system does not say."""
        below = self._transport
        return one_way_us(below.get_extra_info("socket") if below is not None else None)

    @property
    def is_exposed(self) -> bool:
        """Others than this machine's users may read what goes over it."""
        if self.identity is not None or self._transport is None:
            return False
        remote = self._transport.get_extra_info("peername")
        return remote is not None and not is_loopback(remote[0])


def _now() -> Nanos:
    return time.monotonic_ns()
