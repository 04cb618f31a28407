"""The way of an event through one broker: in, once, onward, and out to the clients in order.

Events come as runs, a single one as a run of one, and all of a run are decided at once: what has
come before is dropped, the rest is passed on to other brokers and delivered here in order. The
payload is not touched, and nothing here waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ges.routing.delivery import Deliveries
from ges.routing.express import Express
from ges.routing.losses import Losses
from ges.routing.ordering import Ordering
from ges.routing.outlets import Line
from ges.routing.passing import Passing
from ges.routing.paths import Path
from ges.routing.plan import Duty
from ges.routing.recent import Recent
from ges.routing.subscriber import Subscriber
from ges.wire.event_runs import EventRun
from ges.wire.events import AGAIN_FLAG, FLOOD_FLAG, MARK_FLAG, SECURE_FLAG, Head
from overlay.ids import LinkClass, Nanos
from ring.wire.messages import Member


class Router:
    """Routes events between links and clients."""

    def __init__(
        self,
        ordering: Ordering,
        losses: Losses,
        passing: Passing,
        deliveries: Deliveries,
        express: Express,
        counters: Counter[str],
    ) -> None:
        self._ordering = ordering
        self._losses = losses
        self._passing = passing
        self._plans = passing.plans
        self._deliveries = deliveries
        self._express = express
        self._counters = counters
        self._member: Member | None = None  #: as we stand on the ring, or stood on it last
        self._recent = Recent()
        self._flooded = Recent()  #: what was sent over all secure links

    def update(
        self,
        member: Member | None,
        linked: Mapping[str, Member],
        around: Iterable[Member],
        *,
        is_whole: bool,
        now: Nanos,
    ) -> None:
        """Note where this broker stands, whom it is linked to, and who are its ring neighbours.

        ``around``: those as well that it has heard of and is not linked to yet; ``is_whole``: they
        agree that this broker stands between them.
        """
        if member is not None and member != self._member:
            if self._member is not None:  # it has joined anew
                self._ordering.doubt(now)
            self._member = member
        here = member.ring_id if member is not None else None
        self._passing.update(here, linked, around, is_whole=is_whole, now=now)

    # ── events ────────────────────────────────────────────────────────────────────────────────

    def has_come(self, head: Head) -> bool:
        """Say whether an event that its publisher sends again has come here by another broker."""
        return head.again and self._recent.has_come(head.flow, head.sequence)

    def publish(self, client: Subscriber, run: EventRun, now: Nanos, *, flood: bool) -> None:
        """Take events from a client of ours; ``flood``: secure ones go to all who are linked."""
        head = run.head
        duty = self._plans.whole
        if head.express:
            self._express.publish(client, run, self._plans.normal.onward(duty))
            return
        self._counters["events_published"] += run.count
        link_class = head.link_class
        if head.sequence != client.last.get(link_class, 0) + 1 and not head.again:
            self._losses.note(head)  # it published elsewhere before, or we have refused one
        client.last[link_class] = head.sequence + run.count - 1
        self._take(run, duty, now, flood=flood)

    def relay(self, line: Line, run: EventRun, now: Nanos) -> None:
        """Take events from another broker."""
        head = run.head
        if head.express:
            self._express.relay(line, run, self._plans.onward(head.duty, 0, LinkClass.NORMAL))
            return
        self._counters["events_received"] += run.count
        self._take(run, head.duty, now, flood=head.flood)

    def pass_on(self, line: Line, way: Path, head: Head, event: bytes, now: Nanos) -> None:
        """Pass on an event between two brokers that do not use a link of their own; not for us.

        It goes on over links of the class it came by; ``way`` is what is still to be passed.
        """
        if head.express:
            self._express.pass_on(line, way, head, event)
        elif line.arrived(1):
            self._counters["events_received_twice"] += 1
        else:
            self._passing.send_round(way, event, line.link_class, now)

    def lose(self, head: Head) -> None:
        """Events were dropped here: the next of that publisher is not to wait for them."""
        if not head.express:
            self._losses.note(head)

    def expire(self, now: Nanos) -> None:
        """Give up events that do not come; go on with what has waited for them."""
        for run in self._ordering.expire(now):
            self._deliveries.deliver(run, now)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _take(self, run: EventRun, duty: Duty, now: Nanos, *, flood: bool) -> None:
        head = run.head
        fresh = self._recent.fresh(run)
        known = run.count - sum(part.count for part in fresh)
        if known:
            self._counters["events_duplicate"] += known
        is_to_mark = self._losses.is_to_mark(head.flow)
        marked = head.marked or is_to_mark
        if self._plans.here is not None:
            goes_on = self._pass_on(run, fresh, duty, now, flood=flood, marked=marked)
            if is_to_mark and goes_on and not self._plans.normal.is_empty:
                self._losses.marked(head.flow)  # else nobody sees it: the next is marked, too
        for part in fresh:
            for due in self._ordering.admit(part, now, marked=marked):
                self._deliveries.deliver(due, now)

    def _pass_on(
        self,
        run: EventRun,
        fresh: Sequence[EventRun],
        duty: Duty,
        now: Nanos,
        *,
        flood: bool,
        marked: bool,
    ) -> bool:
        """Pass on what of a run is to go on; says whether there was any."""
        head = run.head
        flags = MARK_FLAG if marked else 0
        link_class = head.link_class
        parts = fresh
        if head.secure and (flood or self._plans.has_holes):
            # One that came by the tree before may come again to all: it goes on, as only that way
            # it may reach those behind a hole.
            flags |= SECURE_FLAG | FLOOD_FLAG
            parts = self._flooded.fresh(run)
        else:
            flags |= SECURE_FLAG if head.secure else 0
            if head.again:
                flags |= AGAIN_FLAG
                parts = (run,)
        for part in parts:
            self._passing.pass_on(part, duty, flags, link_class, now)
        return bool(parts)
