"""The express range: which express links keep their promise now.

An express link promises that its latency stays inside a range. Its latency is half its smoothed
round trip and one mean deviation more. A link whose latency leaves the range for some time is
*demoted*: it stays connected and measured, but takes no express events; it is *promoted* again when
its latency has been well inside the range for longer. Range and time both have a gap between the
two, so a latency that wanders about the limit changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from overlay.errors import ConfigError
from overlay.ids import Nanos, nanos
from overlay.multigraph.weights import Weights

DEFAULT_RANGE_NS = nanos(0.005)
WELL_INSIDE = 0.8  #: promoted below this part of the range
DEMOTE_NS = nanos(1)  #: outside for this long: demoted
PROMOTE_NS = nanos(3)  #: well inside for this long: promoted again
MAX_RANGE_NS = nanos(10)


def latency_ns(weights: Weights) -> Nanos:
    """Return the one-way latency a link is judged by."""
    return weights.rtt_ns // 2 + weights.jitter_ns


def check_range(range_ns: Nanos) -> Nanos:
    """Return ``range_ns`` if it can be an express range; 0 means: no express links.

    Raises:
        ConfigError: it is negative, or longer than 10 s.
    """
    if not 0 <= range_ns <= MAX_RANGE_NS:
        raise ConfigError(
            f"an express range of {range_ns / 1e6:g} ms: give 0 (no express links) to 10 s"
        )
    return range_ns


@dataclass(slots=True)
class _Standing:
    is_inside: bool
    contrary_since: Nanos | None = None  #: since when its latency has said otherwise


class ExpressRange:
    """The standing of each link, by the uid at its other end."""

    def __init__(self, range_ns: Nanos = DEFAULT_RANGE_NS) -> None:
        """Take the range, one way, in nanoseconds.

        Raises:
            ConfigError: as :func:`check_range`.
        """
        self.range_ns = check_range(range_ns)
        self.demotions = 0
        self.promotions = 0  #: of links that had been demoted
        self._links: dict[str, _Standing] = {}

    def judge(
        self, uid: str, weights: Weights, now: Nanos, *, agreed: Weights | None = None
    ) -> bool:
        """Take a measurement; return whether the link is inside the range now.

        The first one decides at once, by the range itself. ``agreed``: what the latest measurements
        agree on, where that is known; a link is demoted only if that is outside as well.
        """
        latency = latency_ns(weights)
        standing = self._links.get(uid)
        if standing is None:
            standing = self._links[uid] = _Standing(latency <= self.range_ns)
            return standing.is_inside
        is_sure = not standing.is_inside or agreed is None or latency_ns(agreed) > self.range_ns
        if standing.is_inside:
            is_contrary, patience = latency > self.range_ns, DEMOTE_NS
        else:
            is_contrary, patience = latency <= WELL_INSIDE * self.range_ns, PROMOTE_NS
        if not is_contrary:
            standing.contrary_since = None
        elif standing.contrary_since is None:
            standing.contrary_since = now
        elif now - standing.contrary_since >= patience and is_sure:
            standing.is_inside = not standing.is_inside
            standing.contrary_since = None
            if standing.is_inside:
                self.promotions += 1
            else:
                self.demotions += 1
        return standing.is_inside

    def is_inside(self, uid: str) -> bool:
        """Say whether the link was inside the range when it was last judged."""
        standing = self._links.get(uid)
        return standing is not None and standing.is_inside

    def forget(self, uid: str) -> None:
        """The link is gone."""
        self._links.pop(uid, None)
