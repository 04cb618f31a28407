"""TLS of secure links: TLS 1.3, both ends certified by this overlay's own authority.

A context is built from an :class:`~overlay.security.identity.Identity` and serves
:class:`~overlay.net.tls_bytes.TlsBytes`. Host names are not checked: a broker has the uid of its
certificate, wherever it listens, and it moves between addresses under one uid. The check in its
place is the caller's: after the handshake, compare :func:`peer_identity` with the uid the peer
claims, and, having called, ask for a broker with :func:`require_role`.

In TLS 1.3 the caller finishes its handshake before the other end has judged the caller's
certificate. A link is therefore up only when the other end has answered inside it.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, TypeAlias

from overlay.errors import IdentityError, NoTlsError, ProtocolError, UntrustedError
from overlay.security.identity import Identity, PeerIdentity, Role, certified_identity

ALPN = "chordal/1"

if TYPE_CHECKING:
    import trio

Session: TypeAlias = "ssl.SSLObject | ssl.SSLSocket | trio.SSLStream[Any]"


def server_context(identity: Identity) -> ssl.SSLContext:
    """Return the context of the accepting end, which must be a broker.

    Raises:
        IdentityError: the identity is a client's, or its files have changed and no longer load.
    """
    if identity.role is not Role.BROKER:
        raise IdentityError(
            f"{identity.directory}: a client's identity cannot accept connections; "
            "issue one with --broker"
        )
    context = _context(ssl.PROTOCOL_TLS_SERVER, identity)
    # A resumed session skips the certificates, and would outlive one that has expired.
    context.num_tickets = 0
    return context


def client_context(identity: Identity) -> ssl.SSLContext:
    """Return the context of the calling end, a broker or a client.

    Raises:
        IdentityError: the identity's files have changed and no longer load.
    """
    return _context(ssl.PROTOCOL_TLS_CLIENT, identity)


def peer_identity(session: Session) -> PeerIdentity:
    """Return who is at the other end of a finished handshake.

    Raises:
        NoTlsError: the other end did not agree to speak this protocol.
        UntrustedError: it presented no certificate, or one that names no uid and role.
    """
    # OpenSSL lets a handshake pass in which only one end names a protocol.
    if session.selected_alpn_protocol() != ALPN:
        raise NoTlsError(f"the other end speaks TLS, but not {ALPN} within it")
    der = session.getpeercert(binary_form=True)
    if der is None:
        raise UntrustedError("the other end presented no certificate")
    return certified_identity(der)


def require_role(peer: PeerIdentity, role: Role) -> None:
    """Check that the other end is what it must be here.

    Raises:
        ProtocolError: its certificate gives it another role.
    """
    if peer.role is not role:
        raise ProtocolError(f"the other end is {peer.role} {peer.uid}, where a {role} is wanted")


def _context(protocol: int, identity: Identity) -> ssl.SSLContext:
    # Not ssl.create_default_context: it trusts the system's authorities, and writes session keys
    # into a file when the environment says so.
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols([ALPN])
    try:
        context.load_verify_locations(cafile=identity.authority)
        context.load_cert_chain(identity.certificate, identity.key)
    except OSError as error:
        raise IdentityError(
            f"{identity.directory}: its files no longer load ({error.strerror or error}); "
            "check them with 'chordal identity show'"
        ) from error
    return context
