"""TLS as a matter of bytes: what came is turned into what it says, and what is said into bytes.

No I/O and no waiting: an event loop's connection hands in what its socket has brought, and sends
what it is given. So all of them speak TLS by the same code, with no task switch for each record of
16 KiB. Cryptography, certificates and checks are those of :mod:`ssl`, between two buffers in
memory.

An end without TLS's own farewell counts as one, as it does on a plain connection: our frames say
how long they are, so a cut one is noticed, and nobody waits for the other end to say good-bye.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator

from overlay.wire.frames import Bytes

RECORD_BYTES = 16 * 1024  #: in one TLS record at most
AT_ONCE_BYTES = 64 * 1024  #: sealed or unsealed; TLS keeps that much memory for each connection


class TlsBytes:
    """One end of a TLS connection, without the connection.

    All methods raise :attr:`broken` where TLS fails; why is its cause.
    """

    broken: type[Exception] = ConnectionError

    def __init__(self, context: ssl.SSLContext, *, server_side: bool) -> None:
        """``server_side``: this end was called."""
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        #: What was agreed; neither read nor write it.
        self.session = context.wrap_bio(self._received, self._to_send, server_side=server_side)
        self.is_over = False  #: the other end sends no more

    def shake_hands(self) -> tuple[bool, bytes]:
        """Go on with the handshake; returns whether it is done, and what is to be sent first.

        While it is not done, :meth:`put` what the other end answers, and go on.
        """
        is_done = True
        try:
            self.session.do_handshake()
        except ssl.SSLWantReadError:
            is_done = False
        except ssl.SSLError as error:
            raise self.broken from error
        return is_done, self._to_send.read()

    def put(self, received: Bytes) -> None:
        """Take what has come from the socket; nothing: it will bring no more."""
        if received:
            self._received.write(received)
        else:
            self._received.write_eof()

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
            raise self.broken from error

    def unseal(self, received: bytes = b"") -> bytes:
        """Return what is in bytes that were received, the next ones each time; may be nothing."""
        parts: list[bytes] = []
        view = memoryview(received)
        for start in range(0, max(1, len(view)), AT_ONCE_BYTES):
            self._received.write(view[start : start + AT_ONCE_BYTES])
            while self.has_more and (part := self.read(RECORD_BYTES)):
                parts.append(part)
        return b"".join(parts)

    def read(self, most: int) -> bytes:
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
            raise self.broken from error
        self.is_over = not data
        return data
