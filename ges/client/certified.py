"""Keeps a client's connection certified: both ends' certificates may end while it is up.

Some time before either ends, the client takes up its own if it has been renewed, and makes another
TLS handshake with the broker, for nothing but to see each other's certificates, and closes it. The
connection that carries events is not touched. Where the broker shows no certificate that is good
for longer, the client leaves it at the end of the one it has shown.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from overlay.errors import IdentityError, ProtocolError
from overlay.security.credentials import Credentials
from overlay.security.identity import PeerIdentity, load_identity
from overlay.security.keyfiles import REVOKED, read_revoked

EARLY = 1 / 3  #: of what is left of a certificate's life when that is looked at
MIN_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 3600.0
HANDSHAKE_SECONDS = 5.0


def reread(credentials: Credentials) -> None:
    """Take up what has been renewed, or revoked, since the identity's folder was last read."""
    directory = credentials.identity.directory
    with contextlib.suppress(IdentityError, ProtocolError):  # then what is known must do
        found = read_revoked(directory / REVOKED)
        if found is not None:
            credentials.revocations.learn(*found)
    with contextlib.suppress(IdentityError):
        credentials.replace(load_identity(directory))


async def stay_certified(
    credentials: Credentials,
    broker: PeerIdentity,
    shake_hands: Callable[[], Awaitable[PeerIdentity | None]],
    sleep: Callable[[float], Awaitable[object]],
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Return when ``broker`` is certified no more; until then see that both ends stay so.

    ``shake_hands`` makes another connection, and returns who was at its other end; None: no
    connection comes about within :data:`HANDSHAKE_SECONDS`, or nobody is certified there.
    """
    certified = broker
    while certified.not_after is not None:
        ends = min(certified.not_after, credentials.identity.not_after)
        left = (ends - clock()).total_seconds()
        pause = max(left * (1 - EARLY), MIN_PAUSE_SECONDS)
        broker_left = (certified.not_after - clock()).total_seconds()
        if broker_left <= 0:
            return
        await sleep(min(pause, broker_left + 0.01, MAX_PAUSE_SECONDS))
        reread(credentials)
        seen = await shake_hands()
        if seen is not None and seen.uid == broker.uid:
            certified = seen
