"""Events on their way round a failed link (paper 004, section 3.4.2).

Such a frame names the brokers it is still to pass, and then holds the event as it would have gone
over the link itself::

    u8 count | 16s uid each | event

Each broker strikes itself off and passes the rest on; the last but one makes a plain event frame of
it again, so the broker at the end takes it as any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from overlay.errors import CodecError
from ring.wire.messages import MAX_PATH

_UID_BYTES = 16


def pack_route(uids: Sequence[str]) -> bytes:
    """Return what stands before the event: the brokers behind the one it is sent to."""
    return bytes((len(uids),)) + b"".join(map(bytes.fromhex, uids))


def read_route(body: bytes) -> tuple[tuple[str, ...], bytes]:
    """Return the brokers that are still to be passed, and the event.

    Raises:
        CodecError: it is malformed, or names none or too many.
    """
    count = body[0] if body else 0
    end = 1 + _UID_BYTES * count
    if not 0 < count < MAX_PATH or end > len(body):
        raise CodecError(f"no way round leads over {count} brokers in {len(body)} bytes")
    uids = tuple(body[at : at + _UID_BYTES].hex() for at in range(1, end, _UID_BYTES))
    return uids, body[end:]
