"""How brokers tell each other what many are to know: over a tree, by comparing, and by letter."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

import msgspec

from overlay.ids import WireCount, WireUid
from overlay.machine import Message
from ring.wire.messages import Hops, RingId

MAX_CONTENT_BYTES = 60 * 1024  #: fits into a control frame together with the longest header
MAX_TAKEN = 128  #: uids: two tables of members may be about for a moment
MAX_KINDS = 16
MAX_ROWS = 256  #: of one kind at one broker: members, units, or buckets of values

KindNumber = Annotated[int, msgspec.Meta(ge=0, le=255)]
Digest = WireCount  #: 63 bits
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
    TABLES = 14  #: of members and of units, which are asked for together
    UNIT_TABLE = 15  #: a whole one, that was asked for
    MEMBER_TABLE = 16
    UNITS_TAKEN = 17  #: all brokers of a context hold its table of units


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
    """The digest of all that the sender holds of one kind."""

    kind: KindNumber
    digest: Digest
    lo: RingId = 0  #: of the arc that it is about: others hold something else ...
    hi: RingId = 0  #: ... so only what is about the same arc is compared


class Held(Message, frozen=True):
    """Digests of the sender, one for each kind; a broker with other digests asks for rows."""

    digests: Annotated[tuple[HeldDigest, ...], msgspec.Meta(max_length=MAX_KINDS)]


# ── what one broker asks another for ──────────────────────────────────────────────────────────


class RowVersion(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which of two rows of one key counts (:func:`ges.telling.shared.is_later`).

    Epoch and count go round (:mod:`overlay.circular`): no forged one is the last.
    """

    epoch: WireCount  #: of the writer, or of what it writes by
    count: WireCount  #: of the rows since
    writer: Annotated[str, msgspec.Meta(max_length=64)] = ""  #: where a key has several


class HeldRow(msgspec.Struct, frozen=True, array_like=True):
    """Which row the sender holds under one key."""

    key: Annotated[str, msgspec.Meta(max_length=64)]
    version: RowVersion


class RowsWanted(Message, frozen=True):
    """Send me the rows of a kind that are later than these, or not among them.

    ``key``: none but the one with this key.

    ``is_answer``: the sender was asked the same, and has sent what it holds; nobody asks it back.
    """

    kind: KindNumber
    held: Annotated[tuple[HeldRow, ...], msgspec.Meta(max_length=MAX_ROWS)]
    is_answer: bool = False
    key: Annotated[str, msgspec.Meta(max_length=64)] = ""


class Row(msgspec.Struct, frozen=True, array_like=True):
    """One row, as a content of its kind is told."""

    kind: KindNumber
    content: bytes


class Rows(Message, frozen=True):
    """Rows that were asked for, each a :class:`Row`; told apart after the frame is read."""

    packed: Annotated[bytes, msgspec.Meta(max_length=MAX_CONTENT_BYTES)]


TELLING_MESSAGES: tuple[type[Message], ...] = (Told, TellTaken, Letter, Held, RowsWanted, Rows)
