"""What a broker would do with an event that is published there: asked and told.

For example, ``Why`` says that an event on ``a/b`` is for the member in slot 5, as that one wants
``a/#``, that it goes there by the member in slot 2, and that two clients of the broker that
answers get it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from ges.wire.asked import WireRealm
from ges.wire.topics import MAX_TOPIC_BYTES
from ges.wire.unit_messages import MAX_SLOTS, Slot
from overlay.ids import LinkClass, WireCount, WireText, WireUid, WireUrl
from overlay.machine import Message

MAX_HOPS_TOLD = 16  #: of one path
MAX_ASKS_TOLD = 3  #: of one member
MAX_CLIENTS_TOLD = 32
MAX_GROUPS_TOLD = 8
MAX_FILTERS_TOLD = 4  #: of one client
MAX_FILTER_BYTES_TOLD = 16 * 1024  #: of all filters in one answer

TopicText = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TOPIC_BYTES)]


class WhyRequest(Message, frozen=True):
    """What would you do with an event of that class and topic, published at you?

    ``subscriber``: of your clients tell only of this one, and why it does not get it.
    ``clients_only``: leave out the members of the cluster.
    """

    topic: TopicText
    link_class: LinkClass
    subscriber: WireUid | None = None
    clients_only: bool = False
    realm: WireRealm = 4  #: of the event


class WhyAsk(msgspec.Struct, frozen=True, array_like=True):
    """Something that a member wants."""

    filter: str | None  #: empty: all topics; None: it is not shown to whoever asks
    classes: tuple[LinkClass, ...]
    group: str | None = None  #: a queue group, of which one member gets it
    realm: WireRealm = 4  #: it wants only what is published in the same unit of that level


class WhyHop(msgspec.Struct, frozen=True, array_like=True):
    """One step of a path."""

    slot: Slot  #: of the member that it leads to
    link_class: LinkClass


class WhyMember(msgspec.Struct, frozen=True, array_like=True):
    """A member of the cluster, and what it has to do with the event."""

    slot: Slot
    uid: WireUid
    url: WireUrl
    is_for: bool = False  #: the event would be for it
    is_unknown: bool = False  #: nobody knows yet what it wants, so it gets everything
    asks: tuple[WhyAsk, ...] = ()  #: why it is for it, the first few
    has_more: bool = False  #: there may be others
    path: tuple[WhyHop, ...] = ()  #: by which it would go there, as far as it is told
    problem: str | None = None  #: why it would not go there now


class WhyUnit(msgspec.Struct, frozen=True, array_like=True):
    """Another unit, as the broker that answers names it, and what it has to do with the event."""

    name: str  #: its address from the top, such as ``0.0.2``
    is_for: bool = False  #: the event would be for it
    is_unknown: bool = False  #: it has not said yet what it wants, so it gets everything
    asks: tuple[WhyAsk, ...] = ()  #: why it is for it, the first few
    has_more: bool = False  #: there may be others
    next_uid: WireUid | None = None  #: broker to which the event would go on the way there
    is_gate: bool = False  #: that one is in the unit, and finds out who wants it there
    next_url: WireUrl | None = None  #: of that one
    problem: str | None = None  #: why it would not go there now


class WhyFilter(msgspec.Struct, frozen=True, array_like=True):
    """A filter of a client."""

    filter: str | None  #: None: it is not shown to whoever asks
    link_class: LinkClass | None  #: the only class that it is for; None: all
    group: str | None = None  #: the queue group that it is in
    realm: WireRealm = 4  #: only what is published in the same unit of that level


class WhyGroup(msgspec.Struct, frozen=True, array_like=True):
    """A queue group that wants the event, of which one member would get it."""

    filter: str | None  #: None: it is not shown to whoever asks
    name: str | None  #: likewise
    nearest: tuple[Slot, ...]  #: one of these brokers would serve it
    others: tuple[Slot, ...]  #: those that have members as well
    units: tuple[str, ...] = ()  #: or one of these would, where no broker of the cluster can


class WhyClient(msgspec.Struct, frozen=True, array_like=True):
    """A client that is attached here."""

    uid: WireUid
    filters: tuple[WhyFilter, ...] = ()  #: that match; if none does, the first of all it has
    has_more: bool = False  #: filters
    problem: str | None = None  #: why it would not get the event, or not at once


class Why(Message, frozen=True):
    """The answer."""

    broker: WireUid
    url: WireUrl
    topic: TopicText
    link_class: LinkClass
    to_all: bool  #: events go to every broker, as one of them has no slot
    refusal: WireText | None  #: why an event of the client that asks would be refused here
    withheld: WireText | None  #: why neither filters nor clients are shown to the one that asks
    slot: Slot | None  #: of the broker that answers
    members: Annotated[tuple[WhyMember, ...], msgspec.Meta(max_length=MAX_SLOTS)] = ()
    clients: Annotated[tuple[WhyClient, ...], msgspec.Meta(max_length=MAX_CLIENTS_TOLD)] = ()
    client_count: WireCount = 0  #: here that would get it, told of or not; 0 if withheld
    groups: Annotated[tuple[WhyGroup, ...], msgspec.Meta(max_length=MAX_GROUPS_TOLD)] = ()
    units: Annotated[tuple[WhyUnit, ...], msgspec.Meta(max_length=3 * MAX_SLOTS)] = ()
