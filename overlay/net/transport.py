"""Where streams come from: TCP, and TLS over it. Everything that opens a socket is here."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Protocol

import trio

from overlay.address import Address, is_loopback
from overlay.errors import (
    ConfigError,
    ConnectionFailed,
    NoTlsError,
    ProtocolError,
    UntrustedError,
)
from overlay.net.call_failures import (
    first_errno,
    no_identity,
    no_tls,
    not_reached,
    tls_reason,
)
from overlay.net.connection import BROKEN
from overlay.net.tls_stream import TlsStream
from overlay.security.credentials import Credentials
from overlay.security.identity import Identity, PeerIdentity, Role
from overlay.security.tls_handshake import require_role

TLS_FIRST_BYTE = 0x16  # a TLS handshake record; no frame of ours is long enough to start so
CLOSE_SECONDS = 1.0
EXHAUSTED_SECONDS = 0.1  #: to wait before the next connection is taken, when files have run out

#: Errors of accept() that say that the process or the system has no room at the moment.
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Wire:
    """A fresh stream, and who is certified to be at its other end; None: plain."""

    __slots__ = ("identity", "port", "remote", "stream")

    def __init__(
        self,
        stream: trio.abc.Stream,
        identity: PeerIdentity | None,
        remote: str | None = None,
        port: int | None = None,
    ) -> None:
        self.stream = stream
        self.identity = identity
        self.remote = remote  #: IP address of the other end; None: there is none
        self.port = port  #: of the other end

    @property
    def is_exposed(self) -> bool:
        """Others than this machine's users may read what goes over it."""
        return self.identity is None and self.remote is not None and not is_loopback(self.remote)


