"""What brokers say to each other about their cluster: who is in it, and what all are told.

All of it goes over normal links, to brokers that know of units.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

import msgspec

from overlay.ids import WireCount, WireUid
from overlay.machine import Message
from ring.wire.messages import Hops, Member, RingId

MAX_SLOTS = 64  #: members of a cluster
MAX_CONTENT_BYTES = 60 * 1024  #: fits into a control frame together with the longest header
MAX_TAKEN = 2 * MAX_SLOTS  #: uids: two tables may be about for a moment
MAX_KINDS = 16
MAX_UNIT_NAME = 32
SMALLEST_LIMIT = 3  #: that the sub-units of a unit can have
TOP_LEVEL = 3  #: of units: the units of this level have the whole ring for their context

Slot = Annotated[int, msgspec.Meta(ge=0, lt=MAX_SLOTS)]
Version = Annotated[int, msgspec.Meta(ge=0, le=255)]
KindNumber = Annotated[int, msgspec.Meta(ge=0, le=255)]
Digest = WireCount  #: 63 bits
UnitLevel = Annotated[int, msgspec.Meta(ge=1, le=TOP_LEVEL)]
UnitLimit = Annotated[int, msgspec.Meta(ge=SMALLEST_LIMIT, le=MAX_SLOTS)]
UNIT_NAME_PATTERN = rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_UNIT_NAME - 1}}}"
UnitName = Annotated[
    str, msgspec.Meta(pattern=rf"^({UNIT_NAME_PATTERN})?\Z", max_length=MAX_UNIT_NAME)
]
Uids = Annotated[tuple[WireUid, ...], msgspec.Meta(max_length=MAX_TAKEN)]


class Kind(IntEnum):
    """What can be told to all members, and what ring neighbours compare."""

    MEMBERS = 1  #: the members of the cluster, and their slots
    LINK_STATES = 2
    PROFILES = 3
    CLUSTERS = 4  #: the units of level 1 of a context; those of levels 2 and 3 follow
    SUPER_CLUSTERS = 5
    SUPER_SUPER_CLUSTERS = 6
    STATEMENTS = 7  #: of units of level 1; those of levels 2 and 3 follow
    STATEMENT_TAKEN = 10
    RETAINED = 11
    SECURE_RETAINED = 12
    PAST = 13  #: a question to all of the overlay for what clients have missed
    UNITS_TAKEN = 14  #: all brokers of a context hold its table of units


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


class MembersWanted(Message, frozen=True):
    """Send me your table of members; the answer is :class:`Members`."""


class Members(Message, frozen=True):
    """The sender's table of members."""

    table: MemberTable


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


UnitTakings = Annotated[tuple[UnitsTaken, ...], msgspec.Meta(max_length=TOP_LEVEL)]


class Units(Message, frozen=True):
    """The sender's tables of units, the highest level first; comes before :class:`Members`."""

    tables: UnitTables
    taken: UnitTakings = ()  #: of these tables, those that all brokers of their contexts hold


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


# ── what all members are told ─────────────────────────────────────────────────────────────────


class Told(Message, frozen=True):
    """Take this, and pass it on in the arc from you to ``end``; answer with :class:`TellTaken`."""

    origin: WireUid
    incarnation: WireCount
    number: WireCount  #: as the origin counts what it tells
    end: RingId
    leftwards: bool  #: the arc goes left from you
    kind: KindNumber  #: of the content; one that is not known is passed on
    content: Annotated[bytes, msgspec.Meta(max_length=MAX_CONTENT_BYTES)]


class TellTaken(Message, frozen=True):
    """Who in the sender's arc has taken it, as far as it knows."""

    origin: WireUid
    incarnation: WireCount
    number: WireCount
    taken: Uids
    whole: bool  #: all that the sender passed it on to have answered


class Letter(Message, frozen=True):
    """A message for one member that is not linked to the sender; passed on along the ring.

    Each broker passes it to the one it is linked to that stands nearest before ``place``.
    """

    uid: WireUid  #: whom it is for
    place: RingId  #: where that one stands
    origin: WireUid
    hops: Hops
    content: Annotated[bytes, msgspec.Meta(max_length=MAX_CONTENT_BYTES)]


# ── what ring neighbours compare ──────────────────────────────────────────────────────────────


class HeldDigest(msgspec.Struct, frozen=True, array_like=True):
    """What the sender holds of one kind."""

    kind: KindNumber
    digest: Digest
    lo: RingId = 0  #: of the arc that it is about: others hold something else ...
    hi: RingId = 0  #: ... so only what is about the same arc is compared


class Held(Message, frozen=True):
    """What the sender holds, one entry for each kind; who holds something else asks for it."""

    digests: Annotated[tuple[HeldDigest, ...], msgspec.Meta(max_length=MAX_KINDS)]


UNIT_MESSAGES: tuple[type[Message], ...] = (
    MembersWanted,
    Members,
    SlotWanted,
    MemberLost,
    StewardHandover,
    Units,
    UnitHandover,
    UnitReport,
    Told,
    TellTaken,
    Letter,
    Held,
)
