"""A connection of the admin server, and what it may cost.

Hypercorn shields what it sends from cancellation, and waits for ever for a client that does not
read. Here a write has its time, and :meth:`BoundedStream.cut` ends it from outside.
"""

from __future__ import annotations

import trio

READ_BYTES = 4096  #: taken in at a time
SEND_SECONDS = 5.0  #: for what is sent to be taken


class BoundedStream(trio.abc.HalfCloseableStream):
    """One accepted connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self.socket = stream.socket  #: hypercorn asks it for the addresses of both ends

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send, within SEND_SECONDS.

        Raises:
            trio.BrokenResourceError: the other end is gone, or does not read.
        """
        with trio.move_on_after(SEND_SECONDS) as scope:
            await self._stream.send_all(data)
        if scope.cancelled_caught:
            self.cut()
            raise trio.BrokenResourceError("the other end does not read")

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until something can be sent."""
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive a little; empty: the other end has ended."""
        return bytes(await self._stream.receive_some(min(max_bytes or READ_BYTES, READ_BYTES)))

    async def send_eof(self) -> None:
        """Send no more."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    def cut(self) -> None:
        """Close the connection now; whoever waits for it is told."""
        self.socket.close()
