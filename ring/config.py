"""Timing and sizes of the ring protocol. Seconds for people, nanoseconds for the machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from overlay.errors import ConfigError
from overlay.ids import Nanos, nanos


class GapRule(StrEnum):
    """Which gap a contact offers to a newcomer."""

    #: the widest of the (up to eight) gaps known around the contact; elsewhere if that is narrow
    WIDEST = "widest"
    PUBLISHED = "published"  #: the wider of the contact's own two gaps (paper 004, section 3.3)


class ChordStrategy(StrEnum):
    """Which brokers beyond right-right are linked as chords."""

    RANK = "rank"  #: 4, 8, 16, ... brokers to the right, by pointer doubling
    HARMONIC = "harmonic"  #: drawn with a density of 1/distance
    UNIFORM = "uniform"  #: drawn uniformly at random (paper 004, section 3.2)
    NONE = "none"  #: the ring alone


@dataclass(frozen=True, slots=True, kw_only=True)
class RingConfig:
    """One broker's settings. The defaults are the ``lan`` profile.

    Every default is a choice of this project, except where the paper is named: it fixes the
    shape of the ring, but no times.
    """

    gap_rule: GapRule = GapRule.WIDEST
    chords: ChordStrategy = ChordStrategy.RANK

    heartbeat_ns: Nanos = nanos(0.4)  #: a ring neighbour hears from us at least this often
    misses: int = 3  #: heartbeats that may fail to come before a neighbour is suspected
    test_ns: Nanos = nanos(0.25)  #: a witness gives the suspected broker this long to answer
    witnesses: int = 4  #: brokers asked, one after the other, before silence is the verdict

    linger_ns: Nanos = nanos(2.0)  #: a link that neither end wants is kept this long
    retry_ns: Nanos = nanos(0.3)  #: first pause before a failed link is tried again ...
    retry_max_ns: Nanos = nanos(10.0)  #: ... doubling, with jitter, up to this

    measure_ns: Nanos = nanos(1.0)  #: a newcomer's round-trip measurements end after this
    measure_candidates: int = 8  #: brokers whose round-trip time a newcomer measures
    closest: int = 3  #: the contact is drawn among that many nearest (paper 004, section 3.3)
    join_ns: Nanos = nanos(2.0)  #: a step of a join that takes longer is started again
    join_hops: int = 32  #: a join request is passed on at most that often

    chord_refresh_ns: Nanos = nanos(10.0)  #: mean time between refreshes of all chords
    knock_ns: Nanos = nanos(1.0)  #: first pause between knocks at lost peers; doubles
    route_ns: Nanos = nanos(2.0)  #: a search without an answer is started again after this
    remembered: int = 64  #: lost peers remembered, and declared deaths remembered

    @property
    def silence_ns(self) -> Nanos:
        """A neighbour silent for this long is suspected."""
        return self.heartbeat_ns * self.misses


LOCAL = RingConfig(heartbeat_ns=nanos(0.2), test_ns=nanos(0.15), measure_ns=nanos(0.5))
LAN = RingConfig()
WAN = RingConfig(
    heartbeat_ns=nanos(2.0),
    test_ns=nanos(1.5),
    linger_ns=nanos(10.0),
    retry_ns=nanos(1.0),
    retry_max_ns=nanos(60.0),
    measure_ns=nanos(4.0),
    join_ns=nanos(8.0),
    chord_refresh_ns=nanos(60.0),
    knock_ns=nanos(5.0),
    route_ns=nanos(8.0),
)

PROFILES = {"local": LOCAL, "lan": LAN, "wan": WAN}


def profile(name: str) -> RingConfig:
    """Return a timing profile by name.

    Raises:
        ConfigError: there is none of that name.
    """
    try:
        return PROFILES[name]
    except KeyError:
        raise ConfigError(f"no profile {name!r}; there are {', '.join(PROFILES)}") from None
