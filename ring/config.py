"""Timing and sizes of the ring protocol. Seconds for people, nanoseconds for the machine."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum

from overlay.errors import ConfigError
from overlay.ids import Nanos, nanos
from ring.wire.messages import MAX_HOPS, MAX_WITNESSES

DEFAULT_BACKUPS = 2


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

    Raises:
        ConfigError: a setting makes no sense.
    """

    gap_rule: GapRule = GapRule.WIDEST
    chords: ChordStrategy = ChordStrategy.RANK

    heartbeat_ns: Nanos = nanos(0.5)  #: a monitor hears from us at least this often
    monitors: int = 1  #: ring neighbours that do: 1 (left), 2 (left and right) or 4
    lateness_ns: Nanos = nanos(0.15)  #: a heartbeat may be this late on the calmest of links ...
    lateness_max_ns: Nanos = nanos(0.5)  #: ... and this late on the most irregular one
    probes: int = 3  #: pings before an overdue neighbour is suspected, or found dead by a witness
    answer_ns: Nanos = nanos(0.2)  #: the shortest wait for an answer to a ping ...
    answer_max_ns: Nanos = nanos(0.4)  #: ... and the longest
    witnesses: int = 4  #: brokers asked at most before silence is the verdict
    agreeing: int = 2  #: of them must find the suspected broker dead, where so many are known
    alone_ns: Nanos = nanos(3.0)  #: the only other broker of a ring is waited for that long

    linger_ns: Nanos = nanos(2.0)  #: a link that neither end wants is kept this long
    retry_ns: Nanos = nanos(0.3)  #: first pause before a failed link is tried again ...
    retry_max_ns: Nanos = nanos(10.0)  #: ... doubling, with jitter, up to this

    measure_ns: Nanos = nanos(1.0)  #: a newcomer's round-trip measurements end after this
    measure_candidates: int = 8  #: brokers whose round-trip time a newcomer measures
    closest: int = 3  #: the contact is drawn among that many nearest (paper 004, section 3.3)
    join_ns: Nanos = nanos(2.0)  #: a step of a join that takes longer is started again
    #: mean time between two looks of a broker that may found a ring: is another on one, or there?
    found_ns: Nanos = nanos(0.6)
    join_hops: int = 32  #: a join request is passed on at most that often

    chord_refresh_ns: Nanos = nanos(10.0)  #: mean time between refreshes of all chords
    #: first pause between knocks at lost peers of one that is alone; doubles up to 2^5 times that,
    #: which is the pause of all others
    knock_ns: Nanos = nanos(1.0)
    route_ns: Nanos = nanos(2.0)  #: a search without an answer is started again after this
    remembered: int = 64  #: lost peers remembered, and declared deaths remembered

    backups: int = DEFAULT_BACKUPS  #: neighbours that keep copies of our records, 1 to 4
    backup_ns: Nanos = nanos(0.02)  #: changes wait that long for more, to be copied together
    backup_rate: int = 4 * 1024 * 1024  #: bytes per second to one neighbour, for copies
    reconcile_ns: Nanos = nanos(10.0)  #: mean time between comparisons of copies by digest
    leave_ns: Nanos = nanos(2.0)  #: a broker that leaves takes at most that long to hand over
    overload: int = 800  #: thousandths of full load from which duties are passed on

    def __post_init__(self) -> None:
        if not 1 <= self.backups <= 4:
            raise ConfigError(f"{self.backups} backups: there must be 1 to 4")
        if self.monitors not in (1, 2, 4):
            raise ConfigError(f"{self.monitors} monitors: there must be 1, 2 or 4")
        for kind, value in ((GapRule, self.gap_rule), (ChordStrategy, self.chords)):
            if not isinstance(value, kind):
                raise ConfigError(f"{value!r} is no {kind.__name__}; there are {', '.join(kind)}")
        for name, least in _AT_LEAST.items():
            if getattr(self, name) < least:
                raise ConfigError(f"{name} is {getattr(self, name)}, must be {least} or more")
        for name, most in _AT_MOST.items():
            if getattr(self, name) > most:
                raise ConfigError(f"{name} is {getattr(self, name)}, must be {most} or less")
        for name, longest in (
            ("lateness_ns", self.lateness_max_ns),
            ("answer_ns", self.answer_max_ns),
            ("retry_ns", self.retry_max_ns),
        ):
            if getattr(self, name) > longest:
                raise ConfigError(f"{name} is {getattr(self, name)}, above its longest: {longest}")

    @property
    def silence_ns(self) -> Nanos:
        """A monitored neighbour silent for this long is suspected, where times are regular."""
        return self.heartbeat_ns + self.lateness_ns + self.test_min_ns

    @property
    def silence_max_ns(self) -> Nanos:
        """The longest silence before an observer in good health suspects a monitored neighbour."""
        return self.heartbeat_ns + self.lateness_max_ns + self.test_ns

    @property
    def test_min_ns(self) -> Nanos:
        """How long a broker is probed where round trips are known to be short."""
        return self.answer_ns * (self.probes + 1) // 2

    @property
    def test_ns(self) -> Nanos:
        """How long a broker is probed where nothing is known of round trips."""
        return self.answer_max_ns * (self.probes + 1) // 2


#: The least of each setting: a time of zero would make timers that run out for ever.
_AT_LEAST = {
    **{field.name: 1 for field in fields(RingConfig) if field.name.endswith("_ns")},
    **dict.fromkeys(("probes", "agreeing", "measure_candidates", "closest", "remembered"), 1),
    **dict.fromkeys(("backup_rate", "overload"), 1),
    "leave_ns": 8,  # turns are drawn from an eighth of it
    **dict.fromkeys(("witnesses", "join_hops"), 0),
}

#: The most of each: beyond it there would be messages that no other broker accepts.
_AT_MOST = {"witnesses": MAX_WITNESSES, "join_hops": MAX_HOPS}

LOCAL = RingConfig(
    heartbeat_ns=nanos(0.4),
    lateness_ns=nanos(0.1),
    lateness_max_ns=nanos(0.4),
    answer_ns=nanos(0.2),
    answer_max_ns=nanos(0.3),
    measure_ns=nanos(0.5),
    found_ns=nanos(0.4),
)
LAN = RingConfig()
WAN = RingConfig(
    heartbeat_ns=nanos(3.0),
    lateness_ns=nanos(0.1),
    lateness_max_ns=nanos(1.0),
    answer_ns=nanos(0.35),
    answer_max_ns=nanos(0.85),
    alone_ns=nanos(10.0),
    linger_ns=nanos(10.0),
    retry_ns=nanos(1.0),
    retry_max_ns=nanos(60.0),
    measure_ns=nanos(4.0),
    join_ns=nanos(8.0),
    found_ns=nanos(2.0),
    chord_refresh_ns=nanos(900.0),
    knock_ns=nanos(5.0),
    route_ns=nanos(8.0),
    reconcile_ns=nanos(60.0),
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
