"""Which broker or unit serves which queue group, as it stands behind the payload of an event.

For example, an event on ``orders/7`` goes to brokers 2 and 5, and there is the group ``workers`` on
``orders/+``. The broker of the publisher has chosen 5 for the group: the event says so to both, and
only 5 gives it to a member. Where no broker of the cluster has a member, another unit is chosen,
and there a broker is chosen as the event comes in::

    u64 key of a group | u8 node    once for each group; a slot, or a unit (ges.units.nodes)
    3 x u64 tried                   units, level by level; only if bit 15 of the count is set
    u64 tried                       as a mask: brokers that had no member for it any more
    u16 count                       of groups; with bit 14 set the entries are other ones:

    u64 key of a group | u32 place  where events go to all: the ring id of the broker

A *key* is a hash of the group's filter and name, so it is as long for all. An event that has been
*handed on* (``tried`` is not 0) is for one member of the groups named, and for nobody else.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

from ges.wire.levels import CLUSTER_MASK, LEVEL_BITS, UPPER_LEVELS
from ges.wire.realms import Realm
from overlay.errors import CodecError

MAX_GROUPS = 512  #: named in one event; further ones are told nothing of it
_ENTRY = struct.Struct("!QB")
_END = struct.Struct("!QH")
_UPPER = struct.Struct("!QQQ")
_HAS_UPPER = 0x8000  #: in the count ...
_HAS_PLACES = 0x4000  #: ... and that brokers are named by their places
_PLACE = struct.Struct("!QI")


MAX_GROUPS_BYTES = MAX_GROUPS * _PLACE.size + _UPPER.size + _END.size


class Serving(NamedTuple):
    """Who serves the groups that an event is for."""

    slots: Mapping[int, int]  #: by key of the group: a slot of the cluster, or the node of a unit
    tried: int = 0  #: slots and nodes, as a mask; 0: the event comes from its source
    has_places: bool = False  #: ring ids stand in place of slots, as the event goes to all

    def pack(self) -> bytes:
        """Return it as it stands behind the payload."""
        pack = _PLACE.pack if self.has_places else _ENTRY.pack
        entries = [pack(key, slot) for key, slot in self.slots.items()]
        count = len(entries) | (_HAS_PLACES if self.has_places else 0)
        if self.tried > CLUSTER_MASK:
            count |= _HAS_UPPER
            levels = range(1, UPPER_LEVELS + 1)
            masks = (self.tried >> LEVEL_BITS * level & CLUSTER_MASK for level in levels)
            entries.append(_UPPER.pack(*masks))
        return b"".join((*entries, _END.pack(self.tried & CLUSTER_MASK, count)))


def group_key(text: str, name: str, realm: int = Realm.ALL) -> int:
    """Return the key of the group of that name on a filter, which is in canonical form.

    Members of another realm are another group.
    """
    more = "" if realm == Realm.ALL else f"\n{realm:d}"
    found = blake2b(f"{text}\n{name}{more}".encode(), digest_size=8).digest()
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
    if count & _HAS_UPPER:
        count &= ~_HAS_UPPER
        start -= _UPPER.size
        if start < at:
            raise CodecError("event frame without the groups that it names")
        for level, mask in enumerate(_UPPER.unpack_from(data, start), 1):
            tried |= mask << LEVEL_BITS * level
    entry = _PLACE if count & _HAS_PLACES else _ENTRY
    count &= ~_HAS_PLACES
    start -= count * entry.size
    if count > MAX_GROUPS or start < at:
        raise CodecError("event frame without the groups that it names")
    slots = dict(entry.unpack_from(data, start + n * entry.size) for n in range(count))
    return Serving(slots, tried, entry is _PLACE), start
