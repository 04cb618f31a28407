"""What a client and its broker say to each other, but for events."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

import msgspec

from ges.wire.asked import Ask
from ges.wire.broker_messages import RevocationNotice
from ges.wire.drill_messages import DRILL_MESSAGES, Drilled
from ges.wire.operator_messages import OPERATOR_MESSAGES, ClientList, Operated, UnitJoining
from ges.wire.status import MoreStatus, Status
from ges.wire.topics import MAX_TOPIC_BYTES
from ges.wire.why import Why, WhyRequest
from ges.wire.why_event import WhyEvent, WhyEventRequest
from overlay.ids import LinkClass, WireCount, WireText, WireUid, WireUrl
from overlay.machine import Message
from overlay.wire.codec import MessageCodec
from overlay.wire.frames import LOWEST_VERSION
from overlay.wire.versions import WireCapabilities, WireVersion

Number = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
PublisherBytes = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
FilterText = Annotated[str, msgspec.Meta(max_length=MAX_TOPIC_BYTES)]


# ── client to broker ──────────────────────────────────────────────────────────────────────────


class Subscribe(Message, frozen=True):
    """Send me the events that I ask for."""

    number: Number
    ask: Ask
    values: bool = True  #: first the values that are retained, if the client knows of these


class Mark(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The event that a client has had last of one publisher and class."""

    publisher: PublisherBytes
    incarnation: WireCount
    secure: bool
    sequence: WireCount


class Resubscription(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A subscription that another broker has served before."""

    number: Number
    ask: Ask
    age_ms: Number  #: milliseconds since it was served first


class Resubscribe(Message, frozen=True):
    """Serve these as the broker did that I have lost, and send me first what I have missed.

    Only to a broker that has said :data:`overlay.wire.versions.KEPT_EVENTS`. ``more``: what does
    not fit into this message follows in another one.
    """

    marks: Annotated[tuple[Mark, ...], msgspec.Meta(max_length=1024)]
    subscriptions: Annotated[tuple[Resubscription, ...], msgspec.Meta(max_length=4096)]
    more: bool


class Unsubscribe(Message, frozen=True):
    """No more of these."""

    number: Number


class KeepAlive(Message, frozen=True):
    """Either end: are you there? Answered with the same token and ``answer`` set."""

    token: WireCount
    answer: bool


class StatusRequest(Message, frozen=True):
    """Tell me about yourself."""


# ── broker to client ──────────────────────────────────────────────────────────────────────────


class Attached(Message, frozen=True):
    """The client is served by ``broker``; ``secure`` says whether this hop is."""

    broker: WireUid
    url: WireUrl
    secure: bool
    version: WireVersion = LOWEST_VERSION  #: of the protocol, that holds for this connection
    subject: WireText = "anyone"  #: as whom the broker knows the client, see docs/access.md
    capabilities: WireCapabilities = ()  #: what else a client may send it
    #: that the broker has the client's token in its book, if the client has proven to have it
    token_proof: Annotated[bytes, msgspec.Meta(max_length=64)] | None = None


class Alternates(Message, frozen=True):
    """Other brokers to go to when this one is lost, latest first."""

    urls: Annotated[tuple[WireUrl, ...], msgspec.Meta(max_length=64)]


class Subscribed(Message, frozen=True):
    """From now on nothing that matches is missed while nothing fails."""

    number: Number


class Level(IntEnum):
    """How far a subscription is active: in which unit around its broker all brokers know of it."""

    CLUSTER = 1
    SUPER_CLUSTER = 2
    SUPER_SUPER_CLUSTER = 3
    SYSTEM = 4  #: all of the overlay


class Active(Message, frozen=True):
    """All brokers of a unit know of it: no event published there from now on is missed.

    The broker tells each :class:`Level` as it is reached, but for units that are all of the next
    one.
    """

    number: Number
    level: Annotated[int, msgspec.Meta(ge=1, le=15)]


class SubscriptionRefused(Message, frozen=True):
    """It is not served, and why."""

    number: Number
    reason: WireText


class Accepted(Message, frozen=True):
    """All events of this class up to ``sequence`` are taken, but for those refused."""

    link_class: LinkClass
    sequence: WireCount


class EventRefused(Message, frozen=True):
    """One event was not taken: nobody got it, and why."""

    link_class: LinkClass
    sequence: WireCount
    reason: WireText


class NoResponder(Message, frozen=True):
    """Nobody in the cluster has a subscription that matches this request; nobody got it."""

    link_class: LinkClass
    sequence: WireCount


class RevocationTaken(Message, frozen=True):
    """A client's :class:`RevocationNotice` is known here now, or is not, and why."""

    problem: WireText | None


class Dropped(Message, frozen=True):
    """This client takes events too slowly: so many it did not get, since it was attached."""

    normal: WireCount
    express: WireCount


class Missed(Message, frozen=True):
    """The broker's place on the ring was in doubt, or lost: you may have missed events.

    ``milliseconds``: those published from that long ago until now. Only to a client that has said
    :data:`overlay.wire.versions.MISSED`.
    """

    milliseconds: WireCount


class Leaving(Message, frozen=True):
    """The broker leaves the ring: go to another one, once it has confirmed what cannot be repeated.

    Only to a client that has said :data:`overlay.wire.versions.LEAVING`.
    """


#: What clients and brokers say to each other; nothing of it is understood between brokers.
CLIENT_CODEC = MessageCodec(
    Subscribe,
    Resubscribe,
    Unsubscribe,
    KeepAlive,
    StatusRequest,
    Attached,
    Alternates,
    Subscribed,
    Active,
    SubscriptionRefused,
    Accepted,
    EventRefused,
    NoResponder,
    RevocationNotice,
    RevocationTaken,
    Dropped,
    Missed,
    Leaving,
    Status,
    MoreStatus,
    WhyRequest,
    Why,
    WhyEventRequest,
    WhyEvent,
    *OPERATOR_MESSAGES,
    ClientList,
    Operated,
    UnitJoining,
    *DRILL_MESSAGES,
    Drilled,
)