class Transport(Protocol):
    """Makes streams to other brokers, and takes those that others make."""

    on_no_more_files: Callable[[], None]  #: called when a connection cannot be taken for that

    async def connect(self, address: Address) -> Wire:
        """Return a stream to ``address``.

        Raises:
            ConnectionFailed: nobody there, or TLS does not come about; the reason is for people.
        """

    async def serve(
        self,
        handler: Callable[[trio.abc.Stream], Awaitable[None]],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Hand every incoming stream to ``handler``, each in a task of its own."""

    async def accept(self, stream: trio.abc.Stream) -> Wire:
        """Find out how the caller speaks, and finish TLS with it if so.

        Raises:
            NoTlsError: it speaks TLS and we do not, or not as we do.
            UntrustedError: its certificate is not of this overlay, or it has none.
        """


class ProcessTransport(Transport, Protocol):
    """A transport that a whole process has: it opens its port, and may know TLS."""

    credentials: Credentials | None  #: for TLS; they may change meanwhile

    async def listen(self, host: str, port: int) -> int:
        """Open the port; returns which, as port 0 picks a free one.

        Raises:
            ConfigError: the address is in use, not ours, or not to be resolved.
        """


#: Makes the transport of a process from the identity that it shows to others; None: plain only.
MakeTransport = Callable[[Identity | None], ProcessTransport]


class TcpTransport:
    """TCP and TLS on one port: the first byte a caller sends says which."""

    def __init__(self, identity: Identity | None) -> None:
        """Take the identity to show to others; None: plain TCP only.

        Raises:
            IdentityError: its files no longer load.
        """
        self.on_no_more_files: Callable[[], None] = lambda: None
        self._listeners: list[trio.SocketListener] = []
        self.credentials: Credentials | None = None  #: for TLS; they may change meanwhile
        if identity is not None:
            self.credentials = Credentials(identity)

    async def listen(self, host: str, port: int) -> int:
        """Open the port; returns which, as port 0 picks a free one.

        Raises:
            ConfigError: the address is in use, not ours, or not to be resolved.
        """
        try:
            self._listeners = await trio.open_tcp_listeners(port, host=host)
        except socket.gaierror as error:
            raise ConfigError(f"cannot listen on {host}: {error.strerror}") from error
        except OSError as error:
            code = first_errno(error)
            if code == errno.EADDRINUSE:
                mend = "another process listens there; choose another port, or 0 for a free one"
                raise ConfigError(f"cannot listen on {host}:{port}: {mend}") from error
            text = os.strerror(code) if code else str(error)
            if code == errno.EADDRNOTAVAIL:
                text += "; give an address of this machine"
            raise ConfigError(f"cannot listen on {host}:{port}: {text}") from error
        bound: int = self._listeners[0].socket.getsockname()[1]
        return bound

    async def serve(
        self,
        handler: Callable[[trio.abc.Stream], Awaitable[None]],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Hand every incoming stream to ``handler``, each in a task of its own."""
        task_status.started()
        async with trio.open_nursery() as nursery:
            for listener in self._listeners:
                nursery.start_soon(self._serve_one, listener, handler, nursery)

    async def _serve_one(
        self,
        listener: trio.SocketListener,
        handler: Callable[[trio.abc.Stream], Awaitable[None]],
        nursery: trio.Nursery,
    ) -> None:
        """Take connections for ever; being out of descriptors passes, so it is waited out."""
        async with listener:
            while True:
                try:
                    stream = await listener.accept()
                except OSError as error:
                    if error.errno not in _EXHAUSTED:
                        raise
                    self.on_no_more_files()
                    await trio.sleep(EXHAUSTED_SECONDS)
                    continue
                nursery.start_soon(_handle, handler, stream)

    async def connect(self, address: Address) -> Wire:
        """Return a stream to ``address``, through TLS if it says so.

        Raises:
            ConnectionFailed: nobody there, TLS does not come about, or who is there is no broker of
                this overlay; the reason is for people.
        """
        try:
            stream = await _open(address.host, address.port)
        except OSError as error:
            raise not_reached(address, error) from error
        if not address.tls:
            return Wire(stream, None, *remote_end(stream))
        try:
            return await self._connect_tls(stream, address)
        except BROKEN as error:
            raise no_tls(address, error) from error
        except ProtocolError as error:
            raise ConnectionFailed(address.url, str(error), is_final=True) from error

    async def _connect_tls(self, stream: trio.SocketStream, address: Address) -> Wire:
        credentials = self.credentials
        if credentials is None:
            await trio.aclose_forcefully(stream)
            raise no_identity(address)
        secured = TlsStream(stream, credentials.client_context, server_side=False)
        try:
            await secured.do_handshake()
            identity = credentials.judge(secured.session)
            require_role(identity, Role.BROKER)
        except BaseException:  # a time-out, too: trio's cancellation is no Exception
            await trio.aclose_forcefully(secured)
            raise
        return Wire(secured, identity, *remote_end(stream))

    async def accept(self, stream: trio.abc.Stream) -> Wire:
        """Find out by the first byte whether the caller speaks TLS, and finish TLS with it if so.

        Raises:
            NoTlsError: it speaks TLS and we do not, or not as we do.
            UntrustedError: its certificate is not of this overlay, or it has none.
        """
        if not isinstance(stream, trio.SocketStream):
            return Wire(stream, None)
        end = remote_end(stream)
        first = await stream.socket.recv(1, socket.MSG_PEEK)
        if not first or first[0] != TLS_FIRST_BYTE:
            return Wire(stream, None, *end)
        credentials = self.credentials
        if credentials is None or credentials.server_context is None:
            raise NoTlsError("the caller speaks TLS, and this broker has no identity")
        secured = TlsStream(stream, credentials.server_context, server_side=True)
        try:
            await secured.do_handshake()
        except BROKEN as error:
            kind = UntrustedError if _is_untrusted(error) else NoTlsError
            raise kind(f"no TLS: {tls_reason(error)}") from error
        return Wire(secured, credentials.judge(secured.session), *end)


async def _handle(
    handler: Callable[[trio.abc.Stream], Awaitable[None]], stream: trio.SocketStream
) -> None:
    try:
        await handler(stream)
    finally:
        await trio.aclose_forcefully(stream)


def remote_host(stream: trio.abc.Stream) -> str | None:
    """Return the IP address at the other end of a TCP connection; None: it is none, or is gone."""
    return remote_end(stream)[0]


def remote_end(stream: trio.abc.Stream) -> tuple[str | None, int | None]:
    """Return address and port at the other end of a TCP connection, if it is one, and lasts."""
    if not isinstance(stream, trio.SocketStream):
        return None, None
    try:
        host, port = stream.socket.getpeername()[:2]
    except OSError:
        return None, None
    return str(host), int(port)


async def close(stream: trio.abc.Stream) -> None:
    """Close ``stream``, with good manners if that is quick, and without if not."""
    with trio.move_on_after(CLOSE_SECONDS) as scope:
        scope.shield = True
        with contextlib.suppress(*BROKEN):
            await stream.aclose()


async def _open(host: str, port: int) -> trio.SocketStream:
    """Connect to a host; an IP address needs no resolver, and no race between several.

    Brokers call each other by addresses, and in a failure many at once: this costs a third.
    """
    try:
        is_v6 = ipaddress.ip_address(host).version == 6
    except ValueError:
        return await trio.open_tcp_stream(host, port)
    sock = trio.socket.socket(socket.AF_INET6 if is_v6 else socket.AF_INET, socket.SOCK_STREAM)
    try:
        await sock.connect((host, port))
    except BaseException:  # a time-out, too: trio's cancellation is no Exception
        sock.close()
        raise
    return trio.SocketStream(sock)


def _is_untrusted(error: BaseException) -> bool:
    """Say whether TLS failed for the certificate of the other end, or as there was none."""
    cause = error.__cause__ or error
    return isinstance(cause, ssl.SSLCertVerificationError) or (
        getattr(cause, "reason", None) == "PEER_DID_NOT_RETURN_A_CERTIFICATE"
    )
