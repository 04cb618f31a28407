"""Wire messages of the event service: between brokers, and between a client and its broker."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ges.wire.topics import MAX_TOPIC_BYTES
from overlay.ids import LinkClass, WireCount, WireText, WireUid, WireUrl
from overlay.machine import LinkMessage, Message
from overlay.multigraph.weights import Weights
from overlay.security.revocation import MAX_LIST_BYTES, MAX_VOUCHER_BYTES
from overlay.trace import Verdict
from overlay.wire.codec import MessageCodec
from overlay.wire.frames import LOWEST_VERSION
from overlay.wire.versions import SECURE_STATES, WireVersion
from ring.records.holders import BackupStatus
from ring.wire.messages import Member, Pair, RingId

Number = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
FilterText = Annotated[str, msgspec.Meta(max_length=MAX_TOPIC_BYTES)]

MAX_SECURE_LINKS = 256
MAX_LINKS_TOLD = 256


# ── between brokers ───────────────────────────────────────────────────────────────────────────


class SecureState(Message, frozen=True):
    """To which brokers ``origin`` has secure links now; flooded, the highest version counts.

    ``withdrawn``: the broker is gone, as said by a neighbour that saw it go. ``complete``: its ring
    neighbours are all among those it has secure links to.
    """

    origin: WireUid
    incarnation: WireCount
    version: WireCount
    ring_id: RingId
    linked: Annotated[tuple[WireUid, ...], msgspec.Meta(max_length=MAX_SECURE_LINKS)]
    withdrawn: bool
    complete: bool = False


class SecureStatesWanted(Message, frozen=True):
    """Tell all lists of secure links again; the answer comes after them, with ``told`` set."""

    told: bool
    capability = SECURE_STATES


class RevocationNotice(Message, frozen=True):
    """The authority's list of revoked identities, and who vouches for its signer (DER both).

    Between brokers it is flooded, the highest number counts; a client may hand one to its broker,
    and is told of those the broker knows.
    """

    crl: Annotated[bytes, msgspec.Meta(max_length=MAX_LIST_BYTES)]
    voucher: Annotated[bytes, msgspec.Meta(max_length=MAX_VOUCHER_BYTES)]


class ToldLink(msgspec.Struct, frozen=True, array_like=True):
    """One link of the broker that tells of it; express links only while inside their range."""

    uid: WireUid  #: at its other end
    link_class: LinkClass
    weights: Weights


class MeasuredLinks(LinkMessage, frozen=True):
    """The measured links of ``origin``; told to its neighbours, who pass it on once."""

    origin: WireUid
    incarnation: WireCount
    version: WireCount
    links: Annotated[tuple[ToldLink, ...], msgspec.Meta(max_length=MAX_LINKS_TOLD)]


# ── client to broker ──────────────────────────────────────────────────────────────────────────


class Subscribe(Message, frozen=True):
    """Send me the events that match. ``link_class``: only those of that class; None: all."""

    number: Number
    filter: FilterText
    link_class: LinkClass | None


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


class Alternates(Message, frozen=True):
    """Other brokers to go to when this one is lost, latest first."""

    urls: Annotated[tuple[WireUrl, ...], msgspec.Meta(max_length=64)]


class Subscribed(Message, frozen=True):
    """From now on nothing that matches is missed while nothing fails."""

    number: Number


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


class RevocationTaken(Message, frozen=True):
    """A client's :class:`RevocationNotice` is known here now, or is not, and why."""

    problem: WireText | None


class IdentityStatus(msgspec.Struct, frozen=True):
    """What a broker shows in TLS handshakes, and whom it refuses."""

    not_after: str  #: end of its certificate, ISO 8601, UTC
    expires_in_s: float
    serial: str  #: of its certificate, hexadecimal
    authorities: int  #: that it trusts: 2 while the authority is changed
    revocations: int  #: number of the list it knows; 0: none
    revoked: int  #: uids on that list


class LinkStatus(msgspec.Struct, frozen=True):
    """One link of a broker."""

    uid: str
    url: str
    ring_id: int | None
    link_class: LinkClass
    roles: tuple[str, ...]  #: left, right, left-left, right-right, chord 1, ...
    queued_bytes: int
    age_s: float
    cipher: str | None
    expires_in_s: float | None = None  #: until the other end's certificate ends; None: plain
    rtt_ms: float | None = None  #: smoothed round trip; None before it is measured
    jitter_ms: float | None = None  #: its mean deviation
    capacity: int = 0  #: bytes per second; 0: it was never backed up, so nobody knows
    traffic: int = 0  #: bytes per second sent, averaged
    resets: float = 0.0  #: how often it broke of late; one counts half after 60 s
    cost_ms: float | None = None  #: what it costs an event of its class
    demoted: bool = False  #: an express link outside the express range
    late: int = 0  #: express events that came over it and were first found late here
    dropped: int = 0  #: express events dropped as its queue was full


class WayStatus(msgspec.Struct, frozen=True):
    """Events of a class for one broker take a relay path: it is faster, or the link is gone."""

    uid: str
    link_class: LinkClass
    path: tuple[str, ...]  #: uids to pass after this broker, the last is the one it leads to


class VerdictStatus(msgspec.Struct, frozen=True):
    """What a broker holds for failed, link or broker, and on whose word; times since its start."""

    uid: str  #: of the broker, or of the one at the other end of the link
    incarnation: int
    verdict: Verdict
    witnesses: tuple[str, ...]
    at_s: float
    path: tuple[str, ...]  #: uids on the way round the link that is used now; empty if none is
    restored_s: float | None  #: when the link was back


class Dropped(Message, frozen=True):
    """This client takes events too slowly: so many it did not get, since it was attached."""

    normal: WireCount
    express: WireCount


class Status(Message, frozen=True):
    """One broker, as it is."""

    uid: WireUid
    incarnation: WireCount
    url: WireUrl
    overlay: str
    version: str
    secure: bool
    member: Member | None  #: None: not (or not yet again) on the ring
    left: Pair
    right: Pair
    chords: tuple[Member, ...]
    suspects: tuple[WireUid, ...]
    links: tuple[LinkStatus, ...]
    clients: int
    subscriptions: int
    counters: dict[str, int]
    uptime_s: float
    verdicts: tuple[VerdictStatus, ...] = ()  #: the latest, oldest first
    backups: tuple[BackupStatus, ...] = ()  #: who keeps this broker's records
    records: int = 0  #: it owns
    backups_wanted: int = 0  #: on so many neighbours, where there are so many
    identity: IdentityStatus | None = None
    parked: int = 0  #: events that wait for an all-secure path
    ways: tuple[WayStatus, ...] = ()  #: by relays; to all others the direct link is used
    express_range_ms: float = 0.0  #: one way; 0: no express links
    kept_bytes: int = 0  #: of memory, for events to brokers whose links are lost


#: What clients and brokers say to each other; nothing of it is understood between brokers.
CLIENT_CODEC = MessageCodec(
    Subscribe,
    Unsubscribe,
    KeepAlive,
    StatusRequest,
    Attached,
    Alternates,
    Subscribed,
    SubscriptionRefused,
    Accepted,
    EventRefused,
    RevocationNotice,
    RevocationTaken,
    Dropped,
    Status,
)
