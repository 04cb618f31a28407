"""What a drill showed, in numbers: how long each phase took after each kind of strike. Pure.

The simulator's twin of a drill is measured by the same functions (:mod:`sims.twin`).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

from ges.drills.plan import Means
from overlay.ids import Nanos
from overlay.trace_schema import PHASES, Deed, Incident, Lasted, Phase, lasted

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

#: Phases that are measured after each kind of strike.
MEASURED: Mapping[Means, Sequence[str]] = {
    Means.KILL: tuple(PHASES),
    # A broker that stands still, or a link, may be noticed and found to be none or a link: these
    # incidents have no moment in which the ring around them is whole.
    Means.PAUSE: ("detection", "confirmation"),
    Means.CUT: ("detection",),
}

#: (kind, phase) -> how long it lasted, for each strike in which it began; the first phase begins
#: with the strike, so a strike that nobody noticed is in it, and not over.
Measured = Mapping[tuple[str, str], Sequence[Lasted]]


def measured(deeds: Iterable[Deed], incidents: Iterable[Incident]) -> Measured:
    """Return how long each phase lasted, of all strikes in which it began."""
    by_subject: dict[tuple[str, str], list[Incident]] = defaultdict(list)
    for row in incidents:
        by_subject[row.run_id, row.subject].append(row)
    known = list(deeds)
    ends_at = _ends(known)
    found: dict[tuple[str, str], list[Lasted]] = defaultdict(list)
    for deed in known:
        subjects = [deed.subject, *filter(None, [deed.other])]
        rows = [row for uid in subjects for row in by_subject[deed.run_id, uid]]
        incident = _of(deed, rows, ends_at.get((deed.run_id, deed.step)))
        for phase in MEASURED[Means(deed.kind)]:
            if (took := _lasted(deed, incident, PHASES[phase])) is not None:
                found[deed.kind, phase].append(took)
    return found


def is_of_strike(phase: str) -> bool:
    """Say whether a phase begins with the strike itself, and not with what a broker saw."""
    return PHASES[phase].start == "failed_ns"


def _lasted(deed: Deed, incident: Incident | None, phase: Phase) -> Lasted | None:
    is_of_strike = phase.start == "failed_ns"
    if incident is None:
        return Lasted(math.inf, is_over=False) if is_of_strike else None
    if is_of_strike:
        incident = msgspec.structs.replace(incident, failed_ns=deed.began_ns)
    return lasted(incident, phase.start, phase.end, until_ns=None)


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
