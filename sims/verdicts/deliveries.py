"""What became of each event at each subscriber: once, in order, or not, and why.

The oracle of whole brokers. It is told what publishers publish, what subscribers get, and what was
done to the network; it knows the promises of ``docs/reliability.md``. An event that a subscriber
did not get is lost; where an :class:`Excuse` covers it that is allowed, and else a finding. What
comes twice or after a later event of its publisher is a finding, whatever happened.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from overlay.ids import NANOS_PER_SECOND, LinkClass, Nanos, nanos, short

FOREVER: Nanos = 2**62
MOVING_NS = nanos(4.0)  #: an event may be under way so long when a subscriber loses its broker
KEPT_NS = nanos(9.0)  #: a broker that a subscriber moves to has what was published so long ago
MET_NS = nanos(2.0)  #: a broker that has just joined waits so long for what it may have missed
DYING_NS = nanos(2.0)  #: what a broker has acknowledged and not passed on is no older than this


class Fate(StrEnum):
    """What became of one event at one subscriber."""

    ONCE = "once"
    TWICE = "twice"  #: or more often
    DISORDERED = "disordered"  #: it came after a later event of its publisher
    LOST = "lost"


class Why(StrEnum):
    """Why an event is lost."""

    REFUSED = "refused"  #: its publisher was told so
    NOT_TAKEN = "not taken"  #: no broker has confirmed it to its publisher
    NO_BROKER = "no broker"  #: the subscriber had none for long, or moved to one that is new
    BROKER_DIED = "broker died"  #: one that may have had it, and had not passed it on
    AWAY = "away"  #: a broker was held for dead, or off the ring
    APART = "apart"  #: the two brokers could not reach each other
    EXPRESS = "express"  #: nothing holds such an event back where a link fails
    UNEXPLAINED = "unexplained"  #: a promise is broken


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


FlowKey = tuple[str, LinkClass]  #: uid of the publisher


@dataclass(slots=True)
class _Subscriber:
    since: Nanos = FOREVER  #: it was served first
    moves: list[tuple[Nanos, str]] = field(default_factory=list)  #: brokers, and since when
    #: without a broker, and to which it moved then
    gaps: list[tuple[Nanos, Nanos, str]] = field(default_factory=list)
    lost_at: Nanos | None = None  #: it has none now
    got: dict[FlowKey, list[int]] = field(default_factory=lambda: defaultdict(list))

    def broker_at(self, at: Nanos) -> str:
        """Return the broker it was attached to then."""
        index = bisect_right(self.moves, (at, "~")) - 1
        return self.moves[max(index, 0)][1] if self.moves else ""


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


class Deliveries:
    """Takes note of all that happens, and judges it in the end. Times are virtual."""

    def __init__(self) -> None:
        self.excuses: list[Excuse] = []
        self.express_in_order = True  #: no link fails, so express events come in order as well
        self._published: dict[FlowKey, dict[int, Published]] = defaultdict(dict)
        self._refused: dict[FlowKey, dict[int, str]] = defaultdict(dict)
        self._accepted: dict[FlowKey, int] = defaultdict(int)
        self._subscribers: dict[str, _Subscriber] = defaultdict(_Subscriber)
        self._joined: dict[str, Nanos] = {}  #: when each broker joined last
        self._longest: Nanos = 0

    # ── what publishers tell ──────────────────────────────────────────────────────────────────

    def on_published(self, flow: FlowKey, sequence: int, at: Nanos, broker: str) -> None:
        """An event was handed to a broker."""
        self._published[flow][sequence] = Published(at, broker)

    def on_accepted(self, flow: FlowKey, sequence: int) -> None:
        """All events up to that one are taken, but for those refused."""
        self._accepted[flow] = max(self._accepted[flow], sequence)

    def on_refused(self, flow: FlowKey, sequence: int, reason: str) -> None:
        """An event is refused."""
        self._refused[flow][sequence] = reason

    # ── what subscribers tell ─────────────────────────────────────────────────────────────────

    def on_subscribed(self, name: str, at: Nanos, broker: str) -> None:
        """A broker serves a subscriber from now on."""
        subscriber = self._subscribers[name]
        subscriber.since = min(subscriber.since, at)
        subscriber.moves.append((at, broker))
        if subscriber.lost_at is not None:
            subscriber.gaps.append((subscriber.lost_at, at, broker))
            subscriber.lost_at = None

    def on_unserved(self, name: str, at: Nanos) -> None:
        """A subscriber has no broker from now on, whether it knows that or not."""
        subscriber = self._subscribers[name]
        if subscriber.lost_at is None and subscriber.moves:
            subscriber.lost_at = at

    def on_got(self, name: str, flow: FlowKey, sequence: int, at: Nanos) -> None:
        """An event has come to a subscriber."""
        self._subscribers[name].got[flow].append(sequence)
        published = self._published[flow].get(sequence)
        if published is not None:
            self._longest = max(self._longest, at - published.at)

    # ── what the world tells ──────────────────────────────────────────────────────────────────

    def on_death(self, at: Nanos) -> None:
        """A broker died; what it had acknowledged and not passed on is lost with it."""
        self.excuses.append(Excuse(Why.BROKER_DIED, at - DYING_NS, at))

    def on_joined(self, broker: str, at: Nanos) -> None:
        """A broker has its place on the ring from now on."""
        self._joined[broker] = at

    # ── the verdict ───────────────────────────────────────────────────────────────────────────

    def verdict(self, now: Nanos = 0) -> Verdict:
        """Judge all that was noted; who has had no broker for long by ``now`` is a finding."""
        verdict = Verdict(longest_ns=self._longest)
        for name, subscriber in self._subscribers.items():
            if subscriber.lost_at is not None and now - subscriber.lost_at > KEPT_NS:
                verdict.findings.append(f"{name} finds no broker")
            for flow, published in self._published.items():
                self._judge(verdict, name, subscriber, flow, published)
        verdict.findings += verdict.missing
        return verdict

    def _judge(
        self,
        verdict: Verdict,
        name: str,
        subscriber: _Subscriber,
        flow: FlowKey,
        published: dict[int, Published],
    ) -> None:
        got = subscriber.got[flow]
        times = Counter(got)
        late = set(_late(got))
        is_express = flow[1] is LinkClass.EXPRESS
        label = f"{flow[1].value} event {{}} of {short(flow[0])} at {name}"
        for sequence, event in published.items():
            if times[sequence] > 1:
                verdict.fates[Fate.TWICE] += 1
                verdict.findings.append(f"{label.format(sequence)} came {times[sequence]} times")
            elif times[sequence]:
                is_late = sequence in late and (self.express_in_order or not is_express)
                verdict.fates[Fate.DISORDERED if is_late else Fate.ONCE] += 1
                if is_late:
                    verdict.findings.append(f"{label.format(sequence)} came after a later one")
                refusal = self._refused[flow].get(sequence)
                if refusal is not None and "may have delivered" not in refusal:
                    verdict.findings.append(f"{label.format(sequence)} came, but was refused")
            elif event.at >= subscriber.since:
                why = self._why(subscriber, flow, sequence, event)
                verdict.fates[Fate.LOST] += 1
                verdict.lost[why] += 1
                if why is Why.UNEXPLAINED:
                    at = event.at / NANOS_PER_SECOND
                    verdict.missing.append(f"{label.format(sequence)} of {at:.3f} s is lost")
        verdict.findings += [
            f"{label.format(sequence)} came, but nobody published it"
            for sequence in times
            if sequence not in published
        ]

    def _why(self, subscriber: _Subscriber, flow: FlowKey, sequence: int, event: Published) -> Why:
        if sequence in self._refused[flow]:
            return Why.REFUSED
        if sequence > self._accepted[flow]:
            return Why.NOT_TAKEN
        gaps = [*subscriber.gaps]
        if subscriber.lost_at is not None:
            gaps.append((subscriber.lost_at, FOREVER, ""))
        for since, until, broker in gaps:
            if since - MOVING_NS <= event.at <= until:
                is_new = self._joined.get(broker, 0) > since - MOVING_NS - MET_NS
                if is_new or until - event.at > KEPT_NS:
                    return Why.NO_BROKER
        receiver = subscriber.broker_at(event.at)
        for excuse in self.excuses:
            if excuse.covers(event.at, event.broker, receiver):
                return excuse.why
        if flow[1] is LinkClass.EXPRESS and not self.express_in_order:
            return Why.EXPRESS
        return Why.UNEXPLAINED


def _late(got: list[int]) -> Iterator[int]:
    """Yield what came after a later one."""
    highest = 0
    for sequence in got:
        if sequence < highest:
            yield sequence
        highest = max(highest, sequence)
