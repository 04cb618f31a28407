"""Which broker serves which queue group, as it stands behind the payload of an event.

For example, an event on ``orders/7`` goes to brokers 2 and 5, and there is the group ``workers`` on
``orders/+``. The broker of the publisher has chosen 5 for the group: the event says so to both, and
only 5 gives it to a member::

    u64 key of a group | u8 slot    once for each group
    u64 tried                       as a mask: brokers that had no member for it any more
    u16 count                       of groups

A *key* is a hash of the group's filter and name, so it is as long for all. An event that has been
*handed on* (``tried`` is not 0) is for one member of the groups named, and for nobody else.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

from overlay.errors import CodecError

MAX_GROUPS = 512  #: named in one event; further ones are told nothing of it
_ENTRY = struct.Struct("!QB")
_END = struct.Struct("!QH")
MAX_GROUPS_BYTES = MAX_GROUPS * _ENTRY.size + _END.size
MAX_SLOT = 63


class Serving(NamedTuple):
    """Who serves the groups that an event is for."""

    slots: Mapping[int, int]  #: by key of the group
    tried: int = 0  #: as a mask; 0: the event comes from its source

    def pack(self) -> bytes:
        """Return it as it stands behind the payload."""
        entries = (_ENTRY.pack(key, slot) for key, slot in self.slots.items())
        return b"".join((*entries, _END.pack(self.tried, len(self.slots))))


def group_key(text: str, name: str) -> int:
    """Return the key of the group of that name on a filter, which is in canonical form."""
    found = blake2b(f"{text}\n{name}".encode(), digest_size=8).digest()
    return int.from_bytes(found, "big")


def read_serving(data: bytes, at: int, end: int) -> tuple[Serving, int]:
    """Read what stands at the end of ``data`` from ``at`` to ``end``; also say where it begins.

    Raises:
        CodecError: it makes no sense.
    """
    start = end - _END.size
    if start < at:
        raise CodecError("event frame without the groups that it names")
    tried, count = _END.unpack_from(data, start)
    start -= count * _ENTRY.size
    if count > MAX_GROUPS or start < at:
        raise CodecError("event frame without the groups that it names")
    slots = {
        key: slot
        for key, slot in (_ENTRY.unpack_from(data, start + n * _ENTRY.size) for n in range(count))
        if slot <= MAX_SLOT
    }
    return Serving(slots, tried), start
