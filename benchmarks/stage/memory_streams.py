"""A network in memory, for tests that run the trio driver in virtual time.

Streams deliver after a latency, in order; a broken one reads as closed at the other end after the
same latency, one that is cut at once, without what was under way. A link may have a rate, too: then
its sender waits while it carries what is sent. Both are asked for again with each write, so a test
may change them as it goes. With
``trio.testing.MockClock`` a run takes no real time and has no jitter.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable

import trio

from overlay.address import Address
from overlay.errors import ConnectionFailed
from overlay.ids import NANOS_PER_SECOND, Nanos
from overlay.net.transport import Wire

Handler = Callable[[trio.abc.Stream], Awaitable[None]]


class MemoryNetwork:
    """Connects the transports made by :meth:`transport`, by URL."""

    def __init__(
        self,
        one_way_ns: Callable[[str, str], Nanos],
        rate: Callable[[str, str], float] | None = None,
    ) -> None:
        """Take the latency between two URLs in nanoseconds, and the rate in bytes per second."""
        self._one_way_ns = one_way_ns
        self._rate = rate if rate is not None else _unlimited
        self._listening: dict[str, tuple[Handler, trio.Nursery]] = {}

    def transport(self, url: str) -> MemoryTransport:
        """Return the transport of the broker at ``url``."""
        return MemoryTransport(self, url)

    async def connect(self, caller: str, url: str) -> trio.abc.Stream:
        """Return a stream to ``url``, after one round trip."""
        await trio.sleep(2 * self._one_way_ns(caller, url) / NANOS_PER_SECOND)
        if url not in self._listening:
            raise ConnectionFailed(url, "connection refused")
        handler, nursery = self._listening[url]
        there, here = self._inbox(caller, url), self._inbox(url, caller)
        nursery.start_soon(handler, MemoryStream(there, here))
        return MemoryStream(here, there)

    def _inbox(self, sender: str, receiver: str) -> _Inbox:
        return _Inbox(
            lambda: self._one_way_ns(sender, receiver) / NANOS_PER_SECOND,
            lambda: self._rate(sender, receiver),
        )

    async def listen(self, url: str, handler: Handler, task_status: trio.TaskStatus[None]) -> None:
        """Take connections to ``url`` until cancelled."""
        async with trio.open_nursery() as nursery:
            self._listening[url] = (handler, nursery)
            try:
                task_status.started()
                await trio.sleep_forever()
            finally:
                del self._listening[url]


def _unlimited(sender: str, receiver: str) -> float:
    return math.inf


class MemoryTransport:
    """One broker's end of a :class:`MemoryNetwork`; a :class:`overlay.net.transport.Transport`."""

    def __init__(self, network: MemoryNetwork, url: str) -> None:
        self.on_no_more_files: Callable[[], None] = lambda: None
        self._network = network
        self._url = url

    async def connect(self, address: Address) -> Wire:
        """Return a stream to ``address``, after one round trip.

        Raises:
            ConnectionFailed: nobody listens there.
        """
        return Wire(await self._network.connect(self._url, address.url), None)

    async def serve(
        self,
        handler: Handler,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Hand every incoming stream to ``handler``, each in a task of its own."""
        await self._network.listen(self._url, handler, task_status)

    async def accept(self, stream: trio.abc.Stream) -> Wire:
        """Take the stream as it is: nobody speaks TLS in memory."""
        return Wire(stream, None)


class _Inbox:
    """What is on its way to one end; ``b""`` is the end of the stream."""

    def __init__(self, one_way: Callable[[], float], rate: Callable[[], float]) -> None:
        self.rate = rate
        self._one_way = one_way
        self._due: deque[tuple[float, bytes]] = deque()
        self._filled = trio.Event()
        self.closed = False
        self.is_deaf = False  #: what comes is lost

    def put(self, data: bytes) -> None:
        if self.is_deaf:
            return
        self._due.append((trio.current_time() + self._one_way(), data))
        self._filled.set()

    async def get(self) -> bytes:
        while True:
            while not self._due:
                self._filled = trio.Event()
                await self._filled.wait()
            entry = arrival, data = self._due[0]
            await trio.sleep_until(arrival)
            if self._due[0] is entry:
                if data:
                    self._due.popleft()
                return data

    def cut(self) -> None:
        """End here and now, without what is on its way."""
        self._due.clear()
        self._due.append((trio.current_time(), b""))
        self._filled.set()
        self.closed = True


class MemoryStream(trio.abc.Stream):
    """One end of a connection in memory."""

    def __init__(self, mine: _Inbox, theirs: _Inbox) -> None:
        self._mine = mine
        self._theirs = theirs

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send ``data``, as fast as the rate of the way allows; it arrives a latency later.

        Raises:
            trio.ClosedResourceError: this end is closed, or the connection was cut.
            trio.BrokenResourceError: the other end is closed.
        """
        await trio.sleep(len(data) / self._theirs.rate())
        if self._theirs.closed:
            raise trio.ClosedResourceError
        if self._mine.closed:
            raise trio.BrokenResourceError
        self._theirs.put(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        """Return at once: there is always room."""
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return what was sent in one piece, whatever ``max_bytes``; empty at the end."""
        return await self._mine.get()

    def cut(self) -> None:
        """Break the connection, for both ends at once; what is under way on it is lost."""
        self._mine.cut()
        self._theirs.cut()

    def swallow(self) -> None:
        """Let nothing come through any more, either way, though the connection seems to be up."""
        self._mine.is_deaf = self._theirs.is_deaf = True

    async def aclose(self) -> None:
        """Let the other end read what is under way, and then the end of the stream."""
        if not self._theirs.closed:
            self._theirs.put(b"")
            self._theirs.closed = True
        await trio.lowlevel.checkpoint()
