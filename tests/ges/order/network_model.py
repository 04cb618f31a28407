"""A small network of brokers in virtual time: paths, ways, logs and order, and nothing else.

Links are streams that keep order, and are of very different speed. What a link costs changes, and
each broker knows of it late. Brokers die; the others find that out late and unevenly, and send
again what the dead one may not have passed on. Questions and answers go straight to the one asked,
after the time of the way.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

from ges.gateways.costs import BUCKETS_NS
from ges.gateways.graph import Graph, Link
from ges.gateways.next_hops import NextHops
from ges.order.flow_order import FlowOrdering
from ges.order.recall import RecallLog
from ges.order.via import Tokens
from ges.wire.event_runs import EventRun
from ges.wire.events import Flow, pack_event, read_head
from ges.wire.recall_messages import RangeQuery
from overlay.ids import LinkClass, Nanos, nanos

MS = nanos(0.001)
AGAIN_NS = nanos(0.25)  #: what waits for a way is tried again after that


def event(flow: Flow, sequence: int, payload: bytes = b"x", topic: bytes = b"t") -> EventRun:
    """Return a run of one."""
    publisher, incarnation, link_class = flow
    secure = link_class is LinkClass.SECURE
    body = pack_event(secure, publisher, incarnation, sequence, 0, topic, b"", payload)
    return EventRun.of(read_head(body), body)


@dataclass(frozen=True, slots=True)
class Copy:
    """An event on its way."""

    run: EventRun
    mask: int
    via: int
    source: int
    trace: int = 0
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """A copy that was sent, as it was before it was sent."""

    copy: Copy
    at: Nanos


@dataclass
class Broker:
    """One broker."""

    slot: int
    graph: dict[tuple[int, int], int]  #: bucket of each link, as known here
    ties: dict[tuple[int, int], int]
    tokens: Tokens[int]
    order: FlowOrdering = field(default_factory=FlowOrdering)
    log: RecallLog = field(default_factory=RecallLog)
    kept: dict[int, list[Kept]] = field(default_factory=dict)
    waiting: list[Copy] = field(default_factory=list)
    got: list[tuple[Flow, int]] = field(default_factory=list)
    held_at: dict[tuple[Flow, int], Nanos] = field(default_factory=dict)
    #: Of events that were held: for how long, and how long the way to the source takes.
    waits: list[tuple[Nanos, Nanos]] = field(default_factory=list)
    lives: bool = True
    buried: int = 0  #: mask of those known to be dead

    def __post_init__(self) -> None:
        self.hops = NextHops(self.slot)
        self.hops.update(self._known())

    def _known(self) -> Graph:
        return Graph(
            Link(a, b, BUCKETS_NS[bucket], self.ties[a, b]) for (a, b), bucket in self.graph.items()
        )

    def recompute(self) -> int:
        """Compute paths anew; return which next hops have taken a destination over."""
        return self.hops.update(self._known()).onto


class Network:
    """All of them."""

    def __init__(
        self,
        n: int,
        seed: int,
        *,
        renews: bool = True,
        renews_after: bool = True,
        retains: bool = True,
    ) -> None:
        """Take what to leave out: renewed tokens, those after something was given away, ..."""
        self.rng = random.Random(seed)
        self.now: Nanos = 0
        self.renews, self.renews_after, self.retains = renews, renews_after, retains
        self._agenda: list[tuple[Nanos, int, Callable[[], None]]] = []
        self._count = count()
        pairs = {
            (min(a, b), max(a, b)) for a in range(n) for b in ((a + 1) % n, (a + 2) % n) if a != b
        }
        self.buckets = {pair: self.rng.randrange(12) for pair in sorted(pairs)}
        ties = {pair: self.rng.getrandbits(56) for pair in sorted(pairs)}
        #: How long each link takes, which costs need not agree with.
        self.takes = {pair: self.rng.choice((1, 2, 5, 20, 60)) * MS for pair in sorted(pairs)}
        self._free: dict[tuple[int, int], Nanos] = {}
        self._cut: set[tuple[int, int]] = set()
        self.brokers = [
            Broker(slot, dict(self.buckets), ties, Tokens(self.rng)) for slot in range(n)
        ]
        self.meant: dict[tuple[int, Flow], list[int]] = {}  #: (edge, flow) -> numbers
        self.frames = self.batches = 0
        self.published: dict[Flow, int] = {}
        self.home: dict[Flow, int] = {}

    # ── time ──────────────────────────────────────────────────────────────────────────────────

    def at(self, when: Nanos, do: Callable[[], None]) -> None:
        """Do something at a time."""
        heapq.heappush(self._agenda, (when, next(self._count), do))

    def run(self, until: Nanos | None = None) -> None:
        """Let time pass until nothing happens any more."""
        while self._agenda and (until is None or self._agenda[0][0] <= until):
            self.now, _, do = heapq.heappop(self._agenda)
            do()

    # ── events ────────────────────────────────────────────────────────────────────────────────

    def publish(self, flow: Flow, source: int, mask: int) -> None:
        """Publish the next event of a flow."""
        sequence = self.published[flow] = self.published.get(flow, 0) + 1
        self.home[flow] = source
        run, broker = event(flow, sequence), self.brokers[source]
        marked = broker.log.has_roamed(flow, self.now)
        broker.log.keep(run, mask, self.now)
        for edge in range(len(self.brokers)):
            if mask >> edge & 1:
                self.meant.setdefault((edge, flow), []).append(sequence)
        start = broker.tokens.start(flow)
        self._take(source, Copy(run, mask, start, source, marked=marked))

    def _take(self, at: int, copy: Copy) -> None:
        broker = self.brokers[at]
        if not broker.lives:
            return
        if copy.mask >> at & 1:
            head = copy.run.head
            broker.held_at.setdefault((head.flow, head.sequence), self.now)
            self._deliver(
                broker,
                broker.order.admit(
                    copy.run, self.now, marked=copy.marked, via=copy.via, source=copy.source
                ),
            )
        rest = copy.mask & ~(1 << at)
        if rest:
            self._send_on(broker, replace(copy, mask=rest, trace=copy.trace | 1 << at))

    def _deliver(self, broker: Broker, runs: Sequence[EventRun]) -> None:
        for run in runs:
            key = run.head.flow, run.head.sequence
            broker.got.append(key)
            waited = self.now - broker.held_at.get(key, self.now)
            if waited:
                source = self.home[run.head.flow]
                broker.waits.append((waited, self._way(broker.slot, source)))
        self._ask(broker)

    def _send_on(self, broker: Broker, copy: Copy) -> None:
        decision = broker.hops.onward(copy.mask, copy.trace)
        if decision.strayed:
            self._renew(broker, decision.strayed)
        if decision.stuck:
            broker.waiting.append(replace(copy, mask=decision.stuck))
            self.at(self.now + AGAIN_NS, partial(self._retry, broker))
        for hop, served in decision.hops:
            each = replace(copy, mask=served)
            broker.kept.setdefault(hop, []).append(Kept(each, self.now))
            self._transmit(broker.slot, hop, replace(each, via=broker.tokens.onto(copy.via, hop)))

    def _transmit(self, a: int, b: int, copy: Copy) -> None:
        self.frames += 1
        takes = self.takes[min(a, b), max(a, b)]
        arrival = max(self._free.get((a, b), 0), self.now + takes)
        self._free[a, b] = arrival
        self.at(arrival, lambda: self._arrive(a, b, copy))

    def _arrive(self, a: int, b: int, copy: Copy) -> None:
        if not self.brokers[a].lives and (a, b) not in self._cut and self.rng.random() < 0.3:
            self._cut.add((a, b))  # what a dead broker had under way is lost from here on
        if (a, b) not in self._cut:
            self._take(b, copy)

    # ── changes ───────────────────────────────────────────────────────────────────────────────

    def change_cost(self) -> None:
        """The cost of a link changes; all know it late, and unevenly."""
        pair = self.rng.choice(sorted(self.buckets))
        bucket = self.buckets[pair] = self.rng.randrange(12)
        for broker in self.brokers:
            late = self.rng.randrange(200) * MS
            self.at(self.now + late, partial(self._learn, broker, pair, bucket))

    def _learn(self, broker: Broker, pair: tuple[int, int], bucket: int) -> None:
        if pair in broker.graph:
            broker.graph[pair] = bucket
            self._recompute(broker)

    def _recompute(self, broker: Broker) -> None:
        self._renew(broker, broker.recompute())
        broker.order.doubt(self.now)
        self._retry(broker)

    def _retry(self, broker: Broker) -> None:
        """Decide anew about what waits for a way, with a new trace; the dead are struck out."""
        waiting, broker.waiting = broker.waiting, []
        for copy in waiting:
            mask = copy.mask & ~broker.buried
            if mask and broker.lives:
                self._send_on(broker, replace(copy, mask=mask, trace=1 << broker.slot))

    def _renew(self, broker: Broker, hops: int) -> None:
        if self.renews:
            broker.tokens.renew(hop for hop in range(len(self.brokers)) if hops >> hop & 1)

    def kill(self, slot: int) -> None:
        """A broker dies; the others find out after 50 to 300 ms."""
        self.brokers[slot].lives = False
        for broker in self.brokers:
            late = self.rng.randrange(50, 300) * MS
            self.at(self.now + late, partial(self._bury, broker, slot))

    def _bury(self, broker: Broker, slot: int) -> None:
        if not broker.lives:
            return
        broker.graph = {pair: b for pair, b in broker.graph.items() if slot not in pair}
        self._renew(broker, broker.recompute())
        broker.order.doubt(self.now)
        again = broker.kept.pop(slot, [])
        broker.buried |= 1 << slot
        for kept in again:
            copy = kept.copy
            mask = copy.mask & ~broker.buried
            if mask and self.retains and kept.at > self.now - nanos(5):
                trace = 1 << broker.slot
                self._give_away(broker, replace(copy, mask=mask, trace=trace, marked=True))
        self._retry(broker)

    def _give_away(self, broker: Broker, copy: Copy) -> None:
        through = broker.hops.onward(copy.mask, copy.trace).through
        self._renew(broker, through)
        self._send_on(broker, copy)
        if self.renews_after:
            self._renew(broker, through)

    # ── questions ─────────────────────────────────────────────────────────────────────────────

    def _ask(self, broker: Broker) -> None:
        for source, ranges in broker.order.take_questions(self.now):
            self.batches += 1
            query = RangeQuery(broker.slot, ranges)
            late = self._way(broker.slot, source)
            self.at(self.now + late, partial(self._answer, source, query, late))
        due = broker.order.next_deadline()
        if due is not None:
            self.at(max(due, self.now), lambda: self._expire(broker))

    def _way(self, a: int, b: int) -> Nanos:
        return (1 + (a + b) % 5) * 4 * MS

    def _answer(self, source: int, query: RangeQuery, late: Nanos) -> None:
        if not self.brokers[source].lives:
            return
        events, ends = self.brokers[source].log.answer(query, self.now)
        edge = self.brokers[query.asker]

        def arrive() -> None:
            if not edge.lives:
                return
            for run in events:
                self._deliver(edge, edge.order.recalled(run))
            for end in ends:
                self._deliver(edge, edge.order.settle(end, self.now))

        self.at(self.now + late, arrive)

    def _expire(self, broker: Broker) -> None:
        if broker.lives:
            self._deliver(broker, broker.order.expire(self.now))

    # ── verdicts ──────────────────────────────────────────────────────────────────────────────

    def wrong(self) -> list[tuple[int, Flow, int]]:
        """Return edges that live and missed, doubled or misplaced events of a flow."""
        found = []
        for (edge, flow), meant in self.meant.items():
            broker = self.brokers[edge]
            got = [number for each, number in broker.got if each == flow]
            if broker.lives and got != meant:
                found.append((edge, flow, len(meant) - len(got)))
        return found


FLOWS: list[Flow] = [(bytes([at]) * 16, 1, LinkClass.NORMAL) for at in range(3)]
