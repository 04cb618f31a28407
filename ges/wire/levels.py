"""Destinations above the cluster, as they stand behind all else in an event between brokers.

For example, an event is for brokers 2 and 5 of the cluster that it is in, and for clusters 1 and 7
of the super-cluster. The brokers are 64 bits in the front of the header (:mod:`ges.wire.events`),
the clusters stand here::

    u64 destinations   clusters of this super-cluster, as a mask
    u64                super-clusters of this super-super-cluster
    u64                super-super-clusters
    3 x u64 trace      units of these levels that the event has passed
    u32 address        packed, and one: of the one broker that the event is for; 0: all who want it
    u8  entering       level of the unit of the receiver that the event comes into; 0: none

In memory all levels are one mask, 64 bits a level, the cluster lowest. An event that is for brokers
of its cluster alone has none of this.
"""

from __future__ import annotations

import struct

from overlay.errors import CodecError

UPPER_LEVELS = 3
LEVEL_BITS = 64
CLUSTER_MASK = 2**LEVEL_BITS - 1
MAX_ADDRESS = 2**24  #: and one
_UPPER = struct.Struct("!QQQQQQIB")
UPPER_BYTES = _UPPER.size
NO_UPPER = bytes(UPPER_BYTES)


def pack_upper(destinations: int, trace: int, address: int, entering: int) -> bytes:
    """Return what stands behind an event; of the masks the bits above the cluster's."""
    masks = (
        mask >> LEVEL_BITS * level & CLUSTER_MASK
        for mask in (destinations, trace)
        for level in range(1, UPPER_LEVELS + 1)
    )
    return _UPPER.pack(*masks, address, entering)


def read_upper(data: bytes, at: int) -> tuple[int, int, int, int]:
    """Return destinations and trace above the cluster's, the address, and the level entered.

    Raises:
        CodecError: it makes no sense.
    """
    *masks, address, entering = _UPPER.unpack_from(data, at)
    if address > MAX_ADDRESS or entering > UPPER_LEVELS:
        raise CodecError("event frame whose units make no sense")
    destinations = trace = 0
    for level in range(UPPER_LEVELS):
        destinations |= masks[level] << LEVEL_BITS * (level + 1)
        trace |= masks[UPPER_LEVELS + level] << LEVEL_BITS * (level + 1)
    return destinations, trace, address, entering
