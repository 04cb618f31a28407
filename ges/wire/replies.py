"""Where the reply to a request goes, and who may say what there.

A client that asks has one *reply address* for its life: the topic ``$reply/UID/KEY``, with its own
uid and a key of 64 random bits. A request does not carry it as text: the uid is that of the
publisher, and the key is the first half of the correlation id. The other half is drawn anew for
each request.

Only the client of that uid may subscribe to its address, and by that one topic alone: no wildcard
stands beside ``$reply``. A client that was sent a request knows the address, and so may publish to
it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ges.wire.events import CORRELATION_BYTES

ROOT = "$reply"
KEY_BYTES = CORRELATION_BYTES // 2

#: Returns so many bytes that nobody can guess.
Draw = Callable[[int], bytes]

_ADDRESS = re.compile(r"\$reply/([0-9a-f]{32})/[0-9a-f]{16}")


def new_key(draw: Draw) -> bytes:
    """Return a key for the address of one client."""
    return draw(KEY_BYTES)


def new_correlation(key: bytes, draw: Draw) -> bytes:
    """Return a correlation id for a request whose reply goes to the address with that key."""
    return key + draw(CORRELATION_BYTES - KEY_BYTES)


def reply_address(uid: str, correlation: bytes) -> str:
    """Return the address for replies to a request of that client, by its key or correlation id."""
    return f"{ROOT}/{uid}/{correlation[:KEY_BYTES].hex()}"


def is_reply_address(text: str) -> bool:
    """Say whether a topic or filter is the reply address of some client."""
    return _ADDRESS.fullmatch(text) is not None


def why_not_to_be_read(text: str, uid: str) -> str | None:
    """Return why a client may not subscribe to a filter, if that is for replies to others; or None.

    This holds where there are no access rules, too.
    """
    if text != ROOT and not text.startswith(f"{ROOT}/"):
        return None
    found = _ADDRESS.fullmatch(text)
    if found is not None and found[1] == uid:
        return None
    return f"what is below {ROOT} is for the client alone that has asked"
