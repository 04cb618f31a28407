"""Quantiles of times of which some are not over: one definition for all tables. Pure.

Four failures were repaired after 1, 2, 3 and 4 s, so the median is 2.5 s: between two neighbours it
is interpolated linearly, as numpy and R do by default. The quantile of p has the rank
``(count - 1) p``, counted from 0.

A fifth failure was not seen repaired, so it is longer than all the others: the median is 3 s, and
p99 is not reached. A failure that a run saw for 2.5 s alone, and not repaired, has lasted at least
so long: its share goes in equal parts to those that lasted longer (Kaplan and Meier, 1958; Efron,
1967). Of an incident that ends at the moment another is seen last, that other was still at risk.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

_DIGITS = 9  #: of a rank: 0.95 times 20 must not be 19.000000000000004


def quantile(values: Iterable[float], share: float) -> float:
    """Return a quantile, interpolated linearly; NaN of no values.

    An infinite value is something that was never over. The quantile is infinite where it is not
    reached.
    """
    ordered = sorted(values)
    if not ordered:
        return math.nan
    at = round(share * (len(ordered) - 1), _DIGITS)
    low = int(at)
    return _between(ordered[low], ordered[min(low + 1, len(ordered) - 1)], at - low)


def quantile_with_open(over: Iterable[float], still: Iterable[float], share: float) -> float:
    """Return a quantile of times of which some are not over: infinite where it is not reached.

    Args:
        over: Times that were seen to end.
        still: How long others were seen that had not ended by then; infinite: never.
        share: Of all of them, from 0 to 1.
    """
    ended, lost = Counter(over), Counter(still)
    at_risk = ended.total() + lost.total()
    if not at_risk:
        return math.nan
    at = round(share * (at_risk - 1), _DIGITS)
    left, before = float(at_risk), 0.0  # what all at risk stand for, and the ranks that are over
    shortest = math.inf
    for time in sorted(ended.keys() | lost.keys()):
        if count := ended[time]:
            weight = left * count / at_risk
            first, last = round(before, _DIGITS), round(before + weight - 1, _DIGITS)
            if at <= last:
                return time if at >= first else _between(shortest, time, at - first + 1)
            shortest, before, left = time, before + weight, left - weight
        at_risk -= count + lost[time]
    return math.inf


def _between(low: float, high: float, part: float) -> float:
    if part == 0 or low == high:
        return low
    return low + (high - low) * part
