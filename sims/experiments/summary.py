"""What one run showed, in a few numbers: its crashes, how fast they healed, at what cost."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

import msgspec

from overlay.ids import NANOS_PER_SECOND
from overlay.trace_schema import Incident
from sims.experiments.experiment import RunResult


class Spread(msgspec.Struct, frozen=True):
    """The median and the largest of some measurements."""

    p50: float
    max: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Times are seconds since the crash; None where nothing was measured."""

    crashes: int
    repaired: int  #: crashes around which the ring became whole again
    false_suspicions: int  #: incidents whose subject was alive all the time
    detection_s: Spread | None  #: until the first neighbour suspects
    confirmation_s: Spread | None  #: until the first neighbour holds it for certain
    repair_s: Spread | None  #: until the pointers around it are the right ones
    chord_repair_s: Spread | None  #: until nobody holds a chord to it
    messages: Spread | None  #: sent on account of one crash
    events: int  #: things that happened in the world
    duration_s: float  #: virtual time


def summarise(result: RunResult) -> Summary:
    """Reduce the incidents of ``result``."""
    crashes = [incident for incident in result.incidents if incident.failed_ns is not None]
    return Summary(
        crashes=len(crashes),
        repaired=sum(incident.repaired_ns is not None for incident in crashes),
        false_suspicions=len(result.incidents) - len(crashes),
        detection_s=_since_crash(crashes, "suspected_ns"),
        confirmation_s=_since_crash(crashes, "confirmed_ns"),
        repair_s=_since_crash(crashes, "repaired_ns"),
        chord_repair_s=_since_crash(crashes, "chords_repaired_ns"),
        messages=_spread(incident.messages for incident in crashes),
        events=result.events,
        duration_s=(result.run.duration_ns or 0) / NANOS_PER_SECOND,
    )


def _since_crash(crashes: Iterable[Incident], reached: str) -> Spread | None:
    return _spread(
        (getattr(crash, reached) - crash.failed_ns) / NANOS_PER_SECOND
        for crash in crashes
        if crash.failed_ns is not None and getattr(crash, reached) is not None
    )


def _spread(values: Iterable[float]) -> Spread | None:
    found = list(values)
    return Spread(median(found), max(found)) if found else None
