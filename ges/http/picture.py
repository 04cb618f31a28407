"""What the live page draws: the brokers of a ring, their links, and what befell them of late."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from overlay.ids import LinkClass
from overlay.trace_schema import Verdict


class State(StrEnum):
    """How a broker is, as far as the others know."""

    ALIVE = "alive"
    SILENT = "silent"  #: it does not answer the broker that draws, and nobody suspects it yet
    SUSPECTED = "suspected"
    DEAD = "dead"  #: confirmed by witnesses
    LEFT = "left"  #: of its own will


class BrokerPicture(msgspec.Struct, frozen=True, kw_only=True):
    """One broker. What only it can say is None where it has not been asked."""

    uid: str
    incarnation: int
    url: str
    place: float  #: on the ring, from 0 to 1
    state: State
    since_s: float | None = None  #: in this state, where it is not alive
    address: str | None = None  #: in the units
    degree: int = 0  #: brokers that it has normal links to, as far as they are known
    version: str | None = None
    uptime_s: float | None = None
    clients: int | None = None
    subscriptions: int | None = None
    published_per_s: float | None = None  #: events taken from its clients
    delivered_per_s: float | None = None  #: deliveries to its clients
    told_s: float | None = None  #: seconds since it said so


class LinkPicture(msgspec.Struct, frozen=True, kw_only=True):
    """One link, both ways in one; of what both ends measure the worse."""

    a: str
    b: str
    link_class: LinkClass = msgspec.field(name="class")
    rtt_ms: float | None = None
    jitter_ms: float | None = None
    cost_ms: float | None = None
    traffic: int = 0  #: bytes per second
    queued_bytes: int = 0
    resets: float = 0.0
    events_per_s: float | None = None  #: both ways
    failed: bool = False  #: by verdict, and not restored
    demoted: bool = False


class IncidentPicture(msgspec.Struct, frozen=True, kw_only=True):
    """What befell a broker or a link; times are the observers' own, joined."""

    uid: str
    verdict: Verdict
    ago_s: float
    detected_s: float | None  #: from the first suspicion to the verdict
    repaired_s: float | None  #: from the first suspicion to a ring that is whole everywhere
    observers: int


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, at one moment."""

    broker: str  #: uid of the one that draws
    overlay: str
    is_whole: bool  #: the ring is whole where the one that draws stands
    brokers: tuple[BrokerPicture, ...]  #: in ring order
    links: tuple[LinkPicture, ...]
    incidents: tuple[IncidentPicture, ...]  #: latest first
