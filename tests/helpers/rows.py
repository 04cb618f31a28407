"""Rows of the trace with something in every field; those for the analysis build on them."""

from __future__ import annotations

import msgspec

from overlay.trace_schema import Incident, Run, Source, Verdict

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
