"""Calls a broker under asyncio, through TLS if its address says so."""

from __future__ import annotations

import asyncio

from ges.client.aio.connection import Connection
from overlay.address import Address
from overlay.errors import ConnectionFailed, ProtocolError
from overlay.net.call_failures import no_identity, no_tls, not_reached
from overlay.net.tls_bytes import TlsBytes
from overlay.security.credentials import Credentials
from overlay.security.identity import Role
from overlay.security.tls_handshake import require_role


async def call(address: Address, credentials: Credentials | None) -> Connection:
    """Return a connection to ``address``.

    Raises:
        ConnectionFailed: nobody there, TLS does not come about, or who is there is no broker of
            this overlay; the reason is for people.
    """
    if not address.tls:
        return await _open(address, None)
    if credentials is None:
        raise no_identity(address)
    tls = TlsBytes(credentials.client_context, server_side=False)
    connection = await _open(address, tls)
    try:
        await connection.shake_hands()
        identity = credentials.judge(tls.session)
        require_role(identity, Role.BROKER)
    except OSError as error:
        connection.abort()
        raise no_tls(address, error) from error
    except ProtocolError as error:
        connection.abort()
        raise ConnectionFailed(address.url, str(error), is_final=True) from error
    except BaseException:  # a time-out, too: it comes as a cancellation
        connection.abort()
        raise
    connection.identity = identity
    return connection


async def _open(address: Address, tls: TlsBytes | None) -> Connection:
    loop = asyncio.get_running_loop()
    try:
        _, connection = await loop.create_connection(
            lambda: Connection(tls), address.host, address.port
        )
    except OSError as error:
        raise not_reached(address, error) from error
    return connection
