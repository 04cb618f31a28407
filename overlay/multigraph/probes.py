"""Measures the links of one broker: a probe on each link's own connection, and its echo.

A probe stands in the queue of its link as events do, so the round trip shows what an event would
meet. One probe at most is under way on each link; how long it has been is a lower bound of the
round trip, so a link that stalls becomes dear before the echo is there. Probes go out every second
on a link that carries events or varies. On one that is idle and steady the pause doubles, from 4 s
to 16 s; what changes that ends it, and so does the first event. On express links it stays 4 s: they
promise a bound. It is 4 s as well on an idle link that never ceases to vary: that is the noise of a
busy machine, which measuring it every second makes busier, and no news.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from overlay.ids import LinkClass, Nanos, WireCount, nanos
from overlay.machine import Command, Effect, LinkMessage, Send, TimerTable
from overlay.multigraph.weights import Flow, LinkKey, Resets, RoundTrip, Weights

FIRST_PROBES = 4  #: quickly one after the other, as a new link is to be known soon
OWN_FAULT_NS = nanos(0.05)  #: a timer that late shows that this process stood still
WATCH_NS = nanos(0.2)  #: while a probe is under way we see that often whether it does
STEADY_RATIO = 4  #: jitter below 1/4 of the round trip is steady ...
STEADY_NS = nanos(0.001)  #: ... and so is any below this
RESTLESS = 12  #: so many more probes that found an idle link varying than steady: it always varies


class LinkProbe(LinkMessage, frozen=True):
    """Answer with the same token over the same link."""

    token: WireCount


class LinkEcho(LinkMessage, frozen=True):
    """The answer to a probe."""

    token: WireCount


class Reading(msgspec.Struct, frozen=True):
    """What one connection has sent since it was made, and what waits in its queue, in bytes.

    ``events``: how many were queued since it was made.
    """

    key: LinkKey
    sent_bytes: int
    queued_bytes: int
    events: int = 0


@dataclass(frozen=True, slots=True)
class LinksRead(Command):
    """The queues of all links, as they are now."""

    readings: tuple[Reading, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often links are probed."""

    first_ns: Nanos = nanos(0.2)
    busy_ns: Nanos = nanos(1)
    idle_ns: Nanos = nanos(4)  #: at first; doubles while nothing changes ...
    longest_ns: Nanos = nanos(16)  #: ... up to this


@dataclass(slots=True)
class _Gauge:
    flow: Flow
    trip: RoundTrip = field(default_factory=RoundTrip)
    waiting: tuple[int, Nanos] | None = None  #: token of the probe under way, and when it was sent
    due: Nanos = 0  #: when the next probe is
    idle: Nanos = 0  #: the pause at present, if it is idle, and steady or always varies
    restless: int = 0  #: probes that found it varying while idle, less those that found it steady
    events: int = 0  #: queued up to the last reading
    is_used: bool = False  #: events were queued between the last two readings


