"""Rows of the trace with something in every field; those for the analysis build on them."""

from __future__ import annotations

import msgspec

from overlay.ids import LinkClass
from overlay.trace_schema import Fate, Incident, Probe, Run, Source, Traffic, Verdict

SECOND = 1_000_000_000


def run(**changes: object) -> Run:
    row = Run(
        run_id="r",
        source=Source.SIMULATOR,
        scenario="crash",
        nodes=8,
        seed=1,
        profile="lan",
        version="1",
        started_unix_ns=None,
        duration_ns=60 * SECOND,
        parameters="{}",
    )
    return msgspec.structs.replace(row, **changes)


def incident(**changes: object) -> Incident:
    row = Incident(
        run_id="r",
        incident_id="b/1",
        verdict=Verdict.BROKER_FAILED,
        subject="b",
        subject_ring_id=7,
        observer=None,
        n=8,
        degree=5,
        failed_ns=10 * SECOND,
        suspected_ns=11 * SECOND,
        confirmed_ns=12 * SECOND,
        repaired_ns=13 * SECOND,
        chords_repaired_ns=14 * SECOND,
        messages=40,
        witnesses=("a", "c"),
    )
    return msgspec.structs.replace(row, **changes)


def probe(**changes: object) -> Probe:
    row = Probe(
        run_id="r",
        publisher="p",
        link_class=LinkClass.NORMAL,
        sequence=1,
        topic="t",
        subscriber="s0",
        publisher_broker="a",
        subscriber_broker="b",
        published_ns=10 * SECOND,
        delivered_ns=11 * SECOND,
        copies=1,
        fate=Fate.ONCE,
        is_late=False,
        why=None,
        fault="crash",
        fault_ns=9 * SECOND,
        struck=None,
    )
    return msgspec.structs.replace(row, **changes)


def traffic(**changes: object) -> Traffic:
    row = Traffic(
        run_id="r",
        broker="a",
        from_ns=0,
        to_ns=5 * SECOND,
        links=6,
        messages=20,
        bytes=600,
        events_forwarded=None,
        events_delivered=None,
    )
    return msgspec.structs.replace(row, **changes)
