"""What becomes of events that have waited for a link.

The link is back: they are sent over it again, which :mod:`overlay.links.keeping` does. There is a
way round it: they take that, before all that is newer. Or the broker is dead, or will not be
linked: then those who stand in for it get them, flagged *again*. What it may have passed on already
comes there for a second time; it is passed on all the same, and delivered once.
"""

from __future__ import annotations

from collections import Counter

from ges.routing.catch_up import CatchUp
from ges.routing.forwarding import Forwarding, Stranded
from ges.routing.holding import Holding, frames_of
from ges.routing.outlets import Lines
from ges.routing.paths import Path, Paths
from ges.routing.plan import Onward
from ges.routing.plans import Plans
from ges.routing.stuck import Stuck
from ges.wire.event_flags import AGAIN_FLAG, FLOOD_FLAG, WAY_FLAGS
from ges.wire.event_runs import EventRun
from ges.wire.events import read_head
from ges.wire.source_route import read_route
from overlay.ids import LinkClass, Nanos
from overlay.queues.resend import Item
from overlay.queues.streams import Key
from overlay.wire.frames import DETOUR, EVENT, frame
from ring.wire.messages import MAX_PATH

NORMAL, SECURE = LinkClass.NORMAL, LinkClass.SECURE


class Rerouting:
    """Decides for each broker that events are held for, and sends them on."""

    def __init__(
        self,
        lines: Lines,
        paths: Paths,
        plans: Plans,
        holding: Holding,
        forwarding: Forwarding,
        catch_up: CatchUp,
        stuck: Stuck,
        counters: Counter[str],
    ) -> None:
        self._lines = lines
        self._paths = paths
        self._plans = plans
        self._holding = holding
        self._forwarding = forwarding
        self._catch_up = catch_up
        self._stuck = stuck
        self._counters = counters

    def on_cut(self, key: Key, now: Nanos) -> None:
        """A link broke, or a way round one: events for the broker there wait.

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
        """Find others for events that no way leads on for.

        The broker that such an event is for may have left while the event was under way: then
        others get it in its place. What no way leads on for then is lost.
        """
        for stranded in self._forwarding.take_stranded():
            place = self._holding.place(stranded.uid)
            if place is None or stranded.uid in self._holding.linked:
                self._lose(stranded)
            else:
                key = (stranded.uid, stranded.link_class)
                self._send_on([(frame(EVENT, stranded.event), 1)], key, place, now)
        for stranded in self._forwarding.take_stranded():
            self._lose(stranded)

    def settle(self, now: Nanos) -> None:
        """Send on what has waited, where it is known by now what became of the link."""
        for key, held in list(self._holding.held.items()):
            uid, link_class = key
            line = self._lines.get(key)
            if line is not None:
                is_later = line.peer.incarnation > held.peer.incarnation
                if uid in self._holding.linked or is_later:  # else its place is not known yet
                    self._holding.release(key)
            elif (way := self._paths.round(key)) is not None:
                self._go_round(self._holding.release(key), way, NORMAL, now)
            elif (
                link_class.is_secret
                and self._holding.may_go_round(key, now)
                and (way := self._forwarding.way_round(key)) is not None
            ):
                self._go_round(self._holding.release(key), way, SECURE, now)
            elif self._holding.is_over(key, now):
                self._send_on(self._holding.release(key), key, held.place, now)

    def give_up(self, now: Nanos) -> None:
        """Wait for no link any more: this broker leaves, and others stand in for those beyond."""
        for key, held in list(self._holding.held.items()):
            self._send_on(self._holding.release(key), key, held.place, now)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _lose(self, stranded: Stranded) -> None:
        self._counters["events_without_link"] += 1
        self._forwarding.tokens.renew_all()  # whoever misses it asks for it

    def _go_round(self, items: list[Item], path: Path, link_class: LinkClass, now: Nanos) -> None:
        for kind, body in frames_of(items):
            way, event = read_route(body) if kind == DETOUR else ((), body)
            whole = path + way
            whole = whole if len(whole) < MAX_PATH else way
            self._forwarding.send_round(whole, event, link_class, now)

    def _send_on(self, items: list[Item], key: Key, place: int | None, now: Nanos) -> None:
        uid, link_class = key
        self._forwarding.renew(key)
        if items:
            self._plans.lay()  # over what is linked now
        for kind, body in frames_of(items):
            way, event = read_route(body) if kind == DETOUR else ((), body)
            run = EventRun.of(read_head(event), event)
            if run.head.duty.shape:
                self._send_around(run, uid, way, link_class, now)
            else:
                self._send_instead(run, uid, way, place, link_class, now)

    def _send_around(
        self, run: EventRun, uid: str, way: Path, link_class: LinkClass, now: Nanos
    ) -> None:
        """Send events on that name their destinations; a broker that has died is none any more."""
        head = run.head
        flags = head.flags | AGAIN_FLAG
        if way:
            self._forwarding.forward(run, ((way[-1], head.duty),), flags, link_class, now)
            return
        split = self._plans.masks[link_class].around(uid, head.duty)
        if split.gone:
            self._counters["events_destination_gone"] += 1
        if split.onward:
            self._counters["events_sent_on"] += 1
            self._forwarding.forward(run, split.onward, flags, link_class, now)
        if split.stuck:
            duty = head.duty._replace(destinations=split.stuck)
            given_up = self._stuck.keep(run, duty, flags, link_class, now)
            self._counters["events_without_link"] += sum(each.run.count for each in given_up)

    def _send_instead(
        self,
        run: EventRun,
        uid: str,
        way: Path,
        place: int | None,
        link_class: LinkClass,
        now: Nanos,
    ) -> None:
        """Send events on to those who serve a broker's arc in its place."""
        head = run.head
        flags = head.flags & ~WAY_FLAGS | (FLOOD_FLAG if head.secure else AGAIN_FLAG)
        onward: Onward = ()
        if way and not head.secure:
            onward = ((way[-1], head.duty),)
        elif head.secure or place is not None:
            onward = self._plans.of(head.duty, flags, NORMAL).instead(uid, place or 0, head.duty)
        if not way:
            self._catch_up.keep_instead(run, flags, link_class, now, uid)
        if onward:
            self._counters["events_sent_on"] += 1
            self._forwarding.forward(run, onward, flags, link_class, now)
        elif place is None or (head.secure and not self._plans.normal.is_empty):
            self._counters["events_unacknowledged_dropped"] += 1
        # else nobody but that broker was in its part of the ring
