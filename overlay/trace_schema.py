"""The trace: what a run tells the analyst, one schema for live brokers and for the simulator.

A *data set* is a folder with two sub-folders, ``runs`` (one row a run) and ``incidents`` (one row
a failure). The simulator writes Parquet, a live broker appends JSON lines; the columns are these
structs, field by field, and ``docs/traces.md`` explains each. All times are integer nanoseconds
since the start of the run; a time that was never reached, or that an observer cannot know (a live
broker does not see the moment another one dies), is ``None``.

The trace is not the log: the log is for people, the trace is for the analysis and is versioned.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

SCHEMA_VERSION = 1


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
