"""TLS over a TCP connection of trio's, whose bytes can be had without waiting.

As a stream it is what ``trio.SSLStream`` is. Beside that it is
:class:`~overlay.net.tls_bytes.TlsBytes`: :mod:`overlay.net.connection` reads and writes the socket
itself, as it does a plain one.
"""

from __future__ import annotations

import ssl

import trio

from overlay.net.tls_bytes import AT_ONCE_BYTES, RECORD_BYTES, TlsBytes
from overlay.wire.frames import Bytes

__all__ = ["AT_ONCE_BYTES", "RECORD_BYTES", "TlsStream"]


class TlsStream(TlsBytes, trio.abc.Stream):
    """One end of a TLS connection.

    All methods raise ``trio.BrokenResourceError`` where TLS fails; why is its cause.
    """

    broken = trio.BrokenResourceError

    def __init__(
        self, transport_stream: trio.SocketStream, context: ssl.SSLContext, *, server_side: bool
    ) -> None:
        """``server_side``: this end was called."""
        super().__init__(context, server_side=server_side)
        self.transport_stream = transport_stream

    async def do_handshake(self) -> None:
        """Agree with the other end; to be done before all else.

        Raises:
            trio.BrokenResourceError: they do not agree.
        """
        while True:
            is_done, to_send = self.shake_hands()
            if to_send:
                await self.transport_stream.send_all(to_send)
            if is_done:
                return
            self.put(await self.transport_stream.receive_some())

    async def send_all(self, data: Bytes) -> None:
        """Seal ``data`` and send it.

        Raises:
            trio.BrokenResourceError: the connection has failed.
            trio.ClosedResourceError: it was closed here.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        await self.transport_stream.send_all(b"".join(self.seal(data)))

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the stream below may have room."""
        await self.transport_stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return the next bytes, unsealed; empty when the other end has closed.

        Raises:
            trio.BrokenResourceError: the connection has failed.
            trio.ClosedResourceError: it was closed here.
        """
        await trio.lowlevel.checkpoint()
        while not self.is_over:
            data = self.read(max_bytes if max_bytes is not None else RECORD_BYTES)
            if data or self.is_over:
                return data
            self.put(await self.transport_stream.receive_some())
        return b""

    async def aclose(self) -> None:
        """Close the stream below, without a word of farewell in TLS."""
        await self.transport_stream.aclose()
