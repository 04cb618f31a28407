"""What a link costs an event of its class, and when a changed cost counts.

The cost is the time, in nanoseconds, that the link is expected to take, made larger where the link
is hardly to be relied on, so costs along a path add up. From one weight set:

* *delay*: half a round trip, or the time what is queued takes to drain if that is more (a probe
  may have overtaken the queue, or stands in it; then both measure the same). For express events,
  who are promised a bound and not a mean, four mean deviations are added to the round trip, as a
  retransmission timer has it (RFC 6298).
* *load*: times 1 / (1 - load), the wait at a queue with random arrivals (M/M/1), at most 4.
* *resets*: times 1 + resets / 2; for secure events 1 + resets, as a secure link that breaks may
  leave them no path at all.
* *hop*: 50 us for the broker at the end (a guess; most of it is in the round trip).

A broker that acts on each new measurement flaps. :class:`Steady` lets a rise through at once, and a
fall only after it has lasted.
"""

from __future__ import annotations

from dataclasses import dataclass

from overlay.ids import LinkClass, Nanos, nanos
from overlay.multigraph.weights import LinkKey, Weights

HOP_NS = nanos(0.00005)
MAX_LOAD = 0.75  #: load beyond this is no worse: the queue tells
EXPRESS_DEVIATIONS = 4
MAX_COST_NS = nanos(3600)

RISE = 1.25  #: a cost that has grown by so much counts at once
FALL = 0.75  #: one that has shrunk by so much ...
CALM_NS = nanos(3)  #: ... counts when it has stayed so for this long
LEAST_NS = nanos(0.0005)  #: smaller changes are noise, whatever their ratio


def cost_ns(link_class: LinkClass, weights: Weights) -> Nanos:
    """Return the cost of a link of that class; from 1 on, and at most an hour."""
    round_trip = weights.rtt_ns
    if link_class.is_timed:
        round_trip += EXPRESS_DEVIATIONS * weights.jitter_ns
    delay = max(round_trip / 2, weights.queued_ns)
    crowding = 1 / (1 - min(weights.load, MAX_LOAD))
    fragility = 1 + weights.resets * (1 if link_class.is_secret else 0.5)
    return max(1, min(round(delay * crowding * fragility) + HOP_NS, MAX_COST_NS))


@dataclass(slots=True)
class _Held:
    weights: Weights  #: as they count
    cost_ns: Nanos
    lower_since: Nanos | None = None  #: since when the measured cost has been much lower


class Steady:
    """The weights that count, by link: measurements without their noise.

    A broker chooses its paths by these and tells them to others, so all reckon with the same.
    """

    def __init__(self) -> None:
        self._held: dict[LinkKey, _Held] = {}

    def offer(self, key: LinkKey, weights: Weights, now: Nanos) -> bool:
        """Take a measurement; True if it counts from now on."""
        cost = cost_ns(key[1], weights)
        held = self._held.get(key)
        if held is None:
            self._held[key] = _Held(weights, cost)
            return True
        if cost >= max(RISE * held.cost_ns, held.cost_ns + LEAST_NS):
            self._held[key] = _Held(weights, cost)
            return True
        if cost > min(FALL * held.cost_ns, held.cost_ns - LEAST_NS):
            held.lower_since = None
        elif held.lower_since is None:
            held.lower_since = now
        elif now - held.lower_since >= CALM_NS:
            self._held[key] = _Held(weights, cost)
            return True
        return False

    def get(self, key: LinkKey) -> Weights | None:
        """Return the weights that count; None before the first measurement."""
        held = self._held.get(key)
        return held.weights if held is not None else None

    def drop(self, key: LinkKey) -> bool:
        """Forget a link that is gone; False if nothing was known of it."""
        return self._held.pop(key, None) is not None
