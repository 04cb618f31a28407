"""What a drill showed, in numbers: how long each phase took after each kind of strike. Pure.

The simulator's twin of a drill is measured by the same functions (:mod:`sims.twin`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from ges.drills.plan import Means
from overlay.ids import NANOS_PER_SECOND, Nanos
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
    known = list(deeds)
    ends_at = _ends(known)
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for deed in known:
        subjects = [deed.subject, *filter(None, [deed.other])]
        rows = [row for uid in subjects for row in by_subject[deed.run_id, uid]]
        incident = _of(deed, rows, ends_at.get((deed.run_id, deed.step)))
        for phase, (start, end) in PHASES[Means(deed.kind)].items():
            if incident is None:
                continue
            since = deed.began_ns if start == "began" else getattr(incident, start)
            until = getattr(incident, end)
            if since is not None and until is not None:
                found[deed.kind, phase].append((until - since) / NANOS_PER_SECOND)
    return found


def struck(deeds: Iterable[Deed]) -> Counter[str]:
    """Return how many strikes there were of each kind."""
    return Counter(deed.kind for deed in deeds)


def _ends(deeds: Sequence[Deed]) -> dict[tuple[str, int], Nanos]:
    """Return when each step was over, as the next one of its run began."""
    began: dict[tuple[str, int], Nanos] = {}
    for deed in deeds:
        key = deed.run_id, deed.step
        began[key] = min(began.get(key, deed.began_ns), deed.began_ns)
    order = sorted(began)
    return {
        here: began[following] for here, following in pairwise(order) if here[0] == following[0]
    }


def _of(deed: Deed, rows: Sequence[Incident], end_ns: Nanos | None) -> Incident | None:
    """Return the incident that a deed has led to, of those of its subjects; None: no one noticed.

    ``end_ns``: what was suspected later is of a later deed.
    """
    if deed.kind == Means.KILL:
        return next((row for row in rows if row.failed_ns == deed.began_ns), None)
    # Its clocks may differ by so much that it seems noticed before it happened.
    off = deed.uncertainty_ns + deed.clocks_ns
    after = [
        (at, row)
        for row in rows
        if (at := row.suspected_ns) is not None
        and at >= deed.began_ns - off
        and (end_ns is None or at < end_ns - off)
    ]
    return min(after, key=lambda each: each[0])[1] if after else None


def quantile(values: Sequence[float], q: float) -> float:
    """Return a quantile, interpolated linearly between two values; of at least one."""
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
