"""The way of an event through one broker: in, once, onward, and out to the clients in order.

Events come as runs, a single one as a run of one, and all of a run are decided at once. The broker
where they are published names the brokers that want them, and keeps them for a while for those that
ask again. Every broker passes on what is for others, and delivers what is for itself. The payload
is not touched, and nothing here waits.

While units change no mask is sure. Then events go to all brokers over arcs of the ring, each once.
Secure events wait for a mask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ges.delivery.delivery import Deliveries
from ges.delivery.subscriber import Subscriber
from ges.order.recalls import Recalls
from ges.order.via import Tokens
from ges.routing.arrivals import Arrivals
from ges.routing.coming_in import ComingIn
from ges.routing.express import Express
from ges.routing.handing_on import HandingOn
from ges.routing.known import Known
from ges.routing.named_sending import NamedSending
from ges.routing.outlets import Line
from ges.routing.passing import Passing
from ges.routing.plan import Onward
from ges.wire.directory_messages import Holder
from ges.wire.event_flags import AGAIN_FLAG, MARK_FLAG, WAY_FLAGS
from ges.wire.event_runs import EventRun
from ges.wire.events import Duty, Flow, Head
from ges.wire.realms import within
from overlay.ids import Nanos
from overlay.multigraph.weights import LinkKey
from ring.wire.messages import Member


class Router:
    """Routes events between links and clients."""

    def __init__(
        self,
        known: Known,
        tokens: Tokens[LinkKey],
        recalls: Recalls,
        passing: Passing,
        deliveries: Deliveries,
        express: Express,
        arrivals: Arrivals,
        handing_on: HandingOn,
        counters: Counter[str],
    ) -> None:
        self._mask_of = known.mask_of
        self._tokens = tokens
        self._recalls = recalls
        self._passing, self._plans = passing, passing.plans
        self.named_sending = NamedSending(passing, recalls.log, known.holders, counters)
        self._coming_in = ComingIn(self._plans.cluster, known.mask_of, deliveries.sharing)
        self._deliveries, self._express = deliveries, express
        self._arrivals = arrivals
        self._handing_on, self._counters = handing_on, counters
        self._member: Member | None = None  #: as we stand on the ring, or stood on it last
        self._named_last = False  #: what was published here last named whom it was for

    def update(
        self,
        member: Member | None,
        linked: Mapping[str, Member],
        around: Iterable[Member],
        *,
        now: Nanos,
    ) -> None:
        """Note where this broker stands, whom it is linked to, and who are its ring neighbours.

        ``around``: those as well that it has heard of and is not linked to yet.
        """
        if member is not None and member != self._member:
            if self._member is not None:  # it has joined anew
                self._recalls.ordering.doubt(now)
            self._member = member
        here = self._recalls.place = member.ring_id if member is not None else None
        self._passing.update(here, linked, around, now=now)

    def has_come(self, head: Head) -> bool:
        """Say whether an event that its publisher sends again has come here by another broker."""
        return head.again and self._arrivals.recent.has_come(head.flow, head.sequence)

    def lose(self, head: Head) -> None:
        """Events were dropped here: brokers that miss them are to ask for them."""
        if not head.express:
            self._tokens.renew_all()

    # ── events of clients here ────────────────────────────────────────────────────────────────

    def publish(self, client: Subscriber, run: EventRun, now: Nanos) -> None:
        """Take events from a client of ours."""
        head, plans = run.head, self._plans
        if plans.by_destination != self._named_last:
            self._named_last = not self._named_last
            self._tokens.restart()  # what sets out now may overtake what went before
        if not plans.by_destination:
            self._counters["events_sent_to_all"] += run.count
        if head.express:
            for part, serving in self._assigned(run):
                onward = self._express_onward(head, serving)
                for event in part.split():
                    self._express.publish(client, event.under(0, plans.here or 0), onward)
            self._handing_on.hand_on_unserved(now)
            return
        self._counters["events_published"] += run.count
        if head.link_class not in client.last:
            self._tokens.attach(head.flow)  # it may have published elsewhere before
            self._recalls.log.attach(head.flow, None, now)
        client.last[head.link_class] = head.sequence + run.count - 1
        if not plans.by_destination:
            choosing = self._deliveries.sharing.choosing
            for each in (run,) if head.is_named else choosing.to_all(run):
                self._send_to_all(each, now)
        elif head.is_named:
            for event in run.split():
                self._send_to_named(event, now)
        else:
            for part, serving in self._assigned(run):
                self._send_out(part, serving, now)

    def _assigned(self, run: EventRun) -> Iterable[tuple[EventRun, int]]:
        """Let events say which broker serves each queue group; these brokers stand beside them."""
        choosing = self._deliveries.sharing.choosing
        if not self._plans.by_destination:
            return ((each, 0) for each in choosing.to_all(run))
        groups = choosing.of(run.head.matter)
        return choosing.assigned(run, groups) if groups else ((run, 0),)

    def _send_out(self, run: EventRun, serving: int, now: Nanos) -> None:
        """Name the brokers that want events, keep the events, and send them.

        ``serving``: brokers that serve queue groups with them, as a mask.
        """
        head, plans, log = run.head, self._plans, self._recalls.log
        wanted = self._mask_of(head.matter) | serving
        if head.retain:
            wanted |= plans.all_reached(head.link_class)
            self._arrivals.keep_value(run.under(0, plans.here or 0))
        wanted = within(wanted & ~plans.cluster.own, head.realm)
        has_roamed = log.has_roamed(head.flow, now)
        log.keep(run, wanted | plans.own_bit, now)
        via, source = self._tokens.start(head.flow), plans.here or 0
        if wanted:
            sent, duty = run.under(via, source), Duty(1, 0, wanted, plans.own_bit)
            flags = head.flags | (MARK_FLAG if has_roamed else 0)
            self._passing.pass_on(sent, duty, flags, head.link_class, now)
        if self._deliveries.wants(head.matter):
            via = self._tokens.stray() if head.again else via
            self._arrivals.take_news(run, head.marked or has_roamed, via, source, now)

    def _send_to_named(self, event: EventRun, now: Nanos) -> None:
        """Send an event to the brokers of the clients that it names, and give it to those here."""
        via, source = self._tokens.start(event.head.flow), self._plans.here or 0
        sent = event.under(via, source)
        sent_to = self.named_sending.send(sent, now)
        self._recalls.log.keep(event, sent_to | self._plans.own_bit, now)
        if self.named_sending.is_for_us(event):
            self._arrivals.take_news(sent, event.head.marked, via, source, now)

    def send_again(
        self, flow: Flow, sequence: int, holder: Holder, names: Iterable[str], now: Nanos
    ) -> None:
        """Send an event for named clients to a broker to which these have moved."""
        via = self._tokens.stray()
        ours = self.named_sending.send_again(flow, sequence, holder, names, via, now)
        if ours is not None:
            head = ours.head
            self._arrivals.take_news(ours, head.marked, via, head.source, now, is_again=True)

    def _express_onward(self, head: Head, serving: int) -> Onward:
        plans = self._plans
        if not plans.by_destination:
            return plans.express_onward(plans.whole)
        wanted = within((self._mask_of(head.matter) | serving) & ~plans.cluster.own, head.realm)
        return plans.express_onward(Duty(1, 0, wanted, plans.own_bit)) if wanted else ()

    # ── events of other brokers ───────────────────────────────────────────────────────────────

    def relay(self, line: Line, run: EventRun, now: Nanos) -> None:
        """Take events from another broker."""
        head, plans = run.head, self._plans
        if head.express:
            for part, duty in self._duties_here(run):
                onward, is_for_us = plans.express_onward(duty), plans.is_for_us(duty)
                self._express.relay(line, part, onward, is_for_us=is_for_us)
            self._handing_on.hand_on_unserved(now)
            return
        self._counters["events_received"] += run.count
        if head.duty.shape:
            for part, duty in self._duties_here(run):
                self._take(part, duty, now)
            self._handing_on.hand_on_unserved(now)
        elif not head.recalled:
            self._take_for_all(run, head.duty, now)
        elif plans.is_led_here(head.duty):
            self._arrivals.take_recalled(run, now)
        else:
            self._counters["events_relayed"] += run.count
            self._passing.pass_on(run, head.duty, head.flags, head.link_class, now)

    def _duties_here(self, run: EventRun) -> Iterable[tuple[EventRun, Duty]]:
        """Return events that have come, with what this broker is to do for them."""
        head, plans = run.head, self._plans
        if not head.duty.entering:
            return ((run, head.duty),)
        self._counters["events_entered"] += run.count
        every = plans.all_reached(head.link_class) | plans.own_bit if head.retain else 0
        return self._coming_in.duties(run, every)

    def _take(self, run: EventRun, duty: Duty, now: Nanos) -> None:
        """Pass events on to the other brokers that they name, and take what is for this one."""
        head = run.head
        self._passing.pass_on(run, duty, head.flags, head.link_class, now)
        if self._plans.is_for_us(duty):
            self._arrivals.take_run(run, now)
            return
        self._counters["events_relayed"] += run.count
        if head.is_named and self.named_sending.is_for_nobody(duty):
            self._deliveries.named.came_to_nobody(run)

    # ── while no mask is sure: to all ─────────────────────────────────────────────────────────

    def _send_to_all(self, run: EventRun, now: Nanos) -> None:
        self._recalls.log.keep(run, -1, now)
        via = self._tokens.start(run.head.flow)
        self._take_for_all(run.under(via, self._plans.here or 0), self._plans.whole, now)

    def _take_for_all(self, run: EventRun, duty: Duty, now: Nanos) -> None:
        """Pass events on over an arc of the ring, and take those that have not come before."""
        if self._arrivals.keep_value(run):
            return
        head = run.head
        fresh = self._arrivals.fresh_of(run)
        if self._plans.here is not None:
            flags = head.flags & ~WAY_FLAGS | head.flags & AGAIN_FLAG
            # An event that is sent again goes on by the tree, as it may be for more brokers.
            for part in (run,) if head.again else fresh:
                self._passing.pass_on(part, duty, flags, head.link_class, now)
            for part in fresh:
                self._passing.pass_beside(part, flags, head.link_class, now)
        for part in fresh:
            self._arrivals.take_news(part, head.marked, head.via, head.source, now)
