"""What a broker asks sources for, and what it answers as a source.

An edge that doubts whether it has had all asks the broker where the events were published
(:mod:`ges.order.flow_order`), which looks into its log (:mod:`ges.order.recall`). The answers come
as events for the asker alone; the end of the answer is a message.

While a broker is off the ring, no event names it, and the log says that none was for it. So a
broker that has just come back asks as one that waits for a slot does: it is told the topics, and
chooses.

Of the last events of a publisher no later one raises a doubt. So when a broker has died, each
source tells all that it has sent events to of late which of them was the last one (:class:`Tails`).
A broker that lacks it asks.

Questions and answers are returned to be sent, as letters (:class:`Mail`) and as events
(:class:`Answer`). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ges.gateways.cluster import Cluster
from ges.order.flow_order import FlowOrdering
from ges.order.recall import RecallLog
from ges.telling.post import ANYBODY, Mail
from ges.units.address import LEVELS
from ges.wire.event_runs import EventRun
from ges.wire.recall_messages import (
    MAX_TAILS,
    PastWanted,
    RangeDone,
    RangeQuery,
    Tails,
    WantedRange,
)
from overlay.ids import Nanos, nanos
from overlay.machine import Message

TAILS_NS = nanos(0.3)  #: after a death others send on what they kept; then tails are told


@dataclass(frozen=True, slots=True)
class Answer:
    """Events for one member alone, flagged as recalled."""

    slot: int
    run: EventRun
    age_ms: int = 0  #: of events that clients are to get that have moved; else 0
    address: int | None = None  #: packed, of a broker of another cluster
    place: int | None = None  #: ring id of a broker that waits for a slot; it has no address


@dataclass(slots=True)
class Outbound:
    """What is to be sent, and what clients here are to get now."""

    events: list[Answer] = field(default_factory=list)  #: before the letters
    mail: list[Mail] = field(default_factory=list)
    to_all: list[PastWanted] = field(default_factory=list)  #: all brokers of the overlay
    ready: list[EventRun] = field(default_factory=list)


class Recalls:
    """Both sides of one broker."""

    def __init__(self, ordering: FlowOrdering, log: RecallLog, cluster: Cluster) -> None:
        self.ordering = ordering
        self.log = log
        self.place: int | None = None  #: ring id of this broker
        self._cluster = cluster
        self._members: Mapping[str, int] = {}
        self._namings = 0
        self._tails_at: Nanos | None = None

    # ── as an edge ────────────────────────────────────────────────────────────────────────────

    def take(self, run: EventRun, now: Nanos) -> Sequence[EventRun]:
        """Take events that were asked for; return what clients are to get."""
        return self.ordering.recalled(run)

    def questions(self, now: Nanos) -> Outbound:
        """Return what is to be asked now."""
        out = Outbound()
        slot = self._cluster.slot
        for source, ranges in self.ordering.take_questions(now):
            uid = self._cluster.places.get(source)
            if slot is None or self.ordering.is_back(now):
                self._ask_by_place(source, ranges, now, out)
                continue
            if uid is None:
                if self._cluster.levels > 1:
                    query = RangeQuery(slot, ranges, self._cluster.address, self.place)
                    out.mail.append(Mail(ANYBODY, query, source))
                continue
            query = RangeQuery(slot, ranges)
            if source == self.place:
                self._answer(query, now, out)
            else:
                out.mail.append(Mail(uid, query))
        return out

    # ── messages ──────────────────────────────────────────────────────────────────────────────

    def on_message(self, uid: str, message: Message, now: Nanos) -> Outbound:
        """Take a question, an answer, or a word about what should have come."""
        out = Outbound()
        if isinstance(message, RangeQuery):
            if self._cluster.slots.get(uid) == message.asker or message.place is not None:
                self._answer(message, now, out, uid)
        elif isinstance(message, RangeDone):
            out.ready += self.ordering.settle(message, now)
        elif isinstance(message, Tails):
            for tail in message.flows:
                self.ordering.learn(tail, message.source, now)
        return out

    # ── as a source ───────────────────────────────────────────────────────────────────────────

    def follow(self, now: Nanos) -> None:
        """Look who is a member: where one is gone, others may miss what it had."""
        if self._cluster.namings != self._namings:
            self._namings = self._cluster.namings
            self.log.rename()
            self.ordering.unsure()
            self._tails_at = now + TAILS_NS if self._tails_at is None else self._tails_at
        slots = self._cluster.slots
        if slots is self._members:
            return
        if not self._members.keys() <= slots.keys() and self._tails_at is None:
            self._tails_at = now + TAILS_NS
        self._members = slots

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`expire` has something to do."""
        asked = self.ordering.next_deadline()
        if asked is None or self._tails_at is None:
            return asked if self._tails_at is None else self._tails_at
        return min(asked, self._tails_at)

    def expire(self, now: Nanos) -> Outbound:
        """Ask again, give up what is not answered, tell tails."""
        ready = self.ordering.expire(now)
        out = self.questions(now)
        out.ready = [*ready, *out.ready]
        if self._tails_at is not None and self._tails_at <= now:
            self._tails_at = None
            out.mail += self._tails(now)
        return out

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _ask_by_place(
        self, source: int, ranges: tuple[WantedRange, ...], now: Nanos, out: Outbound
    ) -> None:
        """Ask as a broker that has no slot, or had none: answers are led to its place."""
        if self.place is None:
            return  # nobody can say: it is waited for
        query = RangeQuery(0, ranges, None, self.place)
        if source == self.place:
            self._answer(query, now, out)
        else:
            out.mail.append(Mail(ANYBODY, query, source))

    def _answer(self, query: RangeQuery, now: Nanos, out: Outbound, uid: str = "") -> None:
        # Who is member of another cluster may have been one of this one a moment ago.
        asker, address = 1 << query.asker, query.address
        common = 1
        if address is not None:
            asker |= self._cluster.toward(address)
            common = self._cluster.common_level(query.place) if query.place is not None else LEVELS
        elif query.place is not None:
            asker, common = -1, self._cluster.common_level(query.place)
        runs, ends = self.log.answer(query, now, asker, common)
        if not uid:  # this broker asks itself: what is not here is nowhere
            for run in runs:
                out.ready += self.ordering.recalled(run)
            for end in ends:
                out.ready += self.ordering.settle(end, now)
            return
        place = query.place if address is None else None
        out.events += [Answer(query.asker, run, address=address, place=place) for run in runs]
        out.mail += [Mail(uid, end, query.place) for end in ends]

    def _tails(self, now: Nanos) -> Iterable[Mail]:
        if self.place is None:
            return
        for slot, flows in self.log.tails(now).items():
            uid = self._cluster.uids.get(slot)
            if uid is None or slot == self._cluster.slot:
                continue
            for at in range(0, len(flows), MAX_TAILS):
                yield Mail(uid, Tails(self.place, tuple(flows[at : at + MAX_TAILS])))
