"""How long express events take over each link: quick probes, sent before all that waits.

The probes of :mod:`overlay.multigraph.probes` stand in the queue of their link, as they are to show
what a normal event would meet; an express event passes that queue by. And the kernel's smallest
round trip may be minutes old, or lead to a proxy only. So a link that express events come over is
*sounded*: quickly while they come, then every second, until none has come for half a minute.

What counts is the smallest of the latest soundings, and only once there are some: one alone may
have waited for a process that was busy.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from overlay.ids import Nanos, WireCount, nanos
from overlay.machine import Command, Effect, LinkMessage, Send, TimerTable
from overlay.multigraph.weights import LinkKey
from overlay.wire.versions import QUICK_PROBES

QUICK_NS = nanos(0.3)  #: between two soundings ...
QUICK_FOR_NS = nanos(1.5)  #: ... for so long after each express event
SLOW_NS = nanos(1)  #: after that
FORGET_NS = nanos(30)  #: after the last express event the link is sounded no more
LATEST = 4  #: soundings of which the smallest counts ...
FEWEST = 3  #: ... if there are so many
MOST_UNDER_WAY = 8  #: beyond that a link has to answer first ...
LOST_NS = nanos(10)  #: ... or to have left one unanswered for so long


class QuickProbe(LinkMessage, frozen=True):
    """Answer with the same token over the same link, before all that waits."""

    token: WireCount
    capability = QUICK_PROBES
    is_quick = True


class QuickEcho(LinkMessage, frozen=True):
    """The answer to a quick probe."""

    token: WireCount
    capability = QUICK_PROBES
    is_quick = True


@dataclass(frozen=True, slots=True)
class ExpressCame(Command):
    """An express event has come over this link."""

    key: LinkKey


@dataclass(slots=True)
class _Sounded:
    came: Nanos  #: when the last express event did, as far as we were told
    sent: Nanos | None = None  #: when the last probe was
    under_way: dict[int, Nanos] = field(default_factory=dict)  #: when each was sent, by token
    latest: deque[Nanos] = field(default_factory=lambda: deque(maxlen=LATEST))


class QuickProbes:
    """The links that express events come over, and how long they take now. Sans-IO."""

    def __init__(self) -> None:
        self._links: dict[LinkKey, _Sounded] = {}
        self._timers: TimerTable[LinkKey] = TimerTable()
        self._token = 0

    def wants(self, key: LinkKey, now: Nanos) -> bool:
        """Say whether :meth:`on_event` makes a difference: it need not be told of each event."""
        sounded = self._links.get(key)
        return sounded is None or now - sounded.came >= QUICK_NS

    def on_event(self, key: LinkKey, now: Nanos) -> None:
        """An express event has come over a link that is up."""
        sounded = self._links.get(key)
        if sounded is None:
            sounded = self._links[key] = _Sounded(now)
        sounded.came = now
        self._timers.set(key, now if sounded.sent is None else max(now, sounded.sent + QUICK_NS))

    def on_message(self, key: LinkKey, message: QuickProbe | QuickEcho, now: Nanos) -> list[Effect]:
        """Answer a probe, or take the echo of one."""
        if isinstance(message, QuickProbe):
            return [Send(key[0], QuickEcho(message.token), link_class=key[1])]
        sounded = self._links.get(key)
        sent = sounded.under_way.pop(message.token, None) if sounded is not None else None
        if sounded is not None and sent is not None:
            sounded.latest.append(now - sent)
        return []

    def forget(self, key: LinkKey) -> None:
        """The link is gone, or another than it was."""
        self._links.pop(key, None)
        self._timers.cancel(key)

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Send the probes that are due."""
        effects: list[Effect] = []
        while (key := self._timers.pop_expired(now)) is not None:
            sounded = self._links[key]
            quiet = now - sounded.came
            if quiet >= FORGET_NS:
                del self._links[key]
                continue
            self._timers.set(key, now + (QUICK_NS if quiet < QUICK_FOR_NS else SLOW_NS))
            if len(sounded.under_way) >= MOST_UNDER_WAY:
                if now - min(sounded.under_way.values()) < LOST_NS:
                    continue
                sounded.under_way.clear()
            self._token += 1
            sounded.sent = sounded.under_way[self._token] = now
            effects.append(Send(key[0], QuickProbe(self._token), link_class=key[1]))
        return effects

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`handle_timers` has something to do; None: no link is sounded."""
        return self._timers.next_deadline()

    def floor_ns(self, key: LinkKey) -> Nanos:
        """Return the smallest of the latest soundings of a link; 0: too few are known."""
        sounded = self._links.get(key)
        if sounded is None or len(sounded.latest) < FEWEST:
            return 0
        return min(sounded.latest)
