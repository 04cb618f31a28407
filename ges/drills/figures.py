"""What a drill showed, in numbers: how long each phase took after each kind of strike. Pure.

The simulator's twin of a drill is measured by the same functions (:mod:`sims.twin`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ges.drills.plan import Means
from overlay.ids import NANOS_PER_SECOND
from overlay.trace_schema import Deed, Incident

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

#: Phases of each kind: name -> (start, end), columns of an incident; "began": of the strike itself.
PHASES: Mapping[Means, Mapping[str, tuple[str, str]]] = {
    Means.KILL: {
        "detection": ("began", "suspected_ns"),
        "confirmation": ("suspected_ns", "confirmed_ns"),
        "repair": ("confirmed_ns", "repaired_ns"),
        "total": ("began", "repaired_ns"),
        "chords": ("began", "chords_repaired_ns"),
    },
    # A broker that stands still, or a link, may be noticed and found to be none or a link: these
    # incidents have no moment in which the ring around them is whole.
    Means.PAUSE: {
        "detection": ("began", "suspected_ns"),
        "confirmation": ("suspected_ns", "confirmed_ns"),
    },
    Means.CUT: {"detection": ("began", "suspected_ns")},
}

#: (kind, phase) -> seconds, one for each strike that got so far.
Measured = Mapping[tuple[str, str], Sequence[float]]


def measured(deeds: Iterable[Deed], incidents: Iterable[Incident]) -> Measured:
    """Return how long each phase took, of the incidents that the deeds led to."""
    by_subject: dict[tuple[str, str], list[Incident]] = defaultdict(list)
    for row in incidents:
        by_subject[row.run_id, row.subject].append(row)
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for deed in deeds:
        ends = [deed.subject, *filter(None, [deed.other])]
        rows = [row for uid in ends for row in by_subject[deed.run_id, uid]]
        incident = _of(deed, rows)
        for phase, (start, end) in PHASES[Means(deed.kind)].items():
            if incident is None:
                continue
            since = deed.began_ns if start == "began" else getattr(incident, start)
            until = getattr(incident, end)
            if since is not None and until is not None:
                found[deed.kind, phase].append((until - since) / NANOS_PER_SECOND)
    return found


def _of(deed: Deed, rows: Sequence[Incident]) -> Incident | None:
    """Return the incident that a deed has led to, of those of its subjects."""
    if deed.kind == Means.KILL:
        return next((row for row in rows if row.failed_ns == deed.began_ns), None)
    # Its clocks may differ by so much that it seems noticed before it happened.
    since = deed.began_ns - deed.uncertainty_ns - deed.clocks_ns
    after = [(at, row) for row in rows if (at := row.suspected_ns) is not None and at >= since]
    return min(after, key=lambda each: each[0])[1] if after else None


def quantile(values: Sequence[float], q: float) -> float:
    """Return a quantile, interpolated linearly between two values; of at least one."""
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
