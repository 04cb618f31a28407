"""What brokers say to each other while a whole unit joins another context.

For example, super-cluster 0.1 is to join super-super-cluster 1. Its steward asks that of 1 for
room, and is given a number and an arc. Then all brokers of the unit are told, and move one after
the other.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from ges.wire.unit_messages import (
    TOP_LEVEL,
    Slot,
    UnitLevel,
    UnitLimit,
    UnitName,
    UnitTables,
)
from overlay.ids import WireCount
from overlay.machine import Message
from ring.wire.messages import MAX_REASON, Hops, Member, RingId

UnitPath = Annotated[tuple[UnitName, ...], msgspec.Meta(max_length=TOP_LEVEL)]


class Relocation(msgspec.Struct, frozen=True, array_like=True):
    """Which unit goes where."""

    number: WireCount  #: drawn, to tell it from others
    level: UnitLevel  #: of the unit
    lo: RingId  #: its arc as it is before ...
    hi: RingId
    to_lo: RingId  #: ... and after
    to_hi: RingId
    names: UnitPath  #: of the units around it, from the top, and its own; empty texts: no name
    tables: UnitTables  #: of the new contexts, from the top down to that of the unit itself


class RoomWanted(Message, frozen=True):
    """Give my unit a number and an arc in your context; the sender is the unit's steward.

    With ``at`` the arc was given before, and is to begin there; passed on to the steward of the
    context as what is for a steward always is.
    """

    number: WireCount  #: of the relocation
    sender: Member
    level: UnitLevel
    context_lo: RingId  #: the context as the sender knows it
    context_hi: RingId
    width: WireCount  #: places of the unit's arc as it is
    brokers: WireCount  #: in the unit
    name: UnitName  #: of the unit
    limit: UnitLimit  #: of sub-units, where the unit is
    at: RingId | None = None
    slot: Slot = 0  #: the number that it was given before; only with ``at``
    hops: Hops = 0


class RoomGiven(Message, frozen=True):
    """Your unit has a row in the table of my context, and all in there know."""

    number: WireCount
    lo: RingId
    hi: RingId
    names: UnitPath  #: of the units around it, from the top, and its own
    tables: UnitTables


class RoomRefused(Message, frozen=True):
    """There is no room for your unit; ``later``: there may be some soon."""

    number: WireCount
    reason: Annotated[str, msgspec.Meta(max_length=MAX_REASON)]
    later: bool


class Relocate(Message, frozen=True):
    """The unit in which we stand moves; tell all that you are linked to in its arc.

    ``goes``: one of it is in the new place, so that all others follow it.
    """

    relocation: Relocation
    goes: bool


class Relocated(Message, frozen=True):
    """The sender is in the new place of its unit; sent to those that it was linked to before.

    They need not wait long until they say that nobody stands in the arc where the unit was.
    """

    number: WireCount
    lo: RingId  #: that arc
    hi: RingId


#: Those that go by post, as the brokers need not be linked.
ROOM_MESSAGES: tuple[type[Message], ...] = (RoomWanted, RoomGiven, RoomRefused, Relocated)
RELOCATION_MESSAGES: tuple[type[Message], ...] = (*ROOM_MESSAGES, Relocate)
