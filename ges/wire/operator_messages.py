"""What an operator's client and its broker say to each other: who is attached, and what to do.

An operator attaches as any client does; :mod:`ges.access.operators` says who may. Only to a broker
that has said :data:`overlay.wire.versions.OPERATE`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from ges.wire.unit_messages import TOP_LEVEL, Slot
from overlay.ids import WireCount, WireText, WireUid
from overlay.machine import Message
from ring.wire.messages import Member, RingId

CLIENTS_PER_MESSAGE = 128  #: with names as long as they may be that is half of a control message

Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=86_400_000)]


class ClientsRequest(Message, frozen=True):
    """Who is attached to you, in the order they came? ``after``: go on behind that number."""

    after: WireCount


class ClientStatus(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One client as its broker sees it. Counts are since it was attached."""

    number: WireCount  #: of its connection at this broker, from 1
    is_asker: bool  #: it is the one that is told this
    uid: WireUid  #: clients with one certificate share it
    name: WireText  #: token:NAME, uid:HEX32 (proven by a certificate), or anyone
    host: WireText | None  #: IP address; None: there is none
    secure: bool  #: attached over TLS
    age_s: float
    subscriptions: int
    queued_bytes: int
    published: int  #: events that it has sent, refused ones among them
    delivered: int  #: events queued for it
    sent_bytes: int  #: that have left
    dropped: int  #: normal events, as it takes them too slowly
    express_dropped: int


class ClientList(Message, frozen=True):
    """The answer; ``more``: there are others behind the last one."""

    clients: Annotated[tuple[ClientStatus, ...], msgspec.Meta(max_length=CLIENTS_PER_MESSAGE)]
    more: bool


class Kick(Message, frozen=True):
    """Cut off all clients of that uid, but for the one that asks."""

    uid: WireUid


class Drain(Message, frozen=True):
    """Take no new clients, let those that are there move, leave the ring and end.

    ``grace_ms``: in which the clients are to move; None: as the broker is configured.
    """

    grace_ms: Milliseconds | None


class Operated(Message, frozen=True):
    """The answer to kicks and drains, and to any of them all from one who may not."""

    problem: WireText | None  #: None: it is done


class UnitJoin(Message, frozen=True):
    """Let the unit whose steward you are join another context; the answer is :class:`UnitJoining`.

    Only to a broker that has said :data:`overlay.wire.versions.RELOCATION`.
    """

    unit: Annotated[tuple[Slot, ...], msgspec.Meta(min_length=1, max_length=TOP_LEVEL)]
    context_lo: RingId  #: the arc of the context
    context_hi: RingId
    steward: Member  #: of the context
    called: WireText  #: the context, for people
    brokers: WireCount  #: in the unit


class UnitJoinQuestion(Message, frozen=True):
    """How far is it with the unit that was to join another context?"""


class JoinState(StrEnum):
    """How far it is, at the broker that was asked."""

    ASKS = "asks"  #: it is not known yet whether there is room
    MOVES = "moves"  #: the brokers of the unit move; this one has not
    OVER = "over"  #: this broker is in the new place, or has nothing to do with it


class UnitJoining(Message, frozen=True):
    """The answer to both."""

    state: JoinState
    problem: WireText | None  #: why the unit stays where it is


OPERATOR_MESSAGES = (ClientsRequest, Kick, Drain, UnitJoin, UnitJoinQuestion)
