"""What the brokers of a cluster tell each other of their links."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ges.wire.unit_messages import MAX_SLOTS, Slot
from overlay.ids import LinkClass, WireCount, WireUid

#: Links told: one of each class to each of 63 members, and some to spare while members change.
MAX_STATE_LINKS = 256

WireBucket = Annotated[int, msgspec.Meta(ge=0, le=255)]


class StateLink(msgspec.Struct, frozen=True, array_like=True):
    """One link of the member that tells of it; express links only while inside their range."""

    uid: WireUid  #: at its other end
    link_class: LinkClass
    bucket: WireBucket  #: of its cost (:mod:`ges.gateways.costs`)


class StateGate(msgspec.Struct, frozen=True, array_like=True):
    """The cheapest link of one class to another unit, of the member that tells of it."""

    node: Annotated[int, msgspec.Meta(ge=MAX_SLOTS, lt=4 * MAX_SLOTS)]  #: (:mod:`ges.units.nodes`)
    link_class: LinkClass
    bucket: WireBucket
    count: Annotated[int, msgspec.Meta(ge=1, le=2**16)] = 1  #: how many links there are


class LinkState(msgspec.Struct, frozen=True, array_like=True):
    """The links of ``origin`` to members of its cluster, and to other units.

    The latest incarnation and version count.

    It goes to all members of the cluster.
    """

    origin: WireUid
    slot: Slot
    incarnation: WireCount
    version: WireCount
    links: Annotated[tuple[StateLink, ...], msgspec.Meta(max_length=MAX_STATE_LINKS)]
    gates: Annotated[tuple[StateGate, ...], msgspec.Meta(max_length=MAX_STATE_LINKS)] = ()
