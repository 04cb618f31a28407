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
from overlay.multigraph.weights import (
    RECENT_SAMPLES,
    Flow,
    LinkKey,
    Resets,
    RoundTrip,
    Weights,
    agreed,
)

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
class _Probed:
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
        self._probed: dict[LinkKey, _Probed] = {}
        self._timers: TimerTable[LinkKey] = TimerTable()
        self._resets = Resets()
        self._token = 0
        self._watch: Nanos | None = None  #: nothing but a look at the time

    def __contains__(self, key: LinkKey) -> bool:
        return key in self._probed

    @property
    def links(self) -> tuple[LinkKey, ...]:
        """The links that are up."""
        return tuple(self._probed)

    # ── inputs ────────────────────────────────────────────────────────────────────────────────

    def on_up(self, key: LinkKey, now: Nanos) -> None:
        """A link has come up, or a new connection has taken its place."""
        self._probed[key] = _Probed(Flow(now))
        self._timers.set(key, now)

    def on_down(self, key: LinkKey, now: Nanos, *, is_reset: bool) -> None:
        """A link is gone; ``is_reset``: it broke, nobody decided so."""
        if self._probed.pop(key, None) is not None and is_reset:
            self._resets.note(key, now)
        self._timers.cancel(key)

    def on_message(self, key: LinkKey, message: LinkMessage, now: Nanos) -> list[Effect]:
        """Answer a probe, or take the echo of one."""
        if isinstance(message, LinkProbe):
            return [Send(key[0], LinkEcho(message.token), link_class=key[1])]
        probed = self._probed.get(key)
        if isinstance(message, LinkEcho) and probed is not None and probed.waiting is not None:
            token, sent = probed.waiting
            if message.token == token:
                probed.waiting = None
                probed.trip.on_sample(now - sent)
                self._hurry(key, probed, now)
        return []

    def on_read(self, readings: Iterable[Reading], now: Nanos) -> None:
        """Take what the connections have sent, and have still to send."""
        for reading in readings:
            probed = self._probed.get(reading.key)
            if probed is not None:
                probed.flow.on_reading(reading.sent_bytes, reading.queued_bytes, now)
                probed.is_used = reading.events > probed.events
                probed.events = reading.events
                self._hurry(reading.key, probed, now)

    def handle_timers(self, now: Nanos) -> tuple[list[Effect], list[LinkKey]]:
        """Send the probes that are due; return them, and the links whose turn it was."""
        effects: list[Effect] = []
        self._excuse(now)
        due = []
        while (key := self._timers.pop_expired(now)) is not None:
            probed = self._probed[key]
            due.append(key)
            pause = self._pause(probed, key[1])
            if probed.waiting is None:
                self._token += 1
                probed.waiting = (self._token, now)
                effects.append(Send(key[0], LinkProbe(self._token), link_class=key[1]))
            probed.due = now + pause * 3 // 4 + self._rng.randrange(pause // 2 + 1)
            self._timers.set(key, probed.due)
        is_watching = any(probed.waiting is not None for probed in self._probed.values())
        self._watch = now + WATCH_NS if is_watching else None
        return effects, due

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`handle_timers` has something to do; None: no link is measured."""
        due, watch = self._timers.next_deadline(), self._watch
        return min(due, watch) if due is not None and watch is not None else due

    # ── what is known ─────────────────────────────────────────────────────────────────────────

    def weights(self, key: LinkKey, now: Nanos) -> Weights | None:
        """Return the weight set of a link as measured now; None before the first round trip."""
        probed = self._probed.get(key)
        if probed is None or not probed.trip.samples:
            return None
        trip, flow = probed.trip, probed.flow
        waited = now - probed.waiting[1] if probed.waiting is not None else 0
        return Weights(
            max(trip.rtt_ns, waited),
            trip.jitter_ns,
            round(flow.capacity),
            round(flow.traffic),
            flow.queued_ns,
            self._resets.milli(key, now),
        )

    def agreed(self, key: LinkKey, now: Nanos) -> Weights | None:
        """Return the weight set that the latest three measurements agree on; None before any.

        A probe that has been under way for a second, two, three counts as so many measurements.
        """
        weights = self.weights(key, now)
        if weights is None:
            return None
        probed = self._probed[key]
        waited = now - probed.waiting[1] if probed.waiting is not None else 0
        missed = min(waited // self._pace.busy_ns, RECENT_SAMPLES)
        return agreed(weights, (*probed.trip.recent, *[waited] * missed)[-RECENT_SAMPLES:])

    def floor_ns(self, key: LinkKey) -> Nanos:
        """Return the smallest of the latest round trips of a link; 0: none is known."""
        probed = self._probed.get(key)
        return probed.trip.floor_ns if probed is not None else 0

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _excuse(self, now: Nanos) -> None:
        """Where we are late ourselves, the links are not: an echo may wait to be read."""
        due = self.next_deadline()
        late = now - due if due is not None else 0
        if late < OWN_FAULT_NS:
            return
        for probed in self._probed.values():
            if probed.waiting is not None:
                token, sent = probed.waiting
                probed.waiting = (token, min(now, sent + late))

    def _pause(self, probed: _Probed, link_class: LinkClass) -> Nanos:
        pace = self._pace
        if probed.trip.samples < FIRST_PROBES:
            return pace.first_ns
        if probed.is_used:
            probed.restless = 0
        elif probed.waiting is None:
            probed.restless += -1 if _is_steady(probed) else 1
            probed.restless = max(0, min(probed.restless, RESTLESS))
        if not _is_calm(probed) or probed.waiting is not None:
            probed.idle = 0
            return pace.busy_ns
        is_long = _is_steady(probed) and not link_class.is_timed
        longest = pace.longest_ns if is_long else pace.idle_ns
        probed.idle = min(2 * probed.idle, longest) or pace.idle_ns
        return probed.idle

    def _hurry(self, key: LinkKey, probed: _Probed, now: Nanos) -> None:
        """A link that is idle no more, or another than it was, is probed soon."""
        if probed.idle and not _is_calm(probed):
            probed.idle = 0
            probed.due = min(probed.due, now + self._pace.busy_ns)
            self._timers.set(key, probed.due)


def _is_calm(probed: _Probed) -> bool:
    """No events go over the link, and probes take as long as ever, or vary as ever.

    Control messages do not count: many of them tell what probes have found.
    """
    return not probed.is_used and (_is_steady(probed) or probed.restless == RESTLESS)


def _is_steady(probed: _Probed) -> bool:
    trip = probed.trip
    return trip.jitter_ns < max(trip.rtt_ns // STEADY_RATIO, STEADY_NS)
