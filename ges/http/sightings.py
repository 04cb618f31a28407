"""What brokers have said of themselves, and how fast their counters grow between two answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ges.wire.status import LinkStatus, Status
from overlay.ids import LinkClass

LinkEnd = tuple[str, LinkClass]  #: the uid at the other end, and the class

LEAST_SECONDS = 0.4  #: between two answers of which a rate is made
CALM = 0.4  #: how much of a change counts at once


@dataclass(frozen=True, slots=True)
class Sighting:
    """One broker's latest answer, and rates per second since an earlier one; None: not known."""

    status: Status
    at: float  #: seconds, by the clock of the one that asked
    is_asked: bool = False  #: as a client of the broker; not where a broker speaks of itself
    published: float | None = None
    delivered: float | None = None
    sent: Mapping[LinkEnd, float] | None = None  #: events sent over each link
    base: Sighting | None = None  #: the earlier answer

    def follow(self, status: Status, at: float) -> Sighting:
        """Return the sighting that follows when the broker answers again."""
        base = self if at - self.at >= LEAST_SECONDS or self.base is None else self.base
        if base.status.incarnation != status.incarnation:
            return Sighting(status, at, self.is_asked)
        seconds = status.uptime_s - base.status.uptime_s
        if seconds < LEAST_SECONDS:
            rates = (self.published, self.delivered, self.sent)
            return Sighting(status, at, self.is_asked, *rates, base)
        before = {(link.uid, link.link_class): link for link in base.status.links}
        old = self.sent or {}
        sent = {
            key: _calm(old.get(key), _sent(link, before) / seconds)
            for link in status.links
            for key in [(link.uid, link.link_class)]
        }
        return Sighting(
            status,
            at,
            self.is_asked,
            _calm(self.published, _grown(base.status, status, "events_published") / seconds),
            _calm(self.delivered, _grown(base.status, status, "events_delivered") / seconds),
            sent,
            Sighting(self.status, self.at, self.is_asked),
        )


def _calm(before: float | None, now: float) -> float:
    """Return a rate that does not jump; one that was 0, or is, is told as it is."""
    return now if not before or not now else before + CALM * (now - before)


def _grown(before: Status, after: Status, counter: str) -> int:
    return max(0, after.counters.get(counter, 0) - before.counters.get(counter, 0))


def _sent(link: LinkStatus, before: Mapping[LinkEnd, LinkStatus]) -> int:
    earlier = before.get((link.uid, link.link_class))
    if earlier is None or link.events < earlier.events:  # it is a new connection
        return link.events
    return link.events - earlier.events
