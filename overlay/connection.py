"""One connection with its outgoing queue.

Nothing on the path of an event switches tasks or calls the kernel: :meth:`Connection.send` appends
to the queue, and one writer task sends all that has gathered in a single write; one reader task
takes what the kernel has, however many frames that is. Coalescing of this kind decides between some
50,000 and some 800,000 events a second.
"""

from __future__ import annotations

import math
import ssl

import trio

READ_BYTES = 256 * 1024
WRITE_BYTES = 256 * 1024  #: at most this much in one write, so that a close need not wait long
FINISH_SECONDS = 2.0  #: what is queued may take that long when the connection is closed

#: What an I/O error of a connection looks like, whatever the transport.
BROKEN = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError)


class Connection:
    """A byte stream with a bounded queue in front of it."""

    def __init__(self, stream: trio.abc.Stream, *, secure: bool, limit_bytes: int) -> None:
        self.stream = stream
        self.secure = secure  #: runs over TLS
        self.queued_bytes = 0
        self.sent_bytes = 0  #: taken by the kernel so far
        self.overflowed = False
        self.closed_by = math.inf  #: trio's time at which it is closed, finished or not
        self._limit = limit_bytes
        self._queue: list[bytes] = []
        self._parked = False
        self._wake = trio.Event()
        self._closing = False
        self._writing = trio.CancelScope()
        self._room = trio.Event()
        self._room.set()

    @property
    def cipher(self) -> str | None:
        """TLS version and cipher suite; None on a plain connection."""
        if not isinstance(self.stream, trio.SSLStream):
            return None
        suite = self.stream.cipher()
        return f"{suite[1]} {suite[0]}" if suite else None

    @property
    def crowded(self) -> bool:
        """More than half of the queue's limit waits; who can should hold back."""
        return self.queued_bytes * 2 > self._limit

    def send(self, *parts: bytes) -> None:
        """Queue ``parts``, in order. Beyond the limit the connection is given up, not the order."""
        if self._closing:
            return
        for part in parts:
            self.queued_bytes += len(part)
        if self.queued_bytes > self._limit:
            self.overflowed = True
            self.abort()
            return
        self._queue += parts
        if self._parked:
            self._parked = False
            self._wake.set()

    async def room(self) -> None:
        """Wait until the queue is no longer crowded, or the connection is closing."""
        while self.crowded and not self._closing:
            if self._room.is_set():
                self._room = trio.Event()
            await self._room.wait()

    def finish(self, seconds: float = FINISH_SECONDS) -> None:
        """Close after what is queued has been sent, if the other end takes it in time."""
        self._closing = True
        self.closed_by = self._writing.deadline = trio.current_time() + seconds
        self._wake.set()
        self._room.set()

    def abort(self) -> None:
        """Close now, dropping what is queued."""
        self._queue.clear()
        self.queued_bytes = 0
        self.finish()
        self._writing.cancel()

    async def write_forever(self) -> None:
        """Send what is queued until :meth:`finish`; raises one of :data:`BROKEN` on failure."""
        with self._writing:
            while self._queue or not self._closing:
                if self._queue:
                    await self._write()
                else:
                    self._parked = True
                    self._wake = trio.Event()
                    await self._wake.wait()
                    self._parked = False

    async def _write(self) -> None:
        queue = self._queue
        taken = 0
        size = 0
        for part in queue:
            size += len(part)
            taken += 1
            if size >= WRITE_BYTES:
                break
        batch = b"".join(queue[:taken])
        del queue[:taken]
        await self.stream.send_all(batch)
        self.queued_bytes = max(0, self.queued_bytes - size)
        self.sent_bytes += size
        if not self._room.is_set() and not self.crowded:
            self._room.set()

    async def receive(self) -> bytes | bytearray:
        """Return bytes as they come; empty once the other end has closed."""
        return await self.stream.receive_some(READ_BYTES)
