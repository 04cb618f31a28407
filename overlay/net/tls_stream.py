"""TLS over a TCP connection, whose bytes can be had without waiting.

As a stream it is what ``trio.SSLStream`` is. Beside that, :meth:`TlsStream.seal` and
:meth:`TlsStream.unseal` turn bytes into those that go over the socket and back, and do no I/O:
:mod:`overlay.net.connection` reads and writes the socket itself, as it does a plain one, with no
task switch for each record of 16 KiB.

An end without TLS's own farewell counts as one, as it does on a plain connection: our frames say
how long they are, so a cut one is noticed, and nobody waits for the other end to say good-bye.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import trio

from overlay.wire.frames import Bytes

RECORD_BYTES = 16 * 1024  #: in one TLS record at most
AT_ONCE_BYTES = 64 * 1024  #: sealed or unsealed; TLS keeps that much memory for each connection


class TlsStream(trio.abc.Stream):
    """One end of a TLS connection.

    All methods raise ``trio.BrokenResourceError`` where TLS fails; why is its cause.
    """

    def __init__(
        self, transport_stream: trio.SocketStream, context: ssl.SSLContext, *, server_side: bool
    ) -> None:
        """``server_side``: this end was called."""
        self.transport_stream = transport_stream
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        #: What was agreed; neither read nor write it.
        self.session = context.wrap_bio(self._received, self._to_send, server_side=server_side)
        self.is_over = False  #: the other end sends no more

    async def do_handshake(self) -> None:
        """Agree with the other end; to be done before all else.

        Raises:
            trio.BrokenResourceError: they do not agree.
        """
        while True:
            is_done = True
            try:
                self.session.do_handshake()
            except ssl.SSLWantReadError:
                is_done = False
            except ssl.SSLError as error:
                raise trio.BrokenResourceError from error
            if self._to_send.pending:
                await self.transport_stream.send_all(self._to_send.read())
            if is_done:
                return
            self._put(await self.transport_stream.receive_some())

    # ── without waiting ───────────────────────────────────────────────────────────────────────

    @property
    def has_more(self) -> bool:
        """Something that came from the socket is not unsealed yet."""
        return bool(self._received.pending or self.session.pending())

    def seal(self, item: Bytes) -> Iterator[bytes]:
        """Yield what is to be sent for ``item``, after all that was yielded before."""
        view = memoryview(item)
        try:
            for start in range(0, len(view), AT_ONCE_BYTES):
                part = view[start : start + AT_ONCE_BYTES]
                while part:
                    part = part[self.session.write(part) :]
                yield self._to_send.read()
        except ssl.SSLError as error:
            raise trio.BrokenResourceError from error

    def unseal(self, received: bytes = b"") -> bytes:
        """Return what is in bytes that were received, the next ones each time; may be nothing."""
        parts: list[bytes] = []
        view = memoryview(received)
        for start in range(0, max(1, len(view)), AT_ONCE_BYTES):
            self._received.write(view[start : start + AT_ONCE_BYTES])
            while self.has_more and (part := self._read(RECORD_BYTES)):
                parts.append(part)
        return b"".join(parts)

    # ── as a stream ───────────────────────────────────────────────────────────────────────────

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
            data = self._read(max_bytes if max_bytes is not None else RECORD_BYTES)
            if data or self.is_over:
                return data
            self._put(await self.transport_stream.receive_some())
        return b""

    async def aclose(self) -> None:
        """Close the stream below, without a word of farewell in TLS."""
        await self.transport_stream.aclose()

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _put(self, received: bytes | bytearray) -> None:
        if received:
            self._received.write(received)
        else:
            self._received.write_eof()

    def _read(self, most: int) -> bytes:
        """Return what is in one record; empty if more must come first, or it is over."""
        try:
            data = self.session.read(most)
        except ssl.SSLWantReadError:
            return b""
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self.is_over = True
            return b""
        except ssl.SSLError as error:
            self.is_over = True
            raise trio.BrokenResourceError from error
        self.is_over = not data
        return data
