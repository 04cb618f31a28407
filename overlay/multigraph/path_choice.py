"""Direct link or relay: which way to a broker is used, without flapping.

The cheapest path of the moment is no good choice: two ways of about the same cost would take turns,
and traffic that moves makes the one it leaves cheaper. So a relay has to be really faster
(:mod:`overlay.multigraph.relay_gain`), for some time, and a new link is used for a while first: its
first measurements tell more of two brokers that start than of the link. The direct link is taken
again when less than half of that gain is left, and each return that did not last makes the next one
wait twice as long (as routes are damped, RFC 2439). Only what is gone is left at once, and a link
that was gone is taken again when it is measured.

The direct link's cost is to be what several measurements agree on
(:func:`overlay.multigraph.weights.agreed`): here nothing is known of single ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from overlay.ids import LinkClass, Nanos, nanos
from overlay.multigraph.relay_gain import RelayGain

Path = tuple[str, ...]  #: uids, both ends included

SUSTAIN_NS = nanos(1)  #: how long a relay must have been really faster
SETTLE_NS = nanos(5)  #: ... and how long a new direct link is used first
HOLD_NS = nanos(3)  #: a relay is kept at least that long before the direct link is taken again
MAX_DOUBLINGS = 5  #: the longest hold is 2^5 times that
STEADY_NS = nanos(60)  #: a direct link used for that long starts anew


@dataclass(frozen=True, slots=True)
class Offer:
    """The ways to one broker, as they are now; costs in nanoseconds."""

    has_link: bool  #: there is a direct link that may be used
    direct_ns: Nanos | None  #: its cost; None before it is measured
    path: Path | None  #: the cheapest path, which may be the direct link
    path_ns: Nanos | None
    kept_ns: Nanos | None  #: cost of the relay path in use; None: it leads no further, or none is


@dataclass(slots=True)
class _Way:
    path: Path | None = None  #: the relay in use; None: the direct link
    since: Nanos = 0
    is_forced: bool = False  #: the relay is used because the link was gone
    wish_since: Nanos | None = None  #: since when another way has been better
    returned_at: Nanos | None = None  #: when the direct link was taken again last
    doublings: int = 0


Key = tuple[str, LinkClass]


class PathChoice:
    """The way in use to each broker, for each class."""

    def __init__(self, gain: RelayGain | None = None) -> None:
        """Take what a relay must save at least, compared with the direct link or another relay."""
        self._gain = gain if gain is not None else RelayGain()
        self.changes = 0  #: of ways in use
        self._ways: dict[Key, _Way] = {}

    @property
    def relays(self) -> dict[Key, Path]:
        """The relay paths in use; where there is none, the direct link is used, or nothing."""
        return {key: way.path for key, way in self._ways.items() if way.path is not None}

    def relay(self, key: Key) -> Path | None:
        """Return the relay path in use to one broker."""
        way = self._ways.get(key)
        return way.path if way is not None else None

    def forget(self, key: Key) -> None:
        """Nothing goes to that broker any more."""
        self._ways.pop(key, None)

    @property
    def decided(self) -> tuple[Key, ...]:
        """What has been decided on, relay or direct link."""
        return tuple(self._ways)

    def decide(self, key: Key, offer: Offer, now: Nanos) -> Nanos | None:
        """Choose anew; return when to ask again though no cost changes, or None."""
        way = self._ways.setdefault(key, _Way(since=now))
        if not self._is_usable(way, offer) or (way.is_forced and offer.direct_ns is not None):
            again = self._take(way, self._best(offer), now)
            way.is_forced = way.path is not None and not offer.has_link
            return again
        wish, wait = self._wish(way, offer)
        if wish == way.path:
            way.wish_since = None
            return None
        if way.wish_since is None:
            way.wish_since = now
        due = max(way.wish_since + SUSTAIN_NS, way.since + wait)
        if now < due:
            return due
        return self._take(way, wish, now)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    @staticmethod
    def _is_usable(way: _Way, offer: Offer) -> bool:
        return offer.has_link if way.path is None else offer.kept_ns is not None

    def _best(self, offer: Offer) -> Path | None:
        """Return what is used where the way so far is gone: the relay, or None for the link."""
        if not offer.has_link:
            return _relay(offer)
        return _relay(offer) if self._gain.is_reached(offer.path_ns, offer.direct_ns) else None

    def _wish(self, way: _Way, offer: Offer) -> tuple[Path | None, Nanos]:
        """Return the way that is better now, and how long the present one is to be kept."""
        if way.path is None:
            is_better = self._gain.is_reached(offer.path_ns, offer.direct_ns)
            is_first = way.returned_at is None
            return (_relay(offer) if is_better else None), SETTLE_NS if is_first else 0
        if _relay(offer) is not None and self._gain.is_reached(offer.path_ns, offer.kept_ns):
            return _relay(offer), HOLD_NS
        if offer.has_link and self._gain.is_lost(offer.kept_ns, offer.direct_ns):
            return None, HOLD_NS << way.doublings
        return way.path, 0

    def _take(self, way: _Way, path: Path | None, now: Nanos) -> Nanos | None:
        is_new = path != way.path
        if is_new:
            self.changes += 1
            if path is None:
                way.returned_at = now
            elif way.path is None and way.returned_at is not None:
                is_soon = now - way.returned_at < STEADY_NS
                way.doublings = min(way.doublings + 1, MAX_DOUBLINGS) if is_soon else 0
            way.path, way.since = path, now
        way.wish_since = None
        return now + SUSTAIN_NS if is_new else None


def _relay(offer: Offer) -> Path | None:
    return offer.path if offer.path is not None and len(offer.path) > 2 else None
