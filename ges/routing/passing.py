"""Events on to other brokers: over links that are up, or later.

What is passed on goes by the plan of the moment (:mod:`ges.routing.plans`). What cannot go waits
for a link (:mod:`ges.routing.holding`) or for a way (:mod:`ges.routing.stuck`), or goes to others
in place of a broker (:mod:`ges.routing.rerouting`).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping

from ges.gateways.next_hops import bits
from ges.routing.forwarding import Forwarding
from ges.routing.holding import Holding
from ges.routing.plans import Plans
from ges.routing.rerouting import Rerouting
from ges.routing.stuck import Stuck, Waiting
from ges.wire.event_flags import AGAIN_FLAG
from ges.wire.event_runs import EventRun
from ges.wire.events import Duty
from overlay.ids import LinkClass, Nanos, Peer
from overlay.queues.resend import Item
from ring.wire.messages import Member


class Passing:
    """What one broker passes on."""

    def __init__(
        self,
        plans: Plans,
        holding: Holding,
        forwarding: Forwarding,
        rerouting: Rerouting,
        stuck: Stuck,
        counters: Counter[str],
    ) -> None:
        self.plans = plans
        self._holding = holding
        self._forwarding = forwarding
        self._rerouting = rerouting
        self._stuck = stuck
        self._version = -1  #: of the tables, when moves were followed last
        self._counters = counters

    # ── events ────────────────────────────────────────────────────────────────────────────────

    def pass_on(
        self, run: EventRun, duty: Duty, flags: int, link_class: LinkClass, now: Nanos
    ) -> None:
        """Send events to those that come next."""
        if duty.shape:
            self._pass_to(run, duty, flags, link_class, now)
            return
        for uid in self.plans.arcs.take_moved():
            self._forwarding.renew((uid, LinkClass.NORMAL))
        onward = self.plans.onward(duty, flags, link_class)
        self._forwarding.forward(run, onward, flags, link_class, now)
        self._rerouting.take_stranded(now)

    def pass_beside(self, run: EventRun, flags: int, link_class: LinkClass, now: Nanos) -> None:
        """Send events for all to the brokers at named links, beside the tree."""
        self._forwarding.forward(run, self.plans.arcs.beside, flags, link_class, now)
        self._rerouting.take_stranded(now)

    def told(self) -> Iterable[str]:
        """Return, once, the uids of the brokers that events went to over normal links."""
        told = self._forwarding.told
        if not told:
            return ()
        self._forwarding.told = {}
        return told

    # ── links and places ──────────────────────────────────────────────────────────────────────

    def update(
        self,
        here: int | None,
        linked: Mapping[str, Member],
        around: Iterable[Member],
        *,
        now: Nanos,
    ) -> None:
        """Plan anew, and pass on what has waited for that: see
        :meth:`ges.routing.router.Router.update`.

        ``here``: this broker's ring id; None: it is not on the ring.
        """
        self.plans.here = here
        self._holding.note(linked, around, is_member=here is not None)
        self._follow_moves()
        self._settle(now)
        self._try_stuck(now)
        self._rerouting.take_stranded(now)

    def on_cut(self, uid: str, link_class: LinkClass, now: Nanos) -> None:
        """A link broke: events for the broker there wait for what comes."""
        self._rerouting.on_cut((uid, link_class), now)
        self._rerouting.take_stranded(now)

    def on_orphans(self, peer: Peer, link_class: LinkClass, items: list[Item], now: Nanos) -> None:
        """Events for a broker that will not get them: others pass them on in its place."""
        self._rerouting.on_orphans((peer.uid, link_class), items, now)
        self._rerouting.take_stranded(now)

    def part(self, now: Nanos) -> None:
        """Before this broker leaves: send on what waits for links, over those that are up."""
        self._rerouting.give_up(now)
        self._rerouting.take_stranded(now)

    @property
    def stuck_bytes(self) -> int:
        """Bytes of memory that events take which wait for a way."""
        return self._stuck.bytes

    @property
    def keeps_events(self) -> bool:
        """Events wait here for a link."""
        return bool(self._stuck) or not self._holding.is_empty

    # ── time ──────────────────────────────────────────────────────────────────────────────────

    @property
    def has_deadlines(self) -> bool:
        """Something waits."""
        return bool(self._holding.held) or bool(self._stuck)

    def next_deadline(self, now: Nanos) -> Nanos | None:
        """Return when :meth:`expire` has something to do."""
        ends = (
            self._holding.next_deadline(now) if self._holding.held else None,
            self._stuck.next_deadline(),
        )
        return min((end for end in ends if end is not None), default=None)

    def expire(self, now: Nanos) -> None:
        """Give up links that do not come, and try what has waited for a way."""
        if self._holding.held:
            self._settle(now)
            self._rerouting.take_stranded(now)
        self._try_stuck(now)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _pass_to(
        self, run: EventRun, duty: Duty, flags: int, link_class: LinkClass, now: Nanos
    ) -> None:
        """Send events to their destinations; those without a way wait."""
        if self.plans.cluster.version != self._version:
            self._follow_moves()
            if self._holding.held:
                self._rerouting.settle(now)
            self._try_stuck(now)
        split = self.plans.split(duty, link_class)
        if split.gone:
            self._counters["events_destination_gone"] += run.count
        if split.strayed:
            flags |= AGAIN_FLAG
            for uid in split.strayed:
                self._forwarding.renew((uid, link_class))
        self._forwarding.forward(run, split.onward, flags, link_class, now)
        if split.stuck:
            self._counters["events_stuck"] += run.count
            waiting = duty._replace(destinations=split.stuck)
            self._give_up(self._stuck.keep(run, waiting, flags, link_class, now))
        if self._forwarding.stranded:
            self._rerouting.take_stranded(now)

    def _try_stuck(self, now: Nanos) -> None:
        """Send what has waited for a way, where there is one by now."""
        if not self._stuck:
            return
        tried, over = self._stuck.take(self.plans.cluster.version, now)
        self._give_up(over)
        for waiting in tried:
            split = self.plans.split(waiting.duty_at(now), waiting.link_class)
            if split.gone:
                self._counters["events_destination_gone"] += waiting.run.count
            flags = waiting.flags | AGAIN_FLAG
            self._forwarding.forward(waiting.run, split.onward, flags, waiting.link_class, now)
            if split.stuck:
                duty = waiting.duty._replace(destinations=split.stuck)
                self._give_up(self._stuck.put(dataclasses.replace(waiting, duty=duty), now))
        self._rerouting.take_stranded(now)

    def _give_up(self, waiting: Iterable[Waiting]) -> None:
        for each in waiting:
            self._counters["events_without_link"] += each.run.count
            self._forwarding.tokens.renew_all()  # whoever misses it asks for it

    def _follow_moves(self) -> None:
        """Destinations have moved to other next hops: order may be broken on these."""
        self._version = self.plans.cluster.version
        cluster = self.plans.cluster
        for link_class, moves in cluster.take_moves().items():
            for node in bits(moves.onto & cluster.known):
                uid = self.plans.masks[link_class].first_of(node)
                if uid is not None:
                    self._forwarding.renew((uid, link_class))

    def _settle(self, now: Nanos) -> None:
        self.plans.lay()
        if self._holding.held:
            self._rerouting.settle(now)
            self.plans.lay()
