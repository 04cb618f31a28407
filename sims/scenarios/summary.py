"""What one run showed, in a few numbers: its crashes, how fast they healed, at what cost."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from overlay.ids import NANOS_PER_SECOND
from overlay.trace_schema import Lasted, lasted, quantile_of
from sims.scenarios.results import RunResult


class Spread(msgspec.Struct, frozen=True):
    """The median and the largest of all crashes; None: so many were never seen to get so far."""

    p50: float | None
    max: float | None


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
        detection_s=_since_crash(result, "suspected_ns"),
        confirmation_s=_since_crash(result, "confirmed_ns"),
        repair_s=_since_crash(result, "repaired_ns"),
        chord_repair_s=_since_crash(result, "chords_repaired_ns"),
        messages=_spread(
            Lasted(crash.messages, is_over=crash.repaired_ns is not None) for crash in crashes
        ),
        events=result.events,
        duration_s=(result.run.duration_ns or 0) / NANOS_PER_SECOND,
    )


def _since_crash(result: RunResult, reached: str) -> Spread | None:
    found = (
        lasted(incident, "failed_ns", reached, result.run.duration_ns)
        for incident in result.incidents
    )
    return _spread(took for took in found if took is not None)


def _spread(found: Iterable[Lasted]) -> Spread | None:
    known = list(found)
    if not known:
        return None
    p50, most = quantile_of(known, 0.5), quantile_of(known, 1.0)
    return Spread(*(value if math.isfinite(value) else None for value in (p50, most)))
