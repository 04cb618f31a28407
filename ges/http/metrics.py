"""The metrics of a broker over HTTP: its status, and what it has seen of failures.

A reader that takes OpenMetrics gets that form.
"""

from __future__ import annotations

from collections.abc import Iterator

from ges.http.answers import Reply
from ges.http.chronicle import Chronicle
from ges.operations.metrics import Family, Sample, counter, families_of, gauge, histogram, text_of
from ges.wire.status import Status
from overlay.trace_schema import Verdict

OPENMETRICS = "application/openmetrics-text"
VERSIONS = {True: f"{OPENMETRICS}; version=1.0.0", False: "text/plain; version=0.0.4"}


def exposition(status: Status, chronicle: Chronicle, accept: str, *, is_whole: bool) -> Reply:
    """Return the metrics of one broker in the form that ``accept`` asks for."""
    is_open = OPENMETRICS in accept
    about = "1: both neighbours agree where it stands."
    whole = gauge("ring_whole", about, is_whole)
    families = (*families_of(status), whole, *_failures(chronicle))
    body = text_of(status.uid, families, is_open=is_open).encode()
    return Reply(200, body, f"{VERSIONS[is_open]}; charset=utf-8")


def _failures(chronicle: Chronicle) -> Iterator[Family]:
    about = "Suspicions raised here, of brokers next on the ring."
    yield counter("suspicions", about, Sample(chronicle.suspicions))
    yield counter(
        "verdicts",
        "What suspicions turned out to be.",
        *(
            Sample(chronicle.verdicts[verdict], (("verdict", verdict.value),))
            for verdict in Verdict
            if verdict is not Verdict.OPEN
        ),
    )
    for name, about, found in (
        (
            "detection_seconds",
            "Deaths of neighbours: from the first suspicion to the verdict.",
            chronicle.detections,
        ),
        (
            "repair_seconds",
            "Deaths of neighbours: from the first suspicion until the ring was whole here.",
            chronicle.repairs,
        ),
    ):
        yield histogram(name, about, found.buckets(), found.total_s)
