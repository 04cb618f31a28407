"""What became of each event at each subscriber: once, in order, or not, and why.

The oracle of whole brokers. It is told what publishers publish, what subscribers get, and what was
done to the network; it knows the promises of ``docs/reliability.md``. An event that a subscriber
did not get is lost; where an :class:`Excuse` covers it that is allowed, and else a finding. An
event that comes twice, or after a later event of its publisher, is a finding, whatever happened.

Events that are old enough are judged while the run goes on (:meth:`Deliveries.settle`), told to the
writer of rows, and forgotten, so that memory does not grow with the length of a run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from overlay.ids import NANOS_PER_SECOND, Nanos, nanos, short
from overlay.trace_schema import Fate, Why
from sims.verdicts.judged import Excuse, FlowKey, Got, Judged, Published, Verdict

FOREVER: Nanos = 2**62
MOVING_NS = nanos(4.0)  #: an event may be under way so long when a subscriber loses its broker
KEPT_NS = nanos(9.0)  #: a broker that a subscriber moves to has what was published so long ago
MET_NS = nanos(2.0)  #: a broker that has just joined waits so long for what it may have missed
DYING_NS = nanos(2.0)  #: what a broker has acknowledged and not passed on is no older than this


@dataclass(slots=True)
class _Flow:
    """The events of one publisher and class."""

    published: dict[int, Published] = field(default_factory=dict)  #: that are not settled
    refused: dict[int, str] = field(default_factory=dict)
    accepted: int = 0
    settled: int = 0  #: those up to this one are judged and forgotten


@dataclass(slots=True)
class _Subscriber:
    wants: str | None = None  #: topic; None: all
    since: Nanos = FOREVER  #: it was served first
    moves: list[tuple[Nanos, str]] = field(default_factory=list)  #: brokers, and since when
    #: without a broker, and to which it moved then
    gaps: list[tuple[Nanos, Nanos, str]] = field(default_factory=list)
    lost_at: Nanos | None = None  #: it has none now
    got: dict[FlowKey, dict[int, Got]] = field(default_factory=lambda: defaultdict(dict))
    highest: dict[FlowKey, int] = field(default_factory=lambda: defaultdict(int))

    def broker_at(self, at: Nanos) -> str:
        """Return the broker it was attached to then."""
        index = bisect_right(self.moves, (at, "~")) - 1
        return self.moves[max(index, 0)][1] if self.moves else ""


class Deliveries:
    """Takes note of all that happens, and judges it in the end. Times are virtual."""

    def __init__(self) -> None:
        self.excuses: list[Excuse] = []
        self.express_in_order = True  #: no link fails, so express events come in order as well
        self.is_wrong = False  #: an event came twice, or after a later one
        self.on_judged: Callable[[Judged], None] | None = None  #: told of all that is settled
        self._flows: dict[FlowKey, _Flow] = defaultdict(_Flow)
        self._subscribers: dict[str, _Subscriber] = defaultdict(_Subscriber)
        self._joined: dict[str, Nanos] = {}  #: when each broker joined last
        self._settled = Verdict()

    # ── what publishers tell ──────────────────────────────────────────────────────────────────

    def on_published(
        self, flow: FlowKey, sequence: int, at: Nanos, broker: str, topic: str = ""
    ) -> None:
        """An event was handed to a broker."""
        self._flows[flow].published[sequence] = Published(at, broker, topic)

    def on_accepted(self, flow: FlowKey, sequence: int) -> None:
        """All events up to that one are taken, but for those refused."""
        self._flows[flow].accepted = max(self._flows[flow].accepted, sequence)

    def on_refused(self, flow: FlowKey, sequence: int, reason: str) -> None:
        """An event is refused."""
        self._flows[flow].refused[sequence] = reason

    # ── what subscribers tell ─────────────────────────────────────────────────────────────────

    def wants(self, name: str, topic: str) -> None:
        """A subscriber is owed the events of that topic, and no others."""
        self._subscribers[name].wants = topic

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
        subscriber, known = self._subscribers[name], self._flows[flow]
        if sequence <= known.settled:
            label = _label(flow, sequence, name)
            self._settled.findings.append(f"{label} came when it was long given up, or again")
            return
        got, highest = subscriber.got[flow].get(sequence), subscriber.highest[flow]
        if got is None:
            got = subscriber.got[flow][sequence] = Got(at)
        else:
            got.copies += 1
        got.is_late |= sequence < highest
        in_order = self.express_in_order or flow[1].is_ordered
        self.is_wrong |= got.copies > 1 or (got.is_late and in_order)
        subscriber.highest[flow] = max(highest, sequence)
        published = known.published.get(sequence)
        if published is not None:
            self._settled.longest_ns = max(self._settled.longest_ns, at - published.at)

    # ── what the world tells ──────────────────────────────────────────────────────────────────

    def on_death(self, at: Nanos) -> None:
        """A broker died; what it had acknowledged and not passed on is lost with it."""
        self.excuses.append(Excuse(Why.BROKER_DIED, at - DYING_NS, at))

    def on_joined(self, broker: str, at: Nanos) -> None:
        """A broker has its place on the ring from now on."""
        self._joined[broker] = at

    # ── the verdict ───────────────────────────────────────────────────────────────────────────

    def settle(self, before: Nanos = FOREVER) -> None:
        """Judge what was published before that time, tell it, and forget it.

        Whatever may still come, or be excused, must be younger.
        """
        old = {
            flow: {at: event for at, event in known.published.items() if event.at < before}
            for flow, known in self._flows.items()
        }
        self._judge_all(self._settled, old, self.on_judged)
        for flow, events in old.items():
            known = self._flows[flow]
            known.settled = max(events, default=known.settled)
            for sequence in events:
                del known.published[sequence]
                known.refused.pop(sequence, None)
                for subscriber in self._subscribers.values():
                    subscriber.got[flow].pop(sequence, None)
        for subscriber in self._subscribers.values():
            subscriber.gaps = [gap for gap in subscriber.gaps if gap[1] >= before - MOVING_NS]
            while len(subscriber.moves) > 1 and subscriber.moves[1][0] < before:
                del subscriber.moves[0]
        self.excuses = [excuse for excuse in self.excuses if excuse.until >= before]

    def verdict(self, now: Nanos = 0) -> Verdict:
        """Judge all that was noted; who has had no broker for long by ``now`` is a finding."""
        settled = self._settled
        verdict = replace(
            settled,
            fates=Counter(settled.fates),
            lost=Counter(settled.lost),
            findings=list(settled.findings),
            missing=list(settled.missing),
        )
        for name, subscriber in self._subscribers.items():
            if subscriber.lost_at is not None and now - subscriber.lost_at > KEPT_NS:
                verdict.findings.append(f"{name} finds no broker")
        self._judge_all(verdict, {flow: known.published for flow, known in self._flows.items()})
        for name, subscriber in self._subscribers.items():
            for flow, got in subscriber.got.items():
                verdict.findings += [
                    f"{_label(flow, sequence, name)} came, but nobody published it"
                    for sequence in got
                    if sequence not in self._flows[flow].published
                ]
        verdict.findings += verdict.missing
        return verdict

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _judge_all(
        self,
        verdict: Verdict,
        events: Mapping[FlowKey, Mapping[int, Published]],
        told: Callable[[Judged], None] | None = None,
    ) -> None:
        for name, subscriber in self._subscribers.items():
            for flow, published in events.items():
                for sequence, event in published.items():
                    judged = self._judge(verdict, name, subscriber, flow, sequence, event)
                    if judged is not None and told is not None:
                        told(judged)

    def _judge(
        self,
        verdict: Verdict,
        name: str,
        subscriber: _Subscriber,
        flow: FlowKey,
        sequence: int,
        event: Published,
    ) -> Judged | None:
        """Judge one event at one subscriber; None: it was not owed, and did not come."""
        got, why = subscriber.got[flow].get(sequence), None
        is_owed = subscriber.wants is None or subscriber.wants == event.topic
        if got is None:
            if event.at < subscriber.since or not is_owed:
                return None
            fate, why = Fate.LOST, self._why(subscriber, flow, sequence, event)
            verdict.lost[why] += 1
            if why is Why.UNEXPLAINED:
                at = event.at / NANOS_PER_SECOND
                receiver = short(subscriber.broker_at(event.at))
                verdict.missing.append(
                    f"{_label(flow, sequence, name)} of {at:.3f} s is lost "
                    f"[{short(event.broker)} to {receiver}]"
                )
        elif got.copies > 1:
            fate = Fate.TWICE
            verdict.findings.append(f"{_label(flow, sequence, name)} came {got.copies} times")
        else:
            is_express = flow[1].is_timed
            is_late = got.is_late and (self.express_in_order or not is_express)
            fate = Fate.DISORDERED if is_late else Fate.ONCE
            if is_late:
                verdict.findings.append(f"{_label(flow, sequence, name)} came after a later one")
            refusal = self._flows[flow].refused.get(sequence)
            if refusal is not None and "may have delivered" not in refusal:
                verdict.findings.append(f"{_label(flow, sequence, name)} came, but was refused")
            if not is_owed:
                verdict.findings.append(f"{_label(flow, sequence, name)} came, and is not wanted")
        verdict.fates[fate] += 1
        receiver = subscriber.broker_at(event.at)
        return Judged(name, receiver, flow, sequence, event, got, fate, why)

    def _why(self, subscriber: _Subscriber, flow: FlowKey, sequence: int, event: Published) -> Why:
        if sequence in self._flows[flow].refused:
            return Why.REFUSED
        if sequence > self._flows[flow].accepted:
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
        if not flow[1].is_ordered and not self.express_in_order:
            return Why.EXPRESS
        return Why.UNEXPLAINED


def _label(flow: FlowKey, sequence: int, name: str) -> str:
    return f"{flow[1].value} event {sequence} of {short(flow[0])} at {name}"
