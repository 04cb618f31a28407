"""Words of the oracle of events: what was published, how it came, what is excused, the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from overlay.ids import NANOS_PER_SECOND, LinkClass, Nanos
from overlay.trace_schema import Fate, Why


@dataclass(frozen=True, slots=True)
class Excuse:
    """Events that were published at a time and place may not come to some subscribers."""

    why: Why
    since: Nanos
    until: Nanos
    senders: Collection[str] | None = None  #: brokers they were published at; None: all
    receivers: Collection[str] | None = None  #: brokers of the subscribers; None: all

    def covers(self, at: Nanos, sender: str, receiver: str) -> bool:
        """Say whether it covers an event published at ``at``."""
        return (
            self.since <= at <= self.until
            and (self.senders is None or sender in self.senders)
            and (self.receivers is None or receiver in self.receivers)
        )


@dataclass(frozen=True, slots=True)
class Published:
    """One event."""

    at: Nanos
    broker: str  #: uid of the broker that its publisher was attached to
    topic: str = ""


FlowKey = tuple[str, LinkClass]  #: uid of the publisher


@dataclass(slots=True)
class Got:
    """How an event came to a subscriber."""

    at: Nanos  #: first
    copies: int = 1
    is_late: bool = False  #: after a later one of its publisher


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of one event at one subscriber."""

    subscriber: str
    receiver: str  #: uid of the subscriber's broker when it was published; empty: none yet
    flow: FlowKey
    sequence: int
    event: Published
    got: Got | None
    fate: Fate
    why: Why | None


@dataclass(slots=True)
class Verdict:
    """What became of all events at all subscribers."""

    fates: Counter[Fate] = field(default_factory=Counter)
    lost: Counter[Why] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  #: those of the findings that say it is lost
    longest_ns: Nanos = 0  #: from publisher to subscriber

    def __str__(self) -> str:
        fates = ", ".join(f"{count} {fate}" for fate, count in self.fates.items())
        lost = ", ".join(f"{count} {why}" for why, count in self.lost.items())
        return f"{fates} ({lost or 'none lost'}), {self.longest_ns / NANOS_PER_SECOND:.3f} s"
