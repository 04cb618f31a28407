"""What a broker knows of its links, as it measures them.

This part of a broker's machine measures links (:mod:`overlay.multigraph.probes`) and decides which
measurements count (:mod:`overlay.multigraph.cost`). What counts is told to the other members of the
cluster (:mod:`ges.gateways.own_links`).
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from ges.telling.changes import Change, Changes
from overlay.ids import LinkClass, Nanos
from overlay.machine import Effect, LinkMessage
from overlay.multigraph.cost import Steady, cost_ns
from overlay.multigraph.express_range import DEFAULT_RANGE_NS, ExpressRange
from overlay.multigraph.probes import Pace, Probes, Reading
from overlay.multigraph.quick_probes import QuickEcho, QuickProbe, QuickProbes
from overlay.multigraph.weights import LinkKey, Weights


class Survey:
    """The links of one broker."""

    def __init__(
        self,
        rng: random.Random,
        changes: Changes,
        *,
        express_range_ns: Nanos = DEFAULT_RANGE_NS,
        pace: Pace | None = None,
    ) -> None:
        """Take the express range, one way, in nanoseconds; 0: no express links.

        Raises:
            ConfigError: the range makes no sense.
        """
        self.express_range = ExpressRange(express_range_ns)
        self._changes = changes
        self._probes = Probes(rng, pace)
        self._quick_probes = QuickProbes()
        self._steady = Steady()
        self._near = ExpressRange(express_range_ns)  #: which normal links are fast enough
        self._fast: dict[str, None] = {}

    # ── links ─────────────────────────────────────────────────────────────────────────────────

    def on_up(self, key: LinkKey, now: Nanos) -> None:
        """A link has come up."""
        self._probes.on_up(key, now)
        self._quick_probes.forget(key)

    def on_down(self, key: LinkKey, now: Nanos, *, is_reset: bool) -> None:
        """A link is gone."""
        uid, link_class = key
        if key not in self._probes:
            return
        self._probes.on_down(key, now, is_reset=is_reset)
        self._quick_probes.forget(key)
        if link_class.is_timed:
            self.express_range.forget(uid)
        elif link_class.is_base:
            self._near.forget(uid)
        self._steady.drop(key)

    def on_message(self, key: LinkKey, message: LinkMessage, now: Nanos) -> list[Effect]:
        """Take what came over a link: a probe or an echo."""
        if isinstance(message, QuickProbe | QuickEcho):
            return self._quick_probes.on_message(key, message, now)
        effects = self._probes.on_message(key, message, now)
        self._measure(key, now)
        return effects

    def on_read(self, readings: Iterable[Reading], now: Nanos) -> None:
        """Take what the connections have sent, and have still to send."""
        self._probes.on_read(readings, now)
        for key in self._probes.links:
            self._measure(key, now)

    def on_express(self, key: LinkKey, now: Nanos) -> None:
        """An express event has come over a link; see :meth:`wants_express`.

        The normal link beside it is probed quickly as well: when the express one becomes slow,
        events go over that from one moment to the next.
        """
        for probed in dict.fromkeys((key, (key[0], LinkClass.NORMAL))):
            if probed in self._probes:
                self._quick_probes.on_event(probed, now)

    # ── timers ────────────────────────────────────────────────────────────────────────────────

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Send the probes that are due."""
        effects, due = self._probes.handle_timers(now)
        for key in due:
            self._measure(key, now)
        return effects + self._quick_probes.handle_timers(now)

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`handle_timers` has something to do, or None."""
        deadlines = (self._probes.next_deadline(), self._quick_probes.next_deadline())
        return min((due for due in deadlines if due is not None), default=None)

    # ── what is known ─────────────────────────────────────────────────────────────────────────

    def weights(self, key: LinkKey, now: Nanos) -> Weights | None:
        """Return what is measured of a link of this broker now; None before the first echo."""
        return self._probes.weights(key, now)

    def wants_express(self, key: LinkKey, now: Nanos) -> bool:
        """Say whether :meth:`on_express` is to be told that an express event has come."""
        return self._quick_probes.wants(key, now)

    def one_way_ns(self, key: LinkKey, kernel_ns: Nanos) -> Nanos:
        """Return how long an express event takes over a link, without any queue; 0: not known.

        ``kernel_ns``: the least that the kernel has seen; 0: it does not say. Quick probes may say
        more. Until there are any, the other probes count: for a normal link those on the express
        one beside it as well, as there is a queue on a normal link that express passes by.
        """
        floor = self._quick_probes.floor_ns(key)
        if not floor:
            floor = self._probes.floor_ns(key)
            if not key[1].is_timed:
                beside = self._probes.floor_ns((key[0], LinkClass.EXPRESS))
                floor = min(floor, beside) if beside or kernel_ns else floor
        return max(kernel_ns, floor // 2)

    def cost_ns(self, key: LinkKey) -> Nanos | None:
        """Return the cost of a link of this broker, as it counts; None before it is measured."""
        weights = self._steady.get(key)
        return cost_ns(key[1], weights) if weights is not None else None

    def agreed_cost_ns(self, key: LinkKey, now: Nanos) -> Nanos | None:
        """Return what a link of this broker costs at least, by each of its latest measurements."""
        weights = self._probes.agreed(key, now)
        return cost_ns(key[1], weights) if weights is not None else None

    def take_near(self) -> tuple[str, ...]:
        """Return whose normal links were measured inside the express range since the last call."""
        near = tuple(self._fast)
        self._fast.clear()
        return near

    def is_near(self, uid: str) -> bool:
        """Say whether the normal link to ``uid`` is inside the express range."""
        return self._near.is_inside(uid)

    def is_express(self, uid: str) -> bool:
        """Say whether there is an express link to ``uid`` that keeps its promise now."""
        return (uid, LinkClass.EXPRESS) in self._probes and self.express_range.is_inside(uid)

    # ── measuring ─────────────────────────────────────────────────────────────────────────────

    def _measure(self, key: LinkKey, now: Nanos) -> None:
        """A link's measurements may have changed: judge it, and see whether they count."""
        weights = self._probes.weights(key, now)
        if weights is None:
            return
        uid, link_class = key
        if link_class.is_timed:
            was_inside = self.express_range.is_inside(uid)
            agreed = self._probes.agreed(key, now)
            if self.express_range.judge(uid, weights, now, agreed=agreed) != was_inside:
                self._changes.mark(Change.COSTS)
        elif link_class.is_base and self._near.judge(uid, weights, now):
            self._fast[uid] = None
            self._changes.mark(Change.NEAR)
        if self._steady.offer(key, weights, now):
            self._changes.mark(Change.COSTS)
