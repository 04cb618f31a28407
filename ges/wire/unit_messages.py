"""What brokers say to each other about their cluster: who is in it, and what all are told.

All of it goes over normal links, to brokers that know of units.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

import msgspec

from overlay.ids import WireCount, WireUid
from overlay.machine import Message
from overlay.wire.versions import PROFILES, UNITS
from ring.wire.messages import Hops, Member, RingId

MAX_SLOTS = 64  #: members of a cluster
MAX_CONTENT_BYTES = 60 * 1024  #: fits into a control frame together with the longest header
MAX_TAKEN = 2 * MAX_SLOTS  #: uids: two tables may be about for a moment
MAX_KINDS = 16

Slot = Annotated[int, msgspec.Meta(ge=0, lt=MAX_SLOTS)]
Version = Annotated[int, msgspec.Meta(ge=0, le=255)]
KindNumber = Annotated[int, msgspec.Meta(ge=0, le=255)]
Digest = WireCount  #: 63 bits
Uids = Annotated[tuple[WireUid, ...], msgspec.Meta(max_length=MAX_TAKEN)]


class Kind(IntEnum):
    """What can be told to all members, and what ring neighbours compare."""

    MEMBERS = 1  #: the members of the cluster, and their slots
    LINK_STATES = 2
    PROFILES = 3
    RETAINED = 4
    SECURE_RETAINED = 5


# ── the members ───────────────────────────────────────────────────────────────────────────────


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
    waiting: bool = False  #: there are brokers for which there is no slot


class MemberChange(msgspec.Struct, frozen=True, array_like=True):
    """What the steward has changed in the table whose digest is ``base``; told to all members."""

    base: Digest
    digest: Digest  #: of the table after the change
    epoch: WireCount
    steward: WireUid
    rows: Rows  #: those that are new or different
    waiting: bool = False  #: there are brokers for which there is no slot


class MembersWanted(Message, frozen=True):
    """Send me your table of members; the answer is :class:`Members`."""

    capability = UNITS


class Members(Message, frozen=True):
    """The sender's table of members."""

    table: MemberTable
    capability = UNITS


class SlotWanted(Message, frozen=True):
    """Grant ``member`` a slot, or note that it has another place or life.

    Passed on to the steward, from broker to broker with smaller ring ids.
    """

    member: Member
    version: Version
    wish: Slot | None  #: the one that it had before
    hops: Hops
    capability = UNITS


class MemberLost(Message, frozen=True):
    """``member`` has a slot, but does not stand on the ring; passed on as :class:`SlotWanted`."""

    member: Member
    hops: Hops
    capability = UNITS


class StewardHandover(Message, frozen=True):
    """The sender stands first on its arc no more, and grants nothing after this table."""

    table: MemberTable
    capability = UNITS


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
    capability = UNITS


class TellTaken(Message, frozen=True):
    """Who in the sender's arc has taken it, as far as it knows."""

    origin: WireUid
    incarnation: WireCount
    number: WireCount
    taken: Uids
    whole: bool  #: all that the sender passed it on to have answered
    capability = UNITS


class Letter(Message, frozen=True):
    """A message for one member that is not linked to the sender; passed on along the ring.

    Each broker passes it to the one it is linked to that stands nearest before ``place``.
    """

    uid: WireUid  #: whom it is for
    place: RingId  #: where that one stands
    origin: WireUid
    hops: Hops
    content: Annotated[bytes, msgspec.Meta(max_length=MAX_CONTENT_BYTES)]
    capability = PROFILES


# ── what ring neighbours compare ──────────────────────────────────────────────────────────────


class HeldDigest(msgspec.Struct, frozen=True, array_like=True):
    """What the sender holds of one kind."""

    kind: KindNumber
    digest: Digest


class Held(Message, frozen=True):
    """What the sender holds, one entry for each kind; who holds something else asks for it."""

    digests: Annotated[tuple[HeldDigest, ...], msgspec.Meta(max_length=MAX_KINDS)]
    capability = UNITS


UNIT_MESSAGES: tuple[type[Message], ...] = (
    MembersWanted,
    Members,
    SlotWanted,
    MemberLost,
    StewardHandover,
    Told,
    TellTaken,
    Letter,
    Held,
)
