"""One connection with its outgoing queue.

Nothing on the path of an event switches tasks or calls the kernel: :meth:`Connection.send` appends
to the queue, and all that has gathered is sent in a single write; one reader task takes what the
kernel has, however many frames that is. Coalescing of this kind decides between some 50,000 and
some 800,000 events a second.

A TCP connection, with TLS or without, is written to and read from without trio's streams in
between, which switch tasks at each call: at the end of a :class:`~overlay.net.turn.Turn` what the
kernel takes at once goes out at once, and only what it does not take waits for the writer's task.
"""

from __future__ import annotations

import math
import os
import ssl
import sys
from collections.abc import Callable, Iterable

import trio

from overlay.ids import NANOS_PER_SECOND, Nanos
from overlay.net.round_trip import one_way_us
from overlay.net.tls_stream import TlsStream
from overlay.net.turn import Turn
from overlay.queues.lanes import ExpressLane, NormalLane, Overflow, Policy
from overlay.queues.outbox import FINISH_SECONDS, WRITE_BYTES, Outbox
from overlay.queues.pace import Pace, crowd_bytes
from overlay.queues.resend import Item
from overlay.wire.codec import READ_BYTES
from overlay.wire.frames import Bytes

VECTOR_BYTES = 2048  #: items of that size are written as they are, smaller ones joined ...
JOINED_BYTES = 16 * 1024  #: ... and so are those of no more than that together
EXPRESS_QUEUE_BYTES = 4 * 1024 * 1024  #: beyond that the oldest express events go
CONNECTION_BYTES = 20 * 1024  #: of memory for a connection, with its tasks, while nothing waits
HOLD_SECONDS = 0.5  #: for at most so long at a time others hold back for a broker ...
HOLD_RATE = 1024 * 1024  #: ... that takes so many bytes a second, or more

#: What an I/O error of a connection looks like, whatever the transport.
BROKEN = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError)


