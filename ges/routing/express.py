"""Express events: no waiting, no order to restore, and an account of the time they take.

They name the brokers that want them, as all events do, and go over express links where there are
any. Where a hop has none they go over the normal link, before all that waits there, and are flagged
as *rough*.

Nothing holds an express event back, not even one of its publisher that is missing: they come in the
order they were sent while no link fails, and each once.

**Time.** An event carries its budget and what is spent of it in microseconds. Each broker adds half
the round trip of the link it came over, and what the event has waited in its own queue
(:mod:`overlay.queues.lanes`). The round trip is the smallest that the kernel has seen, but that may
be five minutes old, or lead to a proxy only; so it is at least the smallest of the latest quick
probes (:mod:`overlay.multigraph.quick_probes`), whatever the class of the link. Not a mean: in that
is what brokers were late themselves. Clocks are not compared. The broker that first finds the
budget exceeded counts a miss for the link the event came over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ges.delivery.audience import Audience
from ges.delivery.realms import Realms
from ges.delivery.sharing import Sharing, with_numbers
from ges.delivery.subscriber import Subscriber
from ges.order.recent import Recent
from ges.routing.outlets import Line, Lines
from ges.routing.plan import Onward
from ges.wire.delivered import pack_matches
from ges.wire.event_flags import LATE_FLAG, ROUGH_FLAG
from ges.wire.event_runs import EventRun
from ges.wire.events import (
    BUDGET,
    BUDGET_AT,
    DEFAULT_BUDGET_US,
    FLAGS_AT,
    MAX_BUDGET_US,
    MAX_HOPS,
    SPENT_AT,
    Head,
    flags_of,
    redirected,
)
from ges.wire.groups import Serving
from overlay.ids import LinkClass
from overlay.multigraph.weights import LinkKey
from overlay.wire.frames import DELIVERY, EVENT, frame_start
from overlay.wire.frames import HEADER as FRAME_HEADER

_NOTHING = pack_matches(())  #: no subscription


class Express:
    """Passes express events on and delivers them."""

    def __init__(
        self,
        lines: Lines,
        audience: Audience,
        sharing: Sharing,
        realms: Realms,
        counters: Counter[str],
        *,
        is_express: Callable[[str], bool],
        one_way_us: Callable[[LinkKey, int], int],
        budget_us: int = DEFAULT_BUDGET_US,
    ) -> None:
        """``is_express``: the link to the broker of that uid is not demoted.

        ``one_way_us``: how long a link takes that an event has come over. It is told the least that
        the kernel has seen; 0: not known.
        """
        self.misses: Counter[LinkKey] = Counter()  #: found late here, by their last link
        self.recent = Recent()  #: what has come
        self._lines = lines
        self._audience = audience
        self._sharing = sharing
        self._realms = realms
        self._counters = counters
        self._is_express = is_express
        self._one_way_us = one_way_us
        self._budget_us = budget_us

    def publish(self, client: Subscriber, run: EventRun, onward: Onward) -> None:
        """Take events of a client; it has brought them over its own hop."""
        self._counters["events_published"] += run.count
        hop_us = client.connection.one_way_us
        for event in run.split():
            budget = event.head.budget_us or self._budget_us
            self._take(event, budget, event.head.spent_us + hop_us, onward)

    def relay(self, line: Line, run: EventRun, onward: Onward, *, is_for_us: bool) -> None:
        """Take events from another broker; ``is_for_us``: clients here may want them."""
        self._counters["events_received"] += run.count
        key = line.peer.uid, line.link_class
        hop_us = self._hop_us(line)
        for event in run.split():
            head = event.head
            spent = head.spent_us + hop_us
            self._take(event, head.budget_us, spent, onward, key, is_for_us=is_for_us)

    def _hop_us(self, line: Line) -> int:
        """Return what the link takes without any queue, as waiting in its queue is stamped."""
        return self._one_way_us((line.peer.uid, line.link_class), line.connection.one_way_us)

    def _take(
        self,
        single: EventRun,
        budget: int,
        spent: int,
        onward: Onward,
        came_over: LinkKey | None = None,
        *,
        is_for_us: bool = True,
    ) -> None:
        head = single.head
        serving = single.serving()
        is_handed = serving is not None and serving.tried != 0
        # By destination each copy is for others, and goes on; by arcs what came before does not.
        if is_handed:
            pass  # it is for one member here, whatever has come
        elif (is_for_us or not head.duty.shape) and not self.recent.fresh(single):
            self._counters["events_duplicate"] += 1
            if not head.duty.shape:
                return
            is_for_us = False
        event = _body(next(single.bodies()), budget, spent)
        if spent > budget and not head.late:
            event[FLAGS_AT] |= LATE_FLAG
            if came_over is not None:
                self.misses[came_over] += 1
            self._counters["express_misses"] += 1
        self._forward(head, event, onward)
        if not is_for_us:
            return
        plain = single.flat().ungrouped()
        is_plain = plain.head.flags == single.head.flags
        front = event if is_plain else _body(next(plain.bodies()), budget, spent)
        front[: FLAGS_AT + 1] = (event[FLAGS_AT] | plain.head.flags & ~0xFF).to_bytes(4, "big")
        self._deliver(plain, front, single, serving if is_handed else None)

    def _deliver(
        self, plain: EventRun, event: bytearray, single: EventRun, handed: Serving | None
    ) -> None:
        """Send an event to the clients here that get it: ``single`` with its groups, or without."""
        sharing, common = self._sharing, self._realms.common(single.head)
        if single.head.realm < common:
            self._counters["events_out_of_realm"] += 1
            return
        if handed is not None:
            targets: dict[Subscriber, bytes] = {}
            shares = sharing.share(plain, sharing.handed(single, handed), handed.tried)
        else:
            rows = self._audience.of(single.head.matter._replace(common=common))
            targets = {
                row.recipient.client: row.matches
                for row in rows
                if row.recipient.client is not None
            }
            shares = sharing.share(plain, sharing.due(single, common))
        for client, numbers in shares.numbers.items():
            targets[client] = with_numbers(targets.get(client, _NOTHING), numbers[0])
        frame = frame_start(EVENT, len(event)) + event
        for client, matches in targets.items():
            start = frame_start(DELIVERY, len(matches) + len(frame)) + matches
            at = len(start) + FRAME_HEADER.size + SPENT_AT
            client.connection.send_express(bytearray(start) + frame, at)
            self._counters["events_delivered"] += 1

    def hand_on(self, single: EventRun, onward: Onward) -> None:
        """Send an event on that nobody here gets to another broker of its queue group."""
        self._forward(single.head, bytearray(next(single.bodies())), onward)

    def _line_to(self, uid: str) -> Line | None:
        """Return the express link to a broker, else the normal one; None: there is none."""
        line = self._lines.get((uid, LinkClass.EXPRESS)) if self._is_express(uid) else None
        return line if line is not None else self._lines.get((uid, LinkClass.NORMAL))

    def _forward(self, head: Head, event: bytearray, onward: Onward) -> None:
        if not onward:
            return
        if head.max_hops and head.hops >= head.max_hops:
            self._counters["events_max_hops_ended"] += 1
            return
        if head.hops >= MAX_HOPS:
            self._counters["events_too_many_hops"] += 1
            return
        flags = flags_of(event)
        for uid, duty in onward:
            line = self._line_to(uid)
            if line is None:
                self._counters["events_without_link"] += 1
                continue
            copy = bytearray(redirected(bytes(event), flags, head.hops + 1, 0, head.source, duty))
            if not line.link_class.is_timed:
                copy[FLAGS_AT] |= ROUGH_FLAG
                self._counters["express_over_normal"] += 1
            start = frame_start(EVENT, len(copy))
            line.connection.send_express(bytearray(start) + copy, len(start) + SPENT_AT)
            self._counters["events_forwarded"] += 1


def _body(body: bytes, budget: int, spent: int) -> bytearray:
    """Return an event with its budget, and what is spent of it."""
    event = bytearray(body)
    BUDGET.pack_into(event, BUDGET_AT, budget, min(spent, MAX_BUDGET_US))
    return event