class Probes:
    """The links that are up, and what is measured of them."""

    def __init__(self, rng: random.Random, pace: Pace | None = None) -> None:
        self._rng = rng
        self._pace = pace if pace is not None else Pace()
        self._gauges: dict[LinkKey, _Gauge] = {}
        self._timers: TimerTable[LinkKey] = TimerTable()
        self._resets = Resets()
        self._token = 0
        self._watch: Nanos | None = None  #: nothing but a look at the time

    def __contains__(self, key: LinkKey) -> bool:
        return key in self._gauges

    @property
    def links(self) -> tuple[LinkKey, ...]:
        """The links that are up."""
        return tuple(self._gauges)

    # ── inputs ────────────────────────────────────────────────────────────────────────────────

    def on_up(self, key: LinkKey, now: Nanos) -> None:
        """A link has come up, or a new connection has taken its place."""
        self._gauges[key] = _Gauge(Flow(now))
        self._timers.set(key, now)

    def on_down(self, key: LinkKey, now: Nanos, *, is_reset: bool) -> None:
        """A link is gone; ``is_reset``: it broke, nobody decided so."""
        if self._gauges.pop(key, None) is not None and is_reset:
            self._resets.note(key, now)
        self._timers.cancel(key)

    def on_message(self, key: LinkKey, message: LinkMessage, now: Nanos) -> list[Effect]:
        """Answer a probe, or take the echo of one."""
        if isinstance(message, LinkProbe):
            return [Send(key[0], LinkEcho(message.token), link_class=key[1])]
        gauge = self._gauges.get(key)
        if isinstance(message, LinkEcho) and gauge is not None and gauge.waiting is not None:
            token, sent = gauge.waiting
            if message.token == token:
                gauge.waiting = None
                gauge.trip.on_sample(now - sent)
                self._hurry(key, gauge, now)
        return []

    def on_read(self, readings: Iterable[Reading], now: Nanos) -> None:
        """Take what the connections have sent, and have still to send."""
        for reading in readings:
            gauge = self._gauges.get(reading.key)
            if gauge is not None:
                gauge.flow.on_reading(reading.sent_bytes, reading.queued_bytes, now)
                gauge.is_used = reading.events > gauge.events
                gauge.events = reading.events
                self._hurry(reading.key, gauge, now)

    def handle_timers(self, now: Nanos) -> tuple[list[Effect], list[LinkKey]]:
        """Send the probes that are due; return them, and the links whose turn it was."""
        effects: list[Effect] = []
        self._excuse(now)
        due = []
        while (key := self._timers.pop_expired(now)) is not None:
            gauge = self._gauges[key]
            due.append(key)
            pause = self._pause(gauge, key[1])
            if gauge.waiting is None:
                self._token += 1
                gauge.waiting = (self._token, now)
                effects.append(Send(key[0], LinkProbe(self._token), link_class=key[1]))
            gauge.due = now + pause * 3 // 4 + self._rng.randrange(pause // 2 + 1)
            self._timers.set(key, gauge.due)
        is_watching = any(gauge.waiting is not None for gauge in self._gauges.values())
        self._watch = now + WATCH_NS if is_watching else None
        return effects, due

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`handle_timers` has something to do; None: no link is measured."""
        due, watch = self._timers.next_deadline(), self._watch
        return min(due, watch) if due is not None and watch is not None else due

    # ── what is known ─────────────────────────────────────────────────────────────────────────

    def weights(self, key: LinkKey, now: Nanos) -> Weights | None:
        """Return the weight set of a link as measured now; None before the first round trip."""
        gauge = self._gauges.get(key)
        if gauge is None or not gauge.trip.samples:
            return None
        trip, flow = gauge.trip, gauge.flow
        waited = now - gauge.waiting[1] if gauge.waiting is not None else 0
        return Weights(
            max(trip.rtt_ns, waited),
            trip.jitter_ns,
            round(flow.capacity),
            round(flow.traffic),
            flow.queued_ns,
            self._resets.milli(key, now),
        )

    def floor_ns(self, key: LinkKey) -> Nanos:
        """Return the smallest of the latest round trips of a link; 0: none is known."""
        gauge = self._gauges.get(key)
        return gauge.trip.floor_ns if gauge is not None else 0

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _excuse(self, now: Nanos) -> None:
        """Where we are late ourselves, the links are not: an echo may wait to be read."""
        due = self.next_deadline()
        late = now - due if due is not None else 0
        if late < OWN_FAULT_NS:
            return
        for gauge in self._gauges.values():
            if gauge.waiting is not None:
                token, sent = gauge.waiting
                gauge.waiting = (token, min(now, sent + late))

    def _pause(self, gauge: _Gauge, link_class: LinkClass) -> Nanos:
        pace = self._pace
        if gauge.trip.samples < FIRST_PROBES:
            return pace.first_ns
        if gauge.is_used:
            gauge.restless = 0
        elif gauge.waiting is None:
            gauge.restless += -1 if _is_steady(gauge) else 1
            gauge.restless = max(0, min(gauge.restless, RESTLESS))
        if not _is_calm(gauge) or gauge.waiting is not None:
            gauge.idle = 0
            return pace.busy_ns
        is_long = _is_steady(gauge) and link_class is not LinkClass.EXPRESS
        longest = pace.longest_ns if is_long else pace.idle_ns
        gauge.idle = min(2 * gauge.idle, longest) or pace.idle_ns
        return gauge.idle

    def _hurry(self, key: LinkKey, gauge: _Gauge, now: Nanos) -> None:
        """A link that is idle no more, or another than it was, is probed soon."""
        if gauge.idle and not _is_calm(gauge):
            gauge.idle = 0
            gauge.due = min(gauge.due, now + self._pace.busy_ns)
            self._timers.set(key, gauge.due)


def _is_calm(gauge: _Gauge) -> bool:
    """No events go over the link, and probes take as long as ever, or vary as ever.

    Control messages do not count: many of them tell what probes have found.
    """
    return not gauge.is_used and (_is_steady(gauge) or gauge.restless == RESTLESS)


def _is_steady(gauge: _Gauge) -> bool:
    trip = gauge.trip
    return trip.jitter_ns < max(trip.rtt_ns // STEADY_RATIO, STEADY_NS)
