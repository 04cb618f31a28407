"""The way of an event through one broker: in, once, onward, and out to the clients in order.

Events come as runs, a single one as a run of one, and all of a run are decided at once. The broker
where they are published names the brokers that want them, and keeps them for a while for those that
ask again. Every broker passes on what is for others, and delivers what is for itself. The payload
is not touched, and nothing here waits.

While units change no mask is sure. Then normal and express events go to all brokers over arcs of
the ring, and what has come before is not passed on again. A secure event waits for a mask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ges.delivery.delivery import Deliveries
from ges.delivery.past import Past
from ges.delivery.subscriber import Subscriber
from ges.order.recalls import Outbound, Recalls
from ges.order.recent import Recent
from ges.order.via import Tokens
from ges.routing.arc_plan import toward
from ges.routing.coming_in import ComingIn
from ges.routing.express import Express
from ges.routing.known import Known
from ges.routing.named_sending import NamedSending
from ges.routing.outlets import Line
from ges.routing.passing import Passing
from ges.routing.plan import Onward
from ges.wire.directory_messages import Holder
from ges.wire.event_flags import (
    AGAIN_FLAG,
    GROUPS_FLAG,
    MARK_FLAG,
    RECALLED_FLAG,
    WAY_FLAGS,
)
from ges.wire.event_runs import EventRun
from ges.wire.events import Duty, Flow, Head
from ges.wire.groups import Serving
from ges.wire.realms import within
from overlay.ids import LinkClass, Nanos
from overlay.multigraph.weights import LinkKey
from ring.wire.messages import Member


class Router:
    """Routes events between links and clients."""

    def __init__(
        self,
        known: Known,
        tokens: Tokens[LinkKey],
        recalls: Recalls,
        past: Past,
        passing: Passing,
        deliveries: Deliveries,
        express: Express,
        counters: Counter[str],
    ) -> None:
        self._mask_of = known.mask_of
        self._tokens = tokens
        self._recalls = recalls
        self._ordering = recalls.ordering
        self._past = past
        self._passing = passing
        self._plans = passing.plans
        self.named_sending = NamedSending(passing, recalls.log, known.holders, counters)
        self._coming_in = ComingIn(passing.plans.cluster, known.mask_of, deliveries.sharing)
        self._deliveries = deliveries
        self._retaining = deliveries.retaining
        self._express = express
        self._counters = counters
        self._member: Member | None = None  #: as we stand on the ring, or stood on it last
        self._named_last = False  #: what was published here last named whom it was for
        self.recent = Recent()  #: what has come

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
                self._ordering.doubt(now)
            self._member = member
        here = member.ring_id if member is not None else None
        self._recalls.place = here
        self._passing.update(here, linked, around, now=now)

    # ── events ────────────────────────────────────────────────────────────────────────────────

    def has_come(self, head: Head) -> bool:
        """Say whether an event that its publisher sends again has come here by another broker."""
        return head.again and self.recent.has_come(head.flow, head.sequence)

    def publish(self, client: Subscriber, run: EventRun, now: Nanos) -> None:
        """Take events from a client of ours."""
        head = run.head
        if self._plans.by_destination != self._named_last:
            self._named_last = not self._named_last
            self._tokens.restart()  # what sets out now may overtake what went before
        if not self._plans.by_destination:
            self._counters["events_sent_to_all"] += run.count
        if head.express:
            for part, serving in self._assigned(run):
                onward = self._express_onward(head, serving)
                for event in part.split():
                    self._express.publish(client, event.under(0, self._plans.here or 0), onward)
            self._hand_on(now)
            return
        self._counters["events_published"] += run.count
        if head.link_class not in client.last:
            self._tokens.attach(head.flow)  # it may have published elsewhere before
            self._recalls.log.attach(head.flow, None, now)
        client.last[head.link_class] = head.sequence + run.count - 1
        if self._plans.by_destination and head.is_named:
            for event in run.split():
                self.deliver(self._to_named(event, now), now)
        elif self._plans.by_destination:
            for part, serving in self._assigned(run):
                self._send_out(part, serving, now)
        else:
            choosing = self._deliveries.sharing.choosing
            for each in (run,) if head.is_named else choosing.to_all(run):
                self._take_by_arc(each, self._plans.whole, now, is_ours=True)

    def relay(self, line: Line, run: EventRun, now: Nanos) -> None:
        """Take events from another broker."""
        head = run.head
        if head.express:
            plans = self._plans
            for part, duty in self._duties_here(run):
                onward = plans.express_onward(duty)
                is_for_us = plans.is_for_us(duty)
                self._express.relay(line, part, onward, is_for_us=is_for_us)
            self._hand_on(now)
            return
        self._counters["events_received"] += run.count
        if head.duty.shape:
            for part, duty in self._duties_here(run):
                self._take_by_mask(part, duty, now)
            self._hand_on(now)
        elif head.recalled and not self._plans.is_led_here(head.duty):
            self._counters["events_relayed"] += run.count
            self._passing.pass_on(run, head.duty, head.flags, head.link_class, now)
        elif head.recalled:
            self._take_recalled(run, head.duty.millis, now)
        else:
            self._take_by_arc(run, head.duty, now, is_ours=False)

    def tell_values(self, uid: str, runs: Iterable[EventRun], now: Nanos) -> None:
        """Send a member retained values that it lacks, and nobody else."""
        cluster = self._plans.cluster
        slot = cluster.slots.get(uid)
        if slot is None or cluster.slot is None:
            return
        duty = Duty(1, 0, 1 << slot, 1 << cluster.slot)
        for run in runs:
            head = run.head
            sent = run.under(self._tokens.stray(), head.source)  # of where it was published
            self._passing.pass_on(sent, duty, head.flags, head.link_class, now)

    def lose(self, head: Head) -> None:
        """Events were dropped here: whoever misses them is to ask for them."""
        if not head.express:
            self._tokens.renew_all()

    def answer(self, out: Outbound, now: Nanos) -> None:
        """Send events that others have asked for, and deliver what is in order now."""
        cluster = self._plans.cluster
        own = 1 << (cluster.slot or 0)
        for answer in out.events:
            head = answer.run.head
            run = answer.run.under(self._tokens.stray(), self._plans.here or 0)
            if answer.place is not None:
                duty = toward(answer.place, answer.age_ms)
            elif answer.address is None:
                duty = Duty(1, 0, 1 << answer.slot, own, millis=answer.age_ms)
            else:
                to = cluster.toward(answer.address)
                duty = Duty(1, 0, to, own, answer.address + 1, millis=answer.age_ms)
            flags = head.flags | RECALLED_FLAG
            self._counters["events_recalled"] += run.count
            self._passing.pass_on(run, duty, flags, head.link_class, now)
        self.deliver(out.ready, now)

    def regain(self, runs: Iterable[EventRun], now: Nanos) -> None:
        """Take what was published while this broker was off the ring; some may have come before."""
        for run in runs:
            head = run.head
            self.deliver(self._admit(run, now, marked=True, via=head.via, source=head.source), now)

    def _admit(
        self, run: EventRun, now: Nanos, *, marked: bool, via: int, source: int
    ) -> Sequence[EventRun]:
        ordering = self._ordering
        before = ordering.too_late
        ready = ordering.admit(run, now, marked=marked, via=via, source=source)
        if ordering.too_late != before:
            self._counters["events_duplicate"] += ordering.too_late - before
        return ready

    def deliver(self, runs: Iterable[EventRun], now: Nanos) -> None:
        """Give clients what is in order now."""
        for run in runs:
            self._deliveries.deliver(run, now)
        self._hand_on(now)

    # ── queue groups ──────────────────────────────────────────────────────────────────────────

    def _assigned(self, run: EventRun) -> Iterable[tuple[EventRun, int]]:
        """Let events say which broker serves each queue group; these brokers stand beside them."""
        choosing = self._deliveries.sharing.choosing
        if not self._plans.by_destination:
            return ((each, 0) for each in choosing.to_all(run))
        groups = choosing.of(run.head.matter)
        if not groups:
            return ((run, 0),)
        return choosing.assigned(run, groups)

    def _hand_on(self, now: Nanos) -> None:
        """Send to another broker of its group what was for this one, and nobody here gets."""
        sharing, plans = self._deliveries.sharing, self._plans
        for each in sharing.take_unserved():
            head, own = each.run.head, 1 << (plans.cluster.slot or 0)
            tried = each.tried | own
            slot = sharing.choosing.another(head.link_class, each.key, tried, head.realm)
            if slot is None:
                self._counters["group_events_lost"] += each.run.count
                continue
            self._counters["group_events_handed_on"] += each.run.count
            duty = Duty(1, 0, 1 << slot, own)
            for event in each.run.split():
                run = event.grouped(Serving({each.key: slot}, tried))
                run = run.under(self._tokens.stray(), head.source if head.hops else plans.here or 0)
                flags = run.head.flags & ~(RECALLED_FLAG | MARK_FLAG) | AGAIN_FLAG
                if head.express:
                    onward = plans.onward(duty, 0, LinkClass.EXPRESS)
                    self._express.hand_on(run, onward)
                else:
                    self._passing.pass_on(run, duty, flags, head.link_class, now)

    # ── by destination ────────────────────────────────────────────────────────────────────────

    def _send_out(self, run: EventRun, serving: int, now: Nanos) -> None:
        """Events of a client here: name whom they are for, keep them, send them.

        ``serving``: brokers that serve queue groups with them, as a mask.
        """
        head = run.head
        plans, flow = self._plans, head.flow
        own = 1 << (plans.cluster.slot or 0)
        wanted = self._mask_of(head.matter) | serving
        if head.retain:
            wanted |= self._all_members(head.link_class)
            self._retaining.keep(run.under(0, plans.here or 0))
        wanted = within(wanted & ~plans.cluster.own, head.realm)
        has_roamed = self._recalls.log.has_roamed(flow, now)
        self._recalls.log.keep(run, wanted | own, now)
        via, source = self._tokens.start(flow), plans.here or 0
        flags = head.flags | (MARK_FLAG if has_roamed else 0)
        if wanted:
            sent = run.under(via, source)
            self._passing.pass_on(sent, Duty(1, 0, wanted, own), flags, head.link_class, now)
        if self._deliveries.wants(head.matter):
            if head.again:
                via = self._tokens.stray()
            marked = head.marked or has_roamed
            self.deliver(self._admit(run, now, marked=marked, via=via, source=source), now)

    def _to_named(self, event: EventRun, now: Nanos) -> Sequence[EventRun]:
        """An event of a client here is for named clients; return what those here get."""
        via, source = self._tokens.start(event.head.flow), self._plans.here or 0
        sent = event.under(via, source)
        self._recalls.log.keep(event, self.named_sending.send(sent, now) | self._own_bit, now)
        if not self.named_sending.is_for_us(event):
            return ()
        return self._admit(sent, now, marked=event.head.marked, via=via, source=source)

    def send_again(
        self, flow: Flow, sequence: int, holder: Holder, names: Iterable[str], now: Nanos
    ) -> None:
        """Send an event for named clients to a broker to which these have moved."""
        via = self._tokens.stray()
        ours = self.named_sending.send_again(flow, sequence, holder, names, via, now)
        if ours is not None:
            head = ours.head
            self.deliver(self._admit_again(ours, now, head.marked, via, head.source), now)

    def _admit_again(
        self, event: EventRun, now: Nanos, marked: bool, via: int, source: int
    ) -> Sequence[EventRun]:
        """Take an event that follows named clients to here.

        It may have come before, for others that have names here; a client drops what it has had.
        """
        before = self._ordering.too_late
        ready = self._admit(event, now, marked=marked, via=via, source=source)
        return ready if self._ordering.too_late == before else (event,)

    def _is_for_nobody(self, duty: Duty) -> bool:
        """Say whether nobody stands where an event for one broker is to go, or no way leads there.

        Where its cluster has died, and is still stated, it may have another address by now.
        """
        there = duty.destinations
        moved = 0 if duty.address else self._plans.cluster.now_at(there)
        return not (there & self.named_sending.reached or moved)

    @property
    def _own_bit(self) -> int:
        return 1 << (self._plans.cluster.slot or 0)

    def _take_by_mask(self, run: EventRun, duty: Duty, now: Nanos) -> None:
        head = run.head
        self._passing.pass_on(run, duty, head.flags, head.link_class, now)
        if not self._plans.is_for_us(duty):
            self._counters["events_relayed"] += run.count
            if head.is_named and self._is_for_nobody(duty):
                self._deliveries.named.came_to_nobody(run)
            return
        run = run.flat()
        head = run.head
        if head.flags & GROUPS_FLAG and (serving := run.serving()) and serving.tried:
            self._deliveries.deliver_handed(run, serving)
            self._hand_on(now)
            return
        if self._retain(run):
            return
        if head.recalled:
            self._take_recalled(run, head.duty.millis, now)
            return
        if head.secure:
            self.recent.fresh(run)
        if head.is_named and head.again:
            ready = self._admit_again(run, now, head.marked, head.via, head.source)
        else:
            ready = self._admit(run, now, marked=head.marked, via=head.via, source=head.source)
        self.deliver(ready, now)

    def _take_recalled(self, run: EventRun, age_ms: int, now: Nanos) -> None:
        """Take what this broker has asked for; ``age_ms``: of what clients have missed; else 0."""
        if age_ms:
            self._past.take(run, age_ms - 1, now)
        self.deliver(self._recalls.take(run, now), now)

    def _duties_here(self, run: EventRun) -> Iterable[tuple[EventRun, Duty]]:
        """Return events that have come, with what this broker is to do for them."""
        head = run.head
        if not head.duty.entering:
            return ((run, head.duty),)
        self._counters["events_entered"] += run.count
        every = 0
        if head.retain:
            every = self._all_members(head.link_class) | 1 << (self._plans.cluster.slot or 0)
        return self._coming_in.duties(run, every)

    def _retain(self, run: EventRun) -> bool:
        """Keep what is to be retained; says whether it is a value, and no news."""
        if run.head.stored:
            self._retaining.take_stored(run)
            return True
        if run.head.retain:
            self._retaining.keep(run)
        return False

    def _all_members(self, link_class: LinkClass) -> int:
        """Return the members and units that links of a class lead to, as a mask."""
        cluster = self._plans.cluster
        if link_class.is_secret:
            table = cluster.tables.get(link_class)
            return table.reached if table is not None else 0
        return cluster.known

    def _express_onward(self, head: Head, serving: int) -> Onward:
        plans = self._plans
        if not plans.by_destination:
            return plans.express_onward(plans.whole)
        own = 1 << (plans.cluster.slot or 0)
        wanted = self._mask_of(head.matter) | serving
        wanted = within(wanted & ~plans.cluster.own, head.realm)
        return plans.express_onward(Duty(1, 0, wanted, own)) if wanted else ()

    # ── by arcs of the ring ───────────────────────────────────────────────────────────────────

    def _take_by_arc(self, run: EventRun, duty: Duty, now: Nanos, *, is_ours: bool) -> None:
        head = run.head
        via, source = head.via, head.source
        if is_ours:
            via, source = self._tokens.start(head.flow), self._plans.here or 0
            self._recalls.log.keep(run, -1, now)
            run = run.under(via, source)
        if self._retain(run):
            return
        fresh = self.recent.fresh(run)
        known = run.count - sum(part.count for part in fresh)
        if known:
            self._counters["events_duplicate"] += known
        if self._plans.here is not None:
            flags = head.flags & ~WAY_FLAGS | head.flags & AGAIN_FLAG
            # What is sent again goes on by the tree though it has come: it may be for more brokers.
            for part in (run,) if head.again else fresh:
                self._passing.pass_on(part, duty, flags, head.link_class, now)
            for part in fresh:
                self._passing.pass_beside(part, flags, head.link_class, now)
        for part in fresh:
            ready = self._admit(part, now, marked=head.marked, via=via, source=source)
            self.deliver(ready, now)
