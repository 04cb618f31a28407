"""What a client without a library says first."""

from __future__ import annotations

from overlay.ids import LinkClass, uid_of
from overlay.wire.frames import PROTOCOL_VERSION
from overlay.wire.greetings import Hello

SECRET = b"c" * 32
UID = uid_of(SECRET)


def client_hello(secret: bytes = SECRET, *, token: str | None = None) -> Hello:
    """Return the greeting of a client that proves its uid by ``secret``."""
    return Hello(
        "chordal",
        PROTOCOL_VERSION,
        uid_of(secret),
        1,
        None,
        LinkClass.NORMAL,
        None,
        0,
        token=token,
        secret=secret,
    )
