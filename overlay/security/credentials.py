"""What this end shows in a TLS handshake and whom it trusts, as it is at the moment.

Certificates are short-lived and lists of revoked ones arrive at any time, so both may change while
links are up: handshakes from then on go by the new ones, and links that exist are not touched.
"""

from __future__ import annotations

import ssl
from datetime import datetime

from overlay.errors import IdentityError, UntrustedError
from overlay.security.identity import Identity, PeerIdentity, Role
from overlay.security.revocation import Revocations
from overlay.security.tls_handshake import Session, client_context, peer_identity, server_context

MAX_SHOWN = 10_000  #: holders of identities whose certificates' ends are kept; then the oldest go


class Credentials:
    """An identity in use."""

    def __init__(self, identity: Identity) -> None:
        """Take an identity.

        Raises:
            IdentityError: its files no longer load.
        """
        self.identity = identity
        self.revocations = Revocations(identity.authorities)
        self.client_context: ssl.SSLContext = client_context(identity)
        self._shown: dict[str, datetime] = {}  #: uid -> end of its best certificate
        self.server_context = _server_context(identity)  #: None: a client, whom nobody calls

    def replace(self, identity: Identity) -> None:
        """Show ``identity`` from now on; it must be the same uid and role, renewed.

        Raises:
            IdentityError: it is somebody else's, or its files no longer load.
        """
        if (identity.uid, identity.role) != (self.identity.uid, self.identity.role):
            raise IdentityError(
                f"{identity.directory}: now holds {identity.role} {identity.uid}, but "
                f"{self.identity.role} {self.identity.uid} is running; "
                "put its identity back, or restart with the new one"
            )
        calling, called = client_context(identity), _server_context(identity)
        self.identity = identity
        self.client_context, self.server_context = calling, called
        self.revocations.trust(identity.authorities)

    def judge(self, session: Session) -> PeerIdentity:
        """Return who is at the other end of a finished handshake.

        Raises:
            NoTlsError: as :func:`overlay.security.tls_handshake.peer_identity`.
            UntrustedError: the same, or either end is revoked.
        """
        peer = peer_identity(session)
        if self.revocations.forbids(peer.uid):
            raise UntrustedError(f"{peer.role} {peer.uid} is revoked")
        if self.revocations.forbids(self.identity.uid):
            raise UntrustedError("this end's own identity is revoked")
        self._note(peer)
        return peer

    def lasts_until(self, peer: PeerIdentity) -> datetime | None:
        """Return when the best certificate ends that the holder of ``peer``'s uid has shown.

        It need not have been on the connection that ``peer`` is of: who has shown a renewed one on
        another need not be cut off here.
        """
        shown = self._shown.get(peer.uid)
        ends = [end for end in (peer.not_after, shown) if end is not None]
        return max(ends, default=None)

    def _note(self, peer: PeerIdentity) -> None:
        if peer.not_after is None:
            return
        if len(self._shown) >= MAX_SHOWN and peer.uid not in self._shown:
            self._shown.pop(next(iter(self._shown)))
        self._shown[peer.uid] = max(peer.not_after, self._shown.get(peer.uid, peer.not_after))


def _server_context(identity: Identity) -> ssl.SSLContext | None:
    return server_context(identity) if identity.role is Role.BROKER else None