class Connection:
    """A byte stream with a bounded queue in front of it."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        *,
        secure: bool,
        limit_bytes: int,
        policy: Policy = Policy.DISCONNECT,
        turn: Turn | None = None,
        write_bytes: int = WRITE_BYTES,
        pace: Pace | None = None,
    ) -> None:
        """Queue for ``stream``.

        Args:
            stream: what it is written to.
            secure: runs over TLS.
            limit_bytes: that may wait.
            policy: what becomes of events beyond that.
            turn: at whose end it is written to.
            write_bytes: go into one write, and express may have to wait for that.
            pace: of a subscriber at the other end; see :mod:`overlay.net.holding_back`.
        """
        self.stream = stream
        self.secure = secure  #: runs over TLS
        self.pace = pace  #: None: there is no subscriber at the other end
        self.overflowed = False
        self.is_torn = False  #: aborted amid a frame: nothing more can be said on it
        self.closed_by = math.inf  #: trio's time at which it is closed, finished or not
        self.sent_bytes = 0  #: taken by the kernel so far
        self.events = 0  #: queued so far
        self.outbox = Outbox(
            NormalLane(limit_bytes, policy), ExpressLane(min(limit_bytes, EXPRESS_QUEUE_BYTES))
        )
        self.on_part: Callable[[], None] = lambda: None  #: something came, if nothing whole yet
        self._hold_bytes = crowd_bytes(limit_bytes)
        self._patience = HOLD_SECONDS  #: for as long others hold back yet
        self._turn = turn
        self._write_bytes = write_bytes
        self._tls = stream if isinstance(stream, TlsStream) else None
        # Reading and writing a socket by its number is not to be had everywhere.
        below = _below(stream) if sys.platform != "win32" else None
        self._socket = below.socket if below is not None else None
        self._rest = memoryview(b"")  #: taken from the outbox, sealed, and not yet written
        self._failure: Exception | None = None  #: met in a turn, to be raised by the writer's task
        self._is_drained = True  #: the kernel had no more to read when last asked
        self._parked = False
        self._wake = trio.Event()
        self._closing = False
        self._is_over = False  #: nor is there anything more to acknowledge, once closing
        self._writing = trio.CancelScope()
        self._room = trio.Event()
        self._room.set()

    @property
    def cipher(self) -> str | None:
        """TLS version and cipher suite; None on a plain connection."""
        suite = self._tls.session.cipher() if self._tls is not None else None
        return f"{suite[1]} {suite[0]}" if suite else None

    @property
    def is_closing(self) -> bool:
        """Nothing more can be queued, but acknowledgements while the other end has yet to part."""
        return self._closing

    @property
    def queued_bytes(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return self.outbox.size + len(self._rest)

    @property
    def memory(self) -> int:
        """Bytes of memory that it takes, with what is queued."""
        return CONNECTION_BYTES + self.outbox.memory + len(self._rest)

    @property
    def has_express(self) -> bool:
        """Express events wait in the queue."""
        return bool(self.outbox.express)

    @property
    def fileno(self) -> int:
        """Of the socket underneath, for :mod:`overlay.net.precedence`; -1: there is none now.

        Not of one under TLS: what its stream has read ahead the kernel does not know of.
        """
        return self._socket.fileno() if self._socket is not None and self._tls is None else -1

    @property
    def one_way_us(self) -> int:
        """Microseconds to the other end: half the smallest round trip that the kernel has seen.

        0: it does not say.
        """
        below = _below(self.stream)
        return one_way_us(below.socket if below is not None else None)

    @property
    def crowded(self) -> bool:
        """So much waits that who can should hold back."""
        return self.outbox.normal.size + len(self._rest) > self._hold_bytes

    @property
    def pressed(self) -> bool:
        """A quarter of what may wait does: the policy of its queue may act soon."""
        return self.outbox.normal.size + len(self._rest) > self.outbox.normal.limit // 4

    def send(self, item: Bytes, events: int = 0) -> None:
        """Queue whole frames that hold so many events.

        Beyond the limit the policy decides what becomes of the connection, or of its oldest events.
        """
        if self._closing:
            return
        self.events += events
        lane = self.outbox.normal
        lane.put(item, events)
        waiting = lane.size + len(self._rest)
        if waiting > self._hold_bytes:
            if self._turn is not None:
                self._turn.crowded.add(self)
            if self.pace is not None and not self.pace.is_watched:
                self._earn(0)
            if waiting > lane.limit:
                self._make_room(lane)
        elif events and self.pace is not None and self._turn is not None:
            self._turn.fed.add(self)
        if self._parked:
            self._unpark()

    def send_again(self, items: Iterable[Item]) -> None:
        """Queue what an earlier connection has not brought over, however much it is."""
        for item, events in items:
            self.events += events
            self.outbox.normal.put(item, events)

    def send_ack(self, item: Bytes) -> None:
        """Queue an acknowledgement before all else; it replaces one that still waits."""
        if self._closing and self._is_over:
            return
        self.outbox.ack = item
        if self._parked:
            self._unpark()

    def send_quick(self, item: Bytes) -> None:
        """Queue a control frame before all else; it is lost where too many such frames wait."""
        if self._closing or not self.outbox.put_quick(item):
            return
        if self._parked:
            self._unpark()

    def go_on(self) -> None:
        """Send what had to wait for an acknowledgement."""
        if self._parked and self.outbox:
            self._unpark()

    def send_express(self, item: bytearray, stamp_at: int) -> None:
        """Queue one express event before all that is not; see :mod:`overlay.queues.lanes`."""
        if self._closing:
            return
        self.events += 1
        self.outbox.express.put(item, stamp_at, self._now())
        if self._parked:
            self._unpark()

    def _make_room(self, lane: NormalLane) -> None:
        try:
            lane.make_room(max(0, lane.limit - len(self._rest)))
        except Overflow:
            self.give_up()

    def give_up(self) -> None:
        """Close now, as the other end takes too little of what is queued for it."""
        self.overflowed = True
        self.abort()

    def _unpark(self) -> None:
        self._parked = False
        if self._turn is not None and self._turn.is_open and self._socket is not None:
            self._turn.note(self)
        else:
            self._wake.set()

    def _now(self) -> Nanos:
        return round(trio.current_time() * NANOS_PER_SECOND)

    async def room(self) -> None:
        """Wait until the queue is no longer crowded, or the connection is closing."""
        while self.crowded and not self._closing:
            if self._room.is_set():
                self._room = trio.Event()
            await self._room.wait()

    @property
    def may_hold(self) -> bool:
        """Whether :meth:`hold` would wait at all: its reader has earned time that is left."""
        return self._patience > 0

    async def hold(self) -> None:
        """Wait for room, but not for a broker that hardly takes anything.

        It earns the time that others wait for it by what it takes, so that they are held back to
        the speed of the slowest broker, but not below :data:`HOLD_RATE`.
        """
        began = trio.current_time()
        # Several may wait at a time, and each takes its time off: less than none may be left.
        with trio.move_on_after(max(0.0, self._patience)):
            await self.room()
        self._patience -= trio.current_time() - began

    def finish(self, seconds: float = FINISH_SECONDS, *, is_over: bool = True) -> None:
        """Close after what is queued has been sent, if the other end takes it in time.

        ``is_over``: else it is closed only after :meth:`end`, and acknowledges until then.
        """
        self._closing = self.outbox.is_last = True
        self._is_over = self._is_over or is_over
        self.closed_by = self._writing.deadline = trio.current_time() + seconds
        self._wake.set()
        self._room.set()

    def end(self) -> None:
        """There is nothing more to acknowledge."""
        self._is_over = True
        self._wake.set()

    def abort(self) -> None:
        """Close now, dropping what is queued, but for events of a stream: they are taken back."""
        self.is_torn = self.is_torn or bool(self._rest) or self.outbox.is_amid_frame
        if self.outbox.stream is None:
            self.outbox.clear()
        self._rest = memoryview(b"")
        self.finish()
        self._writing.cancel()

    # ── writing ───────────────────────────────────────────────────────────────────────────────

    def write_now(self) -> None:
        """Write what the kernel takes without waiting; the writer's task does the rest.

        Called at the end of a turn, for a connection whose writer is parked.
        """
        try:
            while self._write_some() and self.outbox:
                pass
        except BROKEN as error:
            self._failure = error  # the writer's task tells who needs to know
            self._wake.set()
            return
        if not self._room.is_set() and not self.crowded:
            self._room.set()
        if self.outbox or self._rest or self._closing:
            self._wake.set()
        else:
            self._parked = True

    async def write_forever(self) -> None:
        """Send what is queued until :meth:`finish`; raises one of :data:`BROKEN` on failure."""
        with self._writing:
            while self.outbox or self._rest or not (self._closing and self._is_over):
                if self._failure is not None:
                    raise self._failure
                if not self.outbox and not self._rest:
                    self._parked = True
                    self._wake = trio.Event()
                    await self._wake.wait()
                    self._parked = False
                elif self._socket is None:
                    await self._write_stream()
                elif self._write_some():
                    await trio.lowlevel.checkpoint()
                else:
                    await trio.lowlevel.wait_writable(self._socket)
                if not self._room.is_set() and not self.crowded:
                    self._room.set()

    def _write_some(self) -> bool:
        """Write once; False if the kernel takes no more for now, or there is nothing to write."""
        assert self._socket is not None
        if self._rest:
            items: list[Bytes] = [self._rest]
        else:
            # Express events alone are stamped with the time.
            now = self._now() if self.outbox.express else 0
            items = self.outbox.take(now, self._write_bytes)
            if not items:
                return False
            if len(items) > 1 and sum(map(len, items)) <= max(
                JOINED_BYTES, VECTOR_BYTES * len(items)
            ):
                items = [b"".join(items)]
            if self._tls is not None:
                items = [part for item in items for part in self._tls.seal(item)]
        size = len(items[0]) if len(items) == 1 else sum(map(len, items))
        written = 0
        try:
            written = os.writev(self._socket.fileno(), items)
        except BlockingIOError:
            pass
        finally:
            self._rest = memoryview(b"")
            if written < size:
                self._rest = _behind(items, written)
        self._earn(written)
        return written == size

    def _earn(self, written: int) -> None:
        self.sent_bytes += written
        if self.pace is None:
            self._patience = min(HOLD_SECONDS, self._patience + written / HOLD_RATE)
            return
        rest = len(self._rest)
        if not rest and not self.pace.is_watched:
            return  # as where the reader keeps up: it costs next to nothing
        waiting = self.outbox.normal.size + rest
        self.pace.took(written, self.outbox.taken, waiting, trio.current_time(), is_full=rest > 0)

    async def _write_stream(self) -> None:
        items = self.outbox.take(self._now(), self._write_bytes)
        self._rest = memoryview(items[0] if len(items) == 1 else b"".join(items))
        self._earn(0)
        await self.stream.send_all(self._rest)
        written, self._rest = len(self._rest), memoryview(b"")
        self._earn(written)

    # ── reading ───────────────────────────────────────────────────────────────────────────────

    async def receive(self, most: int = READ_BYTES) -> bytes | bytearray:
        """Return up to ``most`` bytes as they come; empty once the other end has closed."""
        tls = self._tls
        if self._socket is None:
            return await self.stream.receive_some(most)
        if tls is not None and (tls.has_more or tls.is_over):
            # What was read before there was a connection, or what came with a farewell.
            await trio.lowlevel.checkpoint()
            if (data := tls.unseal()) or tls.is_over:
                return data
        while True:
            if self._is_drained:
                if self._socket.fileno() < 0:  # trio would remember that this task waits for it
                    raise trio.ClosedResourceError("this connection was closed here")
                await trio.lowlevel.wait_readable(self._socket)
            else:
                await trio.lowlevel.checkpoint()
            try:
                data = os.read(self._socket.fileno(), most)
            except BlockingIOError:
                self._is_drained = True
                continue
            self._is_drained = 0 < len(data) < most
            if data and tls is not None:
                data = tls.unseal(data)
                if not data and not tls.is_over:
                    self.on_part()  # the record has only begun
                    continue
            return data


def _below(stream: trio.abc.Stream) -> trio.SocketStream | None:
    """Return the TCP connection under a stream, if there is one."""
    if isinstance(stream, TlsStream):
        return stream.transport_stream
    return stream if isinstance(stream, trio.SocketStream) else None


def _behind(items: list[Bytes], written: int) -> memoryview:
    """Return what is left of items of which so many bytes are written."""
    for index, item in enumerate(items):
        if written < len(item):
            rest = items[index:]
            return memoryview(item if len(rest) == 1 else b"".join(rest))[written:]
        written -= len(item)
    return memoryview(b"")
