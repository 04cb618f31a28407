"""What a broker knows of links: its own as measured, and those around it as told.

The part of a broker's machine that measures its links (:mod:`overlay.multigraph.probes`), decides
which measurements count (:mod:`overlay.multigraph.cost`), tells its neighbours and learns from them
(:mod:`ges.topology.horizon`), and keeps the weighted multigraph of all that. Tables are told within
a second of a change, seldom while changes go on, and when nothing changes every 30 s; at once to a
neighbour that is seen to go by an old one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from enum import Enum, auto

from ges.topology.horizon import REFRESH_NS, Horizon
from ges.topology.update_rate import Rate, RateLimit
from ges.wire.broker_messages import MeasuredLinks
from overlay.ids import LinkClass, Nanos, nanos
from overlay.machine import Effect, LinkMessage, Send, TimerTable
from overlay.multigraph.cost import Steady, cost_ns
from overlay.multigraph.express_range import DEFAULT_RANGE_NS, ExpressRange
from overlay.multigraph.graph import Ends, Multigraph
from overlay.multigraph.probes import Pace, Probes, Reading
from overlay.multigraph.quick_probes import QuickEcho, QuickProbe, QuickProbes
from overlay.multigraph.weights import LinkKey, Weights

GATHER_NS = nanos(0.3)  #: changes wait that long for more; after a death the ring goes first
GREET_NS = nanos(1)  #: a new neighbour is told what is known after this: many links do not last
#: How often a broker's own table is told, and those of its neighbours passed on. On a busy machine
#: measurements never stop changing, and telling of them would keep it busy.
TELL_RATE = Rate(least_ns=nanos(1), rest_ns=nanos(8), burst=4)
PASS_ON_RATE = Rate(least_ns=nanos(3), rest_ns=nanos(24), burst=2)


class _Timer(Enum):
    GREET = auto()
    TELL = auto()
    PASS_ON = auto()
    REFRESH = auto()


class Survey:
    """The links of one broker, and the graph around it."""

    def __init__(
        self,
        uid: str,
        rng: random.Random,
        *,
        express_range_ns: Nanos = DEFAULT_RANGE_NS,
        pace: Pace | None = None,
        carries: Callable[[str], bool] = lambda uid: True,
    ) -> None:
        """Take the express range, one way, in nanoseconds; 0: no express links.

        ``carries``: whether events may take the link to a broker.

        Raises:
            ConfigError: the range makes no sense.
        """
        self.graph = Multigraph()
        self.express_range = ExpressRange(express_range_ns)
        self.told = 0  #: tables sent
        self.uid = uid
        self._carries = carries
        self._incarnation = 0
        self._probes = Probes(rng, pace)
        self._quick_probes = QuickProbes()
        self._steady = Steady()
        self._near = ExpressRange(express_range_ns)  #: which normal links are fast enough
        self._horizon = Horizon(uid)
        self._timers: TimerTable[_Timer] = TimerTable()
        self._new: dict[str, None] = {}  #: neighbours that were not told anything yet
        self._heard: dict[str, int] = {}  #: the version of our own table that each was told last
        self._unpassed: dict[str, None] = {}  #: origins whose tables are to be passed on
        self._limits = {
            _Timer.TELL: RateLimit(TELL_RATE),
            _Timer.PASS_ON: RateLimit(PASS_ON_RATE),
        }
        self._is_changed = False
        self._fast: dict[str, None] = {}

    # ── links ─────────────────────────────────────────────────────────────────────────────────

    def on_up(self, key: LinkKey, now: Nanos) -> None:
        """A link has come up."""
        uid, link_class = key
        self._probes.on_up(key, now)
        self._quick_probes.forget(key)
        self._is_changed = True
        if _Timer.REFRESH not in self._timers:
            self._timers.set(_Timer.REFRESH, now + REFRESH_NS)
        if not link_class.is_timed:
            self._new[uid] = None
            if _Timer.GREET not in self._timers:
                self._timers.set(_Timer.GREET, now + GREET_NS)

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
            self._heard.pop(uid, None)
        if self._steady.drop(key):
            self._own_changed(now)
        self._refresh({*self._horizon.unlinked(uid, link_class), (self.uid, uid)})
        self._is_changed = True

    def on_gone(self, uid: str) -> None:
        """A broker has died or left."""
        self._refresh(self._horizon.forget(uid))

    def on_message(self, key: LinkKey, message: LinkMessage, now: Nanos) -> list[Effect]:
        """Take what came over a link: a probe, an echo, or a table."""
        if isinstance(message, QuickProbe | QuickEcho):
            return self._quick_probes.on_message(key, message, now)
        if not isinstance(message, MeasuredLinks):
            effects = self._probes.on_message(key, message, now)
            self._measure(key, now)
            return effects
        changed = self._horizon.learn(message, *key, now)
        if changed is not None:
            if message.origin == key[0]:
                self._unpassed[message.origin] = None
                self._soon(_Timer.PASS_ON, now)
            self._refresh(changed)
        return []

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

    def correct(self, uid: str) -> list[Effect]:
        """Tell a neighbour now of our links as they are: it sends events by one that is gone.

        Nothing if it was told since that changed. Tables are told so seldom that two brokers could
        send an event to and fro between them for seconds, each by a link that the other had.
        """
        table = self._horizon.told_directly(self.uid)
        if table is None or uid not in self.linked or self._heard.get(uid) == table.version:
            return []
        return self._tell(self.uid, (uid,))

    def set_incarnation(self, incarnation: int, now: Nanos) -> None:
        """This broker lives on in another incarnation."""
        if incarnation != self._incarnation:
            self._incarnation = incarnation
            self._own_changed(now)

    # ── timers ────────────────────────────────────────────────────────────────────────────────

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Probe and tell, each when it is due."""
        effects, due = self._probes.handle_timers(now)
        for key in due:
            self._measure(key, now)
        effects += self._quick_probes.handle_timers(now)
        while (timer := self._timers.pop_expired(now)) is not None:
            if timer is _Timer.GREET:
                effects += self._greet()
            elif timer is _Timer.TELL:
                effects += self._tell_all((self.uid,))
            elif timer is _Timer.PASS_ON:
                effects += self._tell_all(self._unpassed)
                self._unpassed.clear()
            else:
                self._timers.set(_Timer.REFRESH, now + REFRESH_NS)
                self._refresh(self._horizon.expire(now))
                self._own_changed(now)
        return effects

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`handle_timers` has something to do, or None."""
        earliest = self._probes.next_deadline()
        for due in (self._quick_probes.next_deadline(), self._timers.next_deadline()):
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        return earliest

    # ── what is known ─────────────────────────────────────────────────────────────────────────

    @property
    def linked(self) -> set[str]:
        """Uids at the other end of normal links."""
        return {uid for uid, c in self._probes.links if c.is_base}

    def take_changed(self) -> bool:
        """Say whether links or costs have changed since the last call."""
        is_changed = self._is_changed or self.graph.is_changed
        self._is_changed = False
        return is_changed

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

    def on_carriers(self, now: Nanos) -> None:
        """Events may take other links than before."""
        self._is_changed = True
        self._own_changed(now)

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
        was_open = self.has_link(key)
        if link_class.is_timed:
            self.express_range.judge(uid, weights, now, agreed=self._probes.agreed(key, now))
        elif link_class.is_base and self._near.judge(uid, weights, now):
            self._fast[uid] = None
        counts = self._steady.offer(key, weights, now)
        if self.has_link(key) != was_open:
            self._is_changed = counts = True  # the other end may have changed the graph before
        if counts:
            self._own_changed(now)

    def _own_changed(self, now: Nanos) -> None:
        links: dict[LinkKey, Weights] = {}
        for key in self._probes.links:
            weights = self._steady.get(key)
            if weights is not None and self.has_link(key):
                links[key] = weights
        self._refresh(self._horizon.own(self._incarnation, links, now))
        self._soon(_Timer.TELL, now)

    def has_link(self, key: LinkKey) -> bool:
        """There is a link that events of its class may use."""
        uid, link_class = key
        is_up = self.is_express(uid) if link_class.is_timed else key in self._probes
        return is_up and self._carries(uid)

    def _refresh(self, pairs: Iterable[Ends]) -> None:
        """Put what is known of the links between these brokers into the graph."""
        for a, b in pairs:
            for link_class in LinkClass:
                weights = self._horizon.weights(a, b, link_class)
                if weights is None:
                    self.graph.remove(a, b, link_class)
                elif link_class.is_base or self.graph.has(a, b, LinkClass.NORMAL):
                    self.graph.put(a, b, link_class, weights)

    # ── telling ───────────────────────────────────────────────────────────────────────────────

    def _soon(self, timer: _Timer, now: Nanos) -> None:
        """Set a timer for soon, or until which it must not be done again."""
        if timer not in self._timers:
            self._timers.set(timer, self._limits[timer].next(now + GATHER_NS))

    def _greet(self) -> list[Effect]:
        """Tell new neighbours what is known."""
        linked = {uid for uid, _ in self._probes.links}
        new = [uid for uid in self._new if uid in linked]
        self._new.clear()
        origins = sorted(linked | {self.uid})
        return [effect for origin in origins for effect in self._tell(origin, new)]

    def _tell_all(self, origins: Iterable[str]) -> list[Effect]:
        near = sorted({uid for uid, _ in self._probes.links})
        return [effect for origin in origins for effect in self._tell(origin, near)]

    def _tell(self, origin: str, to: Iterable[str]) -> list[Effect]:
        """Tell others of a table; over the secure link where there is one, as that is believed."""
        message = self._horizon.told_directly(origin)
        if message is None:
            return []
        effects: list[Effect] = []
        # Whom the origin itself is linked to it tells itself.
        told = {link.uid for link in message.links} if origin != self.uid else ()
        for uid in to:
            if uid == origin or uid in told:
                continue
            is_secure = (uid, LinkClass.SECURE) in self._probes
            link_class = LinkClass.SECURE if is_secure else LinkClass.NORMAL
            effects.append(Send(uid, message, link_class=link_class))
            if origin == self.uid:
                self._heard[uid] = message.version
        self.told += len(effects)
        return effects
