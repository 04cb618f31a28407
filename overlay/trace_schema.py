"""The trace: what a run tells the analyst, one schema for live brokers and for the simulator.

A *data set* is a folder with sub-folders: ``runs`` (one row a run), ``incidents`` (one row a
failure), of simulated scenarios also ``probes`` (one row an event and subscriber) and ``traffic``
(one row a broker and some seconds), and of drills ``deeds`` (one row a thing that was done). The
simulator writes Parquet, live brokers and drills append JSON lines; the columns are these structs,
field by field, and ``docs/traces.md`` explains each. All times are integer nanoseconds since the
start of the run; a time that was never reached, or that an observer cannot know (a live broker does
not see the moment another one dies), is ``None``.

The trace is not the log: the log is for people, the trace is for the analysis and is versioned.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from overlay.ids import NANOS_PER_SECOND, LinkClass
from overlay.quantiles import quantile, quantile_with_open

SCHEMA_VERSION = 2  #: of runs and incidents; 1 knew of no units and no records
PROBE_VERSION = 1
TRAFFIC_VERSION = 1
DEED_VERSION = 1


class Source(StrEnum):
    """Where a run took place."""

    SIMULATOR = "simulator"
    LIVE = "live"


class Verdict(StrEnum):
    """What an incident turned out to be (paper 004, sections 3.4.1 and 3.4.2)."""

    BROKER_FAILED = "broker_failed"  #: confirmed by a witness, or by the silence of all of them
    LINK_FAILED = "link_failed"  #: a witness still reaches the suspected broker
    REFUTED = "refuted"  #: the suspected broker answered for itself in time
    OPEN = "open"  #: undecided when the run ended


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run: a simulated experiment, or the life of one live broker process."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    source: Source
    scenario: str  #: "crash", ...; "live" for a broker process
    nodes: int | None  #: brokers the ring was formed of; None where nobody counted them
    seed: int | None
    profile: str  #: timing profile: local, lan, wan
    version: str  #: of the chordal that wrote the row
    started_unix_ns: int | None  #: wall clock, live runs only: a simulated run has none
    duration_ns: int | None
    parameters: str  #: the scenario's other parameters, a JSON object with sorted keys


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """One failure, from the first suspicion to the last repaired pointer.

    In a simulated run a row joins what all observers saw (earliest suspicion, latest repair); a
    live broker writes its own observation and puts its uid into ``observer``.
    """

    schema_version: int = SCHEMA_VERSION
    run_id: str
    incident_id: str  #: subject uid and incarnation: "<uid>/<incarnation>"
    verdict: Verdict
    subject: str  #: uid of the broker that failed, or was suspected
    subject_ring_id: int
    observer: str | None  #: uid of the broker that wrote the row; None: joined over all observers
    n: int | None  #: live brokers just before the failure
    degree: int | None  #: links of the subject just before the failure
    failed_ns: int | None
    suspected_ns: int | None
    confirmed_ns: int | None
    repaired_ns: int | None  #: the ring around the subject is whole: all four pointers, both sides
    chords_repaired_ns: int | None  #: the last holder of a chord to the subject has replaced it
    messages: int  #: messages sent on account of this incident: tests, notices, new links
    witnesses: tuple[str, ...]  #: uids of those who answered a test, in order of their answers
    #: Of the highest unit that the death concerns: 1 the cluster of the subject; more where it was
    #: the steward of a unit: 2 a super-cluster, 3 a super-super-cluster, 4 all. None: no units.
    level: int | None = None
    units_repaired_ns: int | None = None  #: those units have no place for it any more
    records_lost: int | None = None  #: it was the last that had their bytes; None: nobody looked


class Phase(NamedTuple):
    """A part of a repair, between two columns of an incident."""

    start: str
    end: str
    meaning: str


#: The moments of a repair, as people say them.
MOMENTS = {
    "suspected_ns": "noticed",
    "confirmed_ns": "confirmed",
    "repaired_ns": "ring whole",
    "chords_repaired_ns": "chords whole",
}
#: The phases of a repair, by name: the only table of them.
PHASES = {
    "detection": Phase("failed_ns", "suspected_ns", "from the failure to the first suspicion"),
    "confirmation": Phase(
        "suspected_ns", "confirmed_ns", "from the suspicion to the confirmed failure"
    ),
    "repair": Phase("confirmed_ns", "repaired_ns", "from the confirmation to the whole ring"),
    "total": Phase("failed_ns", "repaired_ns", "recovery time, from the failure to the whole ring"),
    "chords": Phase(
        "failed_ns", "chords_repaired_ns", "from the failure to the last chord replaced"
    ),
}


class Lasted(NamedTuple):
    """How long something was seen, in seconds, and whether it was seen to end."""

    seconds: float
    is_over: bool


def lasted(incident: Incident, start: str, end: str, until_ns: int | None) -> Lasted | None:
    """Return how long an incident's phase took; None: it has not begun.

    A phase that has no end was seen until the ring was whole, or else until the run was over. It is
    infinite where ``until_ns``, the end of the run, is not known.
    """
    began, ended = getattr(incident, start), getattr(incident, end)
    if began is None:
        return None
    if ended is not None:
        return Lasted((ended - began) / NANOS_PER_SECOND, is_over=True)
    whole = None if end == "chords_repaired_ns" else incident.repaired_ns
    seen = until_ns if whole is None else whole
    return Lasted(
        math.inf if seen is None else max(0, seen - began) / NANOS_PER_SECOND, is_over=False
    )


def quantile_of(found: Iterable[Lasted], share: float) -> float:
    """Return a quantile in seconds: infinite where it is not reached, NaN of nothing."""
    known = list(found)
    over = [each.seconds for each in known if each.is_over]
    if len(over) == len(known):
        return quantile(over, share)
    return quantile_with_open(over, (each.seconds for each in known if not each.is_over), share)


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """What a drill did to a live ring; times are by the clock of the drill, as of its incidents."""

    schema_version: int = DEED_VERSION
    run_id: str
    round: int  #: from 1
    step: int  #: from 1 over all rounds; what has the same number was done at one moment
    kind: str  #: kill, pause or cut
    subject: str  #: uid of the broker that it befell, or of the one that made the cut
    other: str | None  #: uid of the other end of a link that was cut
    n: int  #: brokers on the ring just before
    began_ns: int
    ended_ns: int | None  #: None: it does not end, or nobody saw it end
    uncertainty_ns: int  #: by so much ``began_ns`` may be wrong, either way
    clocks_ns: int  #: by so much the times of the brokers may be wrong against it, at most
    rtt_ms: tuple[float, ...]  #: round trips of links, as brokers had measured them just before


class Fate(StrEnum):
    """What became of one event at one subscriber."""

    ONCE = "once"
    TWICE = "twice"  #: or more often
    DISORDERED = "disordered"  #: it came after a later event of its publisher
    LOST = "lost"


class Why(StrEnum):
    """Why an event is lost."""

    REFUSED = "refused"  #: its publisher was told so
    NOT_TAKEN = "not taken"  #: no broker has confirmed it to its publisher
    NO_BROKER = "no broker"  #: the subscriber had none for long, or moved to one that is new
    BROKER_DIED = "broker died"  #: one that may have had it, and had not passed it on
    AWAY = "away"  #: a broker was held for dead, or off the ring
    APART = "apart"  #: the two brokers could not reach each other
    EXPRESS = "express"  #: nothing holds such an event back where a link fails
    UNEXPLAINED = "unexplained"  #: a promise is broken


class Struck(StrEnum):
    """Whom the fault near an event befell."""

    PUBLISHER = "publisher"  #: the broker that the publisher was attached to
    SUBSCRIBER = "subscriber"  #: the broker of the subscriber
    OTHER = "other"  #: other brokers, or the network


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one event at one subscriber, in a simulated run."""

    schema_version: int = PROBE_VERSION
    run_id: str
    publisher: str  #: uid of the client
    link_class: LinkClass  #: that the event asked for
    sequence: int  #: of the event, among those of its publisher and class
    topic: str
    subscriber: str  #: name of the client
    publisher_broker: str  #: uid of the broker that the event was handed to
    subscriber_broker: str | None  #: uid of the subscriber's broker then; None: it had none yet
    published_ns: int  #: handed to that broker
    delivered_ns: int | None  #: when it came first; None: never
    copies: int  #: how often it came
    fate: Fate
    is_late: bool  #: it came, more than LATE_NS after it was published
    why: Why | None  #: of one that is lost
    fault: str | None  #: what was done to the ring nearest in time, within FAULT_NS of it
    fault_ns: int | None  #: when
    struck: Struck | None  #: whom it befell


LATE_NS = 1_000_000_000  #: an event that takes longer is late
FAULT_NS = 10_000_000_000  #: a fault that is further away in time is not near


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """What one broker sent within some seconds of a simulated run."""

    schema_version: int = TRAFFIC_VERSION
    run_id: str
    broker: str  #: its uid
    from_ns: int
    to_ns: int
    links: int  #: to other brokers, at the end
    messages: int  #: of control, to other brokers
    bytes: int  #: of control messages; with whole brokers of all that it sent, to clients as well
    events_forwarded: int | None  #: to other brokers; None where no events are simulated
    events_delivered: int | None  #: to its own clients
