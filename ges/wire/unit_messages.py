"""What brokers say to each other about their cluster and the units above it.

All of it goes over normal links, to brokers that know of units.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

import msgspec

from ges.wire.telling_messages import Digest
from overlay.ids import WireCount, WireUid
from overlay.machine import Message
from ring.wire.messages import Hops, Member, RingId

MAX_SLOTS = 64  #: members of a cluster
MAX_UNIT_NAME = 32
SMALLEST_LIMIT = 3  #: that the sub-units of a unit can have
TOP_LEVEL = 3  #: of units: the units of this level have the whole ring for their context

Slot = Annotated[int, msgspec.Meta(ge=0, lt=MAX_SLOTS)]
Version = Annotated[int, msgspec.Meta(ge=0, le=255)]
UnitLevel = Annotated[int, msgspec.Meta(ge=1, le=TOP_LEVEL)]
UnitLimit = Annotated[int, msgspec.Meta(ge=SMALLEST_LIMIT, le=MAX_SLOTS)]
UNIT_NAME_PATTERN = rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_UNIT_NAME - 1}}}"
UnitName = Annotated[
    str, msgspec.Meta(pattern=rf"^({UNIT_NAME_PATTERN})?\Z", max_length=MAX_UNIT_NAME)
]


# ── the members ───────────────────────────────────────────────────────────────────────────────


class Waiting(IntEnum):
    """Why events cannot name all brokers of a cluster by slot."""

    NOBODY = 0  #: they can
    BROKERS = 1  #: there are brokers for which there is no slot
    SPLIT = 2  #: there is one cluster alone, and it is about to be split


class MemberRow(msgspec.Struct, frozen=True, array_like=True):
    """One slot of the cluster, and whose it is."""

    slot: Slot
    member: Member
    version: Version  #: the highest protocol version it speaks
    resting: bool = False  #: it is dead or gone, and nobody else has the slot yet

    @property
    def uid(self) -> str:
        """Of the broker that has the slot, or had it."""
        return self.member.uid


Rows = Annotated[tuple[MemberRow, ...], msgspec.Meta(max_length=MAX_SLOTS)]


class MemberTable(msgspec.Struct, frozen=True, array_like=True):
    """All slots that have been granted, lowest first.

    Of two tables the one with the later epoch counts, and of one epoch that of the smaller steward.
    """

    epoch: WireCount
    steward: WireUid  #: who made it
    rows: Rows
    waiting: Waiting = Waiting.NOBODY
    lo: RingId = 0  #: where the arc of the cluster begins ...
    hi: RingId = 0  #: ... and the next one; equal where the cluster is all there is


class MemberChange(msgspec.Struct, frozen=True, array_like=True):
    """What the steward has changed in the table whose digest is ``base``; told to all members."""

    base: Digest
    digest: Digest  #: of the table after the change
    epoch: WireCount
    steward: WireUid
    rows: Rows  #: those that are new or different
    waiting: Waiting = Waiting.NOBODY
    lo: RingId = 0  #: of the arc after the change; rows that stand outside of it are gone
    hi: RingId = 0


class SlotWanted(Message, frozen=True):
    """Grant ``member`` a slot, or note that it has another place or life.

    Passed on to the steward, from broker to broker with smaller ring ids.
    """

    member: Member
    version: Version
    wish: Slot | None  #: the one that it had before
    hops: Hops


class MemberLost(Message, frozen=True):
    """``member`` has a slot, but does not stand on the ring; passed on as :class:`SlotWanted`."""

    member: Member
    hops: Hops


class StewardHandover(Message, frozen=True):
    """The sender stands first on its arc no more, and grants nothing after this table."""

    table: MemberTable


# ── the units of a context ────────────────────────────────────────────────────────────────────


class UnitRow(msgspec.Struct, frozen=True, array_like=True):
    """One unit: its number in its context, and where its arc begins."""

    number: Slot
    lo: RingId  #: its arc ends where that of the next row begins, or its context ends
    size: WireCount = 0  #: its sub-units, as its steward has said last; for people
    name: UnitName = ""


UnitRows = Annotated[tuple[UnitRow, ...], msgspec.Meta(min_length=1, max_length=MAX_SLOTS)]


class UnitTable(msgspec.Struct, frozen=True, array_like=True):
    """The units of one level in one context, as they stand from its beginning to the right.

    The context is a unit of the next level; units of level 3 have the whole ring for theirs.
    """

    level: UnitLevel  #: of the units
    epoch: WireCount
    steward: WireUid  #: who made it: the steward of the context
    rows: UnitRows
    lo: RingId  #: where the context begins ...
    hi: RingId  #: ... and the next one; equal if it is the whole ring
    limit: UnitLimit  #: of sub-units; that in the table of level 3 counts


UnitTables = Annotated[tuple[UnitTable, ...], msgspec.Meta(max_length=TOP_LEVEL)]


class UnitsTaken(msgspec.Struct, frozen=True, array_like=True):
    """All brokers of a context hold its table of units, which has this digest."""

    level: UnitLevel
    digest: Digest


class UnitHandover(Message, frozen=True):
    """The sender is steward of this context no more, or its context is a part of another now."""

    table: UnitTable


class UnitReport(Message, frozen=True):
    """A unit's steward says how large the unit is; or a neighbour, that nobody is there.

    Passed on to the steward of the unit's context, as :class:`SlotWanted`.
    """

    level: UnitLevel  #: of the unit
    lo: RingId
    hi: RingId
    size: WireCount  #: its sub-units; 0: no broker stands in its arc
    split_at: RingId | None  #: it is to be split here
    urgent: bool  #: as there is no room for a sub-unit that waits; or the whole unit has moved away
    hops: Hops
    second: RingId | None = None  #: where its second sub-unit begins; None: it has one
    last: RingId | None = None  #: where its last sub-unit begins; None: it has one
    end: RingId | None = None  #: where the last broker in it stands; None: that is not known


UNIT_MESSAGES: tuple[type[Message], ...] = (
    SlotWanted,
    MemberLost,
    StewardHandover,
    UnitHandover,
    UnitReport,
)
