"""One hop onward: events that are not express, over the links to the brokers that come next.

Events for a broker whose link is down for the moment wait (:mod:`ges.routing.holding`). Where the
ring has found that the link has failed, they go to others (:mod:`ges.routing.rerouting`).

Each copy says over which links it has come, as a digest. A link is a *stream* here, by the broker
at its other end and its class. Its token is renewed where order on it may be broken
(:mod:`ges.order.via`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ges.order.via import Tokens
from ges.routing.holding import Holding
from ges.routing.outlets import Lines
from ges.routing.plan import Onward
from ges.wire.event_flags import AGAIN_FLAG, LEVELS_FLAG
from ges.wire.event_runs import EventRun
from ges.wire.events import MAX_HOPS, pack_end, pack_front, redirected
from overlay.ids import LinkClass, Nanos
from overlay.multigraph.weights import LinkKey
from overlay.wire.frames import EVENT, frame


@dataclass(frozen=True, slots=True)
class Stranded:
    """An event for a broker to which there is no link, and none is waited for."""

    key: LinkKey
    event: bytes


class Forwarding:
    """The links of one broker, and what is appended to their queues."""

    def __init__(
        self,
        lines: Lines,
        holding: Holding,
        tokens: Tokens[LinkKey],
        counters: Counter[str],
    ) -> None:
        self.tokens = tokens
        self.told: dict[str, None] = {}  #: uids of those to whom events went over a link
        self.stranded: list[Stranded] = []  #: to be taken by whoever has called
        self._lines = lines
        self._holding = holding
        self._counters = counters

    def forward(
        self, run: EventRun, onward: Onward, flags: int, link_class: LinkClass, now: Nanos
    ) -> None:
        """Send events to each (uid, duty), with these flags, over links of that class."""
        if not onward:
            return
        head = run.head
        if head.max_hops and head.hops >= head.max_hops:
            self._counters["events_max_hops_ended"] += run.count
            return
        if head.hops >= MAX_HOPS:
            self._counters["events_too_many_hops"] += run.count
            return
        hops = head.hops + 1
        of_cluster, of_units = run, run
        for uid, duty in onward:
            if duty.shape > 1:
                run = of_units = of_units.levelled()
                flags |= LEVELS_FLAG
            else:
                run = of_cluster = of_cluster.flat()
                flags &= ~LEVELS_FLAG
            key = (uid, link_class)
            line = self._lines.get(key)
            if line is not None:
                via = self._onto(head.via, flags, key)
                front = pack_front(flags, hops, via, head.source, duty)
                line.connection.send(run.patched(front, pack_end(duty)), run.count)
                self._counters["events_forwarded"] += run.count
                # The normal link is asked for the secure one beside it, too: both go the same way.
                self.told[uid] = None
                continue
            for body in run.bodies():
                via = self._onto(head.via, flags, key)
                event = redirected(body, flags, hops, via, head.source, duty)
                if not self._holding.keep(key, frame(EVENT, event), now):
                    self.stranded.append(Stranded(key, event))

    def renew(self, key: LinkKey) -> None:
        """Order may be broken on the way to a broker."""
        self.tokens.renew((key,))

    def take_stranded(self) -> list[Stranded]:
        """Return, once, the events for brokers to which there is no link."""
        stranded, self.stranded = self.stranded, []
        return stranded

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _onto(self, via: int, flags: int, key: LinkKey) -> int:
        """Return the digest of an event that is sent over a link."""
        if flags & AGAIN_FLAG:  # it comes behind later ones, perhaps
            return self.tokens.stray()
        return self.tokens.onto(via, key)
