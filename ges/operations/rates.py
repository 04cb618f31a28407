"""What goes on at the brokers of a ring: two looks at their counters, and what is between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ges.operations.links import told_links
from ges.wire.status import Status
from overlay.ids import LinkClass


@dataclass(frozen=True, slots=True)
class BrokerActivity:
    """One broker; rates are events a second between two looks, None before the second one."""

    status: Status
    published_per_s: float | None  #: by its clients
    received_per_s: float | None  #: from other brokers
    delivered_per_s: float | None  #: to its clients
    forwarded_per_s: float | None  #: to other brokers
    lost_per_s: float | None  #: dropped, refused or given up, for whatever reason

    @property
    def clients(self) -> int:
        """Clients attached to it, but for those that only ask for the status."""
        return self.status.clients

    @property
    def queued_bytes(self) -> int:
        """Bytes in the queues of all its links."""
        return sum(link.queued_bytes for link in self.status.links)


@dataclass(frozen=True, slots=True)
class LinkActivity:
    """A link as its two ends tell of it; one that only one end tells of comes up, or goes."""

    ends: tuple[str, str]  #: uids
    link_class: LinkClass
    rtt_ms: float | None  #: the worse of both ends
    traffic: int  #: bytes a second, both ways together
    queued_bytes: int  #: both ways together
    resets: float
    told_by: int  #: ends


#: Counters of what does not come where it should.
LOST = (
    "events_refused",
    "events_lost",
    "events_without_link",
    "events_too_many_hops",
    "events_unacknowledged_dropped",
    "events_dropped_for_clients",
    "express_dropped_for_clients",
)


def brokers_between(before: Iterable[Status], after: Iterable[Status]) -> list[BrokerActivity]:
    """Return what each broker of the second look has done since the first one.

    A broker that was not met before, or has begun anew, has no rates.
    """
    known = {(status.uid, status.incarnation): status for status in before}
    return [_compare(known.get((each.uid, each.incarnation)), each) for each in after]


def links_of(brokers: Iterable[Status]) -> list[LinkActivity]:
    """Return all links, those with most traffic first."""
    found = [
        LinkActivity(
            (low, high),
            link_class,
            max((end.rtt_ms for end in told.values() if end.rtt_ms is not None), default=None),
            sum(end.traffic for end in told.values()),
            sum(end.queued_bytes for end in told.values()),
            max(end.resets for end in told.values()),
            len(told),
        )
        for (low, high, link_class), told in told_links(brokers).items()
    ]
    return sorted(found, key=lambda link: (-link.traffic, link.ends, link.link_class))


def _compare(before: Status | None, after: Status) -> BrokerActivity:
    def rate(*names: str) -> float | None:
        seconds = after.uptime_s - before.uptime_s if before is not None else 0.0
        if before is None or seconds <= 0:
            return None
        grown = sum(after.counters.get(n, 0) - before.counters.get(n, 0) for n in names)
        return grown / seconds

    return BrokerActivity(
        after,
        rate("events_published"),
        rate("events_received"),
        rate("events_delivered"),
        rate("events_forwarded"),
        rate(*LOST),
    )
