"""What becomes of events that have waited for a link.

The link is back: they are sent over it again, which :mod:`overlay.links.keeping` does. The link has
failed and the broker lives: they take the paths that next hops have found by then. Or the broker is
dead, or will not be linked: then others pass them on in its place. Both ways they are flagged
*again*. What a broker has passed on already may come there for a second time; the broker passes it
on all the same, and delivers it once.
"""

from __future__ import annotations

from collections import Counter

from ges.routing.forwarding import Forwarding
from ges.routing.holding import Holding, frames_of
from ges.routing.outlets import Lines
from ges.routing.plan import Onward
from ges.routing.plans import Plans
from ges.routing.stuck import Stuck
from ges.wire.event_flags import AGAIN_FLAG
from ges.wire.event_runs import EventRun
from ges.wire.events import read_head
from overlay.ids import LinkClass, Nanos
from overlay.queues.resend import Item
from overlay.queues.streams import Key
from overlay.wire.frames import EVENT, frame

NORMAL = LinkClass.NORMAL


class Rerouting:
    """Decides for each broker that events are held for, and sends them on."""

    def __init__(
        self,
        lines: Lines,
        plans: Plans,
        holding: Holding,
        forwarding: Forwarding,
        stuck: Stuck,
        counters: Counter[str],
    ) -> None:
        self._lines = lines
        self._plans = plans
        self._holding = holding
        self._forwarding = forwarding
        self._stuck = stuck
        self._counters = counters

    def on_cut(self, key: Key, now: Nanos) -> None:
        """A link broke: events for the broker there wait.

        Where it has left, or was declared dead, there is nothing to wait for.
        """
        if key[1].is_reliable and not self._holding.hold(key, now):
            self.on_orphans(key, self._holding.release(key), now)

    def on_orphans(self, key: Key, items: list[Item], now: Nanos) -> None:
        """Events for a broker that will not get them from us.

        Nor does it get what comes after them, should its link be down or that of a later life:
        that one may have another place, or none yet, and would pass on nothing.
        """
        place = self._holding.place(key[0])
        self._send_on([*items, *self._holding.release(key)], key, place, now)

    def take_stranded(self, now: Nanos) -> None:
        """Find others for events to whose next broker there is no link.

        That broker may have left while the event was under way, or its link has failed: then others
        get the event in its place. What finds no link there either is lost.
        """
        for stranded in self._forwarding.take_stranded():
            uid = stranded.key[0]
            place = self._holding.place(uid)
            is_lost = uid in self._holding.linked and not self._holding.is_failed(uid)
            if place is None or is_lost:
                self._lose()
            else:
                self._send_on([(frame(EVENT, stranded.event), 1)], stranded.key, place, now)
        for _ in self._forwarding.take_stranded():
            self._lose()

    def settle(self, now: Nanos) -> None:
        """Send on what has waited, where it is known by now what became of the link."""
        for key, held in list(self._holding.held.items()):
            uid, link_class = key
            line = self._lines.get(key)
            if line is not None:
                is_later = line.peer.incarnation > held.peer.incarnation
                if uid in self._holding.linked or is_later:  # else its place is not known yet
                    self._holding.release(key)
            elif self._holding.is_over(key, now) or (
                self._holding.has_failed(key, now) and not self._plans.masks[link_class].takes(uid)
            ):
                self._send_on(self._holding.release(key), key, held.place, now)

    def give_up(self, now: Nanos) -> None:
        """Wait for no link any more: this broker leaves, and others stand in for those beyond."""
        for key, held in list(self._holding.held.items()):
            self._send_on(self._holding.release(key), key, held.place, now)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _lose(self) -> None:
        self._counters["events_without_link"] += 1
        self._forwarding.tokens.renew_all()  # whoever misses it asks for it

    def _send_on(self, items: list[Item], key: Key, place: int | None, now: Nanos) -> None:
        self._forwarding.renew(key)
        if items:
            self._plans.lay()  # over what is linked now
        for event in frames_of(items):
            run = EventRun.of(read_head(event), event)
            if run.head.duty.shape:
                self._send_around(run, key, now)
            else:
                self._send_instead(run, key, place, now)

    def _send_around(self, run: EventRun, key: Key, now: Nanos) -> None:
        """Send events on that name their destinations; a broker that has died is none any more."""
        uid, link_class = key
        head, plan = run.head, self._plans.masks[link_class]
        flags = head.flags | AGAIN_FLAG
        is_alive = uid in self._holding.linked and not plan.takes(uid)
        split = plan.split(head.duty) if is_alive else plan.around(uid, head.duty)
        if split.gone:
            self._counters["events_destination_gone"] += 1
        if split.onward:
            self._counters["events_sent_on"] += 1
            self._forwarding.forward(run, split.onward, flags, link_class, now)
        if split.stuck:
            duty = head.duty._replace(destinations=split.stuck)
            given_up = self._stuck.keep(run, duty, flags, link_class, now)
            self._counters["events_without_link"] += sum(each.run.count for each in given_up)

    def _send_instead(self, run: EventRun, key: Key, place: int | None, now: Nanos) -> None:
        """Send events on to those who serve a broker's arc in its place."""
        uid, link_class = key
        duty, flags = run.head.duty, run.head.flags | AGAIN_FLAG
        onward: Onward = ()
        if place is not None:
            onward = self._plans.of(duty, flags, link_class).instead(uid, place, duty)
        if self._holding.is_failed(uid) and not run.head.secure:
            # The one before us is linked to that broker as well, if we are its ring neighbour.
            others = tuple(each for each in onward if each[0] != uid)
            onward = others or self._plans.arcs.before_us(duty)
        if onward:
            self._counters["events_sent_on"] += 1
            self._forwarding.forward(run, onward, flags, link_class, now)
        elif place is None:
            self._counters["events_unacknowledged_dropped"] += 1
        # else nobody but that broker was in its part of the ring
