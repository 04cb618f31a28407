"""What a broker says of itself: who it is, where it stands, its links, clients and counters."""

from __future__ import annotations

from typing import Annotated

import msgspec

from overlay.ids import LinkClass, WireCount, WireUid, WireUrl
from overlay.machine import Message
from overlay.trace_schema import Verdict
from overlay.wire.greetings import WireName
from ring.records.holders import BackupStatus
from ring.wire.messages import Member, Pair

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z"  #: that a broker may be called by; empty: none

MAX_PAGES = 256  #: of one status, each a control frame

PageCount = Annotated[int, msgspec.Meta(ge=0, lt=MAX_PAGES)]


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
    events: int = 0  #: queued for this connection so far
    name: WireName = ""  #: of the broker at its other end, for people; empty: it has none
    carries: bool = True  #: events may take it
    declared: bool = False  #: an end has named it for events


class NamedLinkStatus(msgspec.Struct, frozen=True):
    """A link that the operator of a broker has named for events."""

    url: str  #: of the broker at its other end
    uid: str | None  #: of that broker; None: the link is not up
    problem: str  #: why it is not; empty: it is


class MemoryStatus(msgspec.Struct, frozen=True):
    """What others make a broker hold, in bytes."""

    budget: int  #: above what the idle process takes
    limit: int  #: of it, for what is counted in ``held``
    held: dict[str, int]  #: by what it is


class VerdictStatus(msgspec.Struct, frozen=True):
    """What a broker holds for failed, link or broker, and on whose word; times since its start."""

    uid: str  #: of the broker, or of the one at the other end of the link
    incarnation: int
    verdict: Verdict
    witnesses: tuple[str, ...]
    at_s: float
    path: tuple[str, ...]  #: uids on the way round the link that is used now; empty if none is
    restored_s: float | None  #: when the link was back


class IncidentStatus(msgspec.Struct, frozen=True):
    """What befell a broker or a link, as this broker saw it; it is decided, and repaired."""

    uid: str  #: of the broker, or of the one at the other end of the link
    verdict: Verdict
    at_s: float  #: since the start of this broker: the first suspicion, or else the verdict
    detected_s: float | None  #: from the first suspicion to the verdict; None: it had none
    repaired_s: float | None  #: from the first suspicion until the ring was whole here


class UnitStatus(msgspec.Struct, frozen=True):
    """One unit, as the table of its context has it."""

    number: int
    lo: int  #: where its arc begins; it ends where that of the next one does
    size: int  #: its sub-units, as its steward has said last
    name: str = ""  #: that operators have given it; empty: none


class ContextStatus(msgspec.Struct, frozen=True):
    """A table that the broker holds: of the units of one level in its own context."""

    level: int  #: of what is in it: 3 to 1, and 0 for the members of its cluster
    lo: int  #: where the arc of the context begins ...
    hi: int  #: ... and the next one; equal if it is the whole ring
    epoch: int
    steward: str  #: uid of who made the table
    digest: int
    units: tuple[UnitStatus, ...] = ()  #: none at level 0


class LossStatus(msgspec.Struct, frozen=True):
    """Links between two units of one level were lost, as this broker saw it."""

    level: int  #: of the units: 0 for brokers of one cluster, 1 for clusters, and so on
    units: tuple[str, str]  #: as they are printed; of brokers their addresses
    kind: str  #: harmless, degraded or partition
    left: int  #: links that still joined the two
    at_s: float  #: since the start of this broker


class LevelStatus(msgspec.Struct, frozen=True):
    """The connections of this broker's own contexts, at one level."""

    level: int  #: 0 to 3
    cut_off: int  #: units to which no path leads at present; at level 0 brokers of its cluster
    lost: dict[str, int]  #: pairs of units that have lost links so far, by the kind of loss
    secure: str = ""  #: how the secure part of its own unit is; empty at level 0


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
    express_range_ms: float = 0.0  #: one way; 0: no express links
    kept_bytes: int = 0  #: of memory, for events to brokers whose links are lost
    replay_bytes: int = 0  #: of memory, for events kept for clients that lose their broker
    address: str | None = None  #: in the units, as printed; None: it has none
    members: int = 0  #: brokers that have an address, this one among them
    steward: WireUid | None = None  #: of the cluster; None before there is one
    name: WireName = ""  #: for people; empty: it has none
    more: PageCount = 0  #: pages that follow this one, as it would be too long for a frame
    warnings: tuple[str, ...] = ()  #: what is not as safe as its settings look, for people
    memory: MemoryStatus | None = None  #: None: an earlier version does not say
    incidents: tuple[IncidentStatus, ...] = ()  #: the latest, oldest first
    unit_limit: int = 0  #: sub-units that a unit may have; 0: an earlier version does not say
    contexts: tuple[ContextStatus, ...] = ()  #: tables of units, the highest level first
    losses: tuple[LossStatus, ...] = ()  #: of connections between units; the latest, oldest first
    levels: tuple[LevelStatus, ...] = ()  #: an earlier version does not say
    unit: str = ""  #: names of the units it stands in, such as eu/fra/a; empty: they have none
    unit_wanted: str = ""  #: names that it was given
    declared: bool = False  #: events take those of its links alone that an end has named
    event_links: tuple[NamedLinkStatus, ...] = ()  #: those that are named at this broker
    names_destinations: bool = True  #: events published here say whom they are for, else all
    without_way: tuple[str, ...] = ()  #: brokers and units that events from here do not reach
    unsure_share: float = 0.0  #: of the time on the ring, in which events from here went to all


class MoreStatus(Message, frozen=True):
    """Another page of a status: what had no room on those before."""

    more: PageCount  #: pages that follow this one
    backups: tuple[BackupStatus, ...]
    chords: tuple[Member, ...]
    suspects: tuple[WireUid, ...]
    links: tuple[LinkStatus, ...]
    verdicts: tuple[VerdictStatus, ...]
