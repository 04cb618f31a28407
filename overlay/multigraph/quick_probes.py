"""How long express events take over each link: quick probes, sent before all that waits.

The probes of :mod:`overlay.multigraph.probes` stand in the queue of their link, as they are to show
what a normal event would meet; an express event passes that queue by. And the kernel's smallest
round trip may be minutes old, or lead to a proxy only. So a link that express events come over is
*probed quickly*: every 0.3 s while they come, then every second, until none has come for half a
minute.

The smallest of the latest round trips counts, and only once there are some: one alone may have
waited for a process that was busy.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from overlay.ids import Nanos, WireCount, nanos
from overlay.machine import Command, Effect, LinkMessage, Send, TimerTable
from overlay.multigraph.weights import LinkKey

QUICK_NS = nanos(0.3)  #: between two probes ...
QUICK_FOR_NS = nanos(1.5)  #: ... for so long after each express event
SLOW_NS = nanos(1)  #: after that
FORGET_NS = nanos(30)  #: after the last express event the link is probed no more
LATEST = 4  #: round trips of which the smallest counts ...
FEWEST = 3  #: ... if there are so many
MOST_UNDER_WAY = 8  #: beyond that a link has to answer first ...
LOST_NS = nanos(10)  #: ... or to have left one unanswered for so long


class QuickProbe(LinkMessage, frozen=True):
    """Answer with the same token over the same link, before all that waits."""

    token: WireCount
    is_quick = True


class QuickEcho(LinkMessage, frozen=True):
    """The answer to a quick probe."""

    token: WireCount
    is_quick = True


@dataclass(frozen=True, slots=True)
class ExpressCame(Command):
    """An express event has come over this link."""

    key: LinkKey


@dataclass(slots=True)
class _Probed:
    came: Nanos  #: when the last express event did, as far as we were told
    sent: Nanos | None = None  #: when the last probe was
    under_way: dict[int, Nanos] = field(default_factory=dict)  #: when each was sent, by token
    latest: deque[Nanos] = field(default_factory=lambda: deque(maxlen=LATEST))


class QuickProbes:
    """The links that express events come over, and how long they take now. Pure."""

    def __init__(self) -> None:
        self._links: dict[LinkKey, _Probed] = {}
        self._timers: TimerTable[LinkKey] = TimerTable()
        self._token = 0

    def wants(self, key: LinkKey, now: Nanos) -> bool:
        """Say whether :meth:`on_event` makes a difference: it need not be told of each event."""
        probed = self._links.get(key)
        return probed is None or now - probed.came >= QUICK_NS

    def on_event(self, key: LinkKey, now: Nanos) -> None:
        """An express event has come over a link that is up."""
        probed = self._links.get(key)
        if probed is None:
            probed = self._links[key] = _Probed(now)
        probed.came = now
        self._timers.set(key, now if probed.sent is None else max(now, probed.sent + QUICK_NS))

    def on_message(self, key: LinkKey, message: QuickProbe | QuickEcho, now: Nanos) -> list[Effect]:
        """Answer a probe, or take the echo of one."""
        if isinstance(message, QuickProbe):
            return [Send(key[0], QuickEcho(message.token), link_class=key[1])]
        probed = self._links.get(key)
        sent = probed.under_way.pop(message.token, None) if probed is not None else None
        if probed is not None and sent is not None:
            probed.latest.append(now - sent)
        return []

    def forget(self, key: LinkKey) -> None:
        """The link is gone, or another than it was."""
        self._links.pop(key, None)
        self._timers.cancel(key)

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Send the probes that are due."""
        effects: list[Effect] = []
        while (key := self._timers.pop_expired(now)) is not None:
            probed = self._links[key]
            quiet = now - probed.came
            if quiet >= FORGET_NS:
                del self._links[key]
                continue
            self._timers.set(key, now + (QUICK_NS if quiet < QUICK_FOR_NS else SLOW_NS))
            if len(probed.under_way) >= MOST_UNDER_WAY:
                if now - min(probed.under_way.values()) < LOST_NS:
                    continue
                probed.under_way.clear()
            self._token += 1
            probed.sent = probed.under_way[self._token] = now
            effects.append(Send(key[0], QuickProbe(self._token), link_class=key[1]))
        return effects

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`handle_timers` has something to do; None: no link is probed."""
        return self._timers.next_deadline()

    def floor_ns(self, key: LinkKey) -> Nanos:
        """Return the smallest of the latest round trips on a link; 0: too few are known."""
        probed = self._links.get(key)
        if probed is None or len(probed.latest) < FEWEST:
            return 0
        return min(probed.latest)
