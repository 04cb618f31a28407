"""Where quantiles are, among counts in buckets of which some are not over: in numpy. Pure.

The definition is that of ``overlay.quantiles``. What is known here is how many values of each
bucket are over, and how many were seen last in it. Those are taken to be at risk until the bucket
is over, which makes them longer by half a per cent at most.

Each function takes many rows of counts at once, one a replicate; the columns are buckets, in order.
The last column may be of what was never over.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Wholes = NDArray[np.int64]

_DIGITS = 9  #: of ranks, as they are computed
_ALMOST = 1e-9


class Places(NamedTuple):
    """Between which two values each row's quantile lies, each by its bucket and its rank there.

    ``part`` is how far it is from the low one to the high one; infinite: it is not reached.
    """

    low: Wholes
    low_rank: Wholes
    high: Wholes
    high_rank: Wholes
    part: Reals


class _Ranked(NamedTuple):
    """Rows of counts, and what each stands for: itself, and a part of those seen no longer."""

    over: Reals
    weight: Reals
    before: Reals  #: what stands before each
    total: Reals


def _ranked(over: Reals, still: Reals) -> _Ranked:
    total = over.sum(axis=1) + still.sum(axis=1)
    if not still[:, :-1].any() and not (still[:, -1:] * over[:, -1:]).any():
        # All that is still open was seen for longer than what is over: ranks are plain.
        return _Ranked(over, np.ones((1, over.shape[1])), over.cumsum(axis=1) - over, total)
    both = over + still
    at_risk = total[:, None] - both.cumsum(axis=1) + both
    # What all at risk stand for: themselves, and their part of those that were seen no longer.
    ends = np.divide(over, at_risk, out=np.zeros_like(over), where=at_risk > 0)
    left = np.ones_like(over)
    np.cumprod(1 - ends[:, :-1], axis=1, out=left[:, 1:])
    left *= total[:, None]
    untouched = still.cumsum(axis=1) - still == 0
    weight = np.ones_like(over)
    np.divide(left, at_risk, out=weight, where=(at_risk > 0) & ~untouched)
    before = np.round((over * weight).cumsum(axis=1) - over * weight, _DIGITS)
    return _Ranked(over, weight, before, total)


def locate(over: Reals, still: Reals, share: float) -> Places:
    """Return the places of a quantile in each row of counts."""
    return _locate(_ranked(over, still), share)


def _locate(ranked: _Ranked, share: float) -> Places:
    over = ranked.over
    rows, last = np.arange(len(over)), over.shape[1]
    at = np.round(share * (ranked.total - 1), _DIGITS)
    found = (over > 0) & (ranked.before <= at[:, None])
    low = last - 1 - np.argmax(found[:, ::-1], axis=1)
    each = np.broadcast_to(ranked.weight, over.shape)[rows, low]
    inside = at - ranked.before[rows, low]
    rank = np.floor(np.round(inside / each, _DIGITS))
    rank = np.clip(rank, 0, np.maximum(over[rows, low] - 1, 0))
    part = np.maximum(np.round(inside - rank * each - (each - 1), _DIGITS), 0)
    is_inside = rank + 1 < over[rows, low]
    following = _following(over, low)
    high = np.where(is_inside, low, np.minimum(following, last - 1))
    high_rank = np.where(is_inside, rank + 1, 0)
    exact = part < _ALMOST
    high, high_rank = np.where(exact, low, high), np.where(exact, rank, high_rank)
    never = ~found.any(axis=1) | (~exact & ~is_inside & (following == last))
    part = np.where(never, np.inf, np.where(exact, 0.0, np.minimum(part, 1.0)))
    return Places(
        low.astype(np.int64),
        rank.astype(np.int64),
        high.astype(np.int64),
        high_rank.astype(np.int64),
        part,
    )


def quantiles_of(
    over: Reals, still: Reals, least: Reals, most: Reals, *shares: float
) -> list[Reals]:
    """Return quantiles of each row of counts; within a bucket values are spread evenly.

    ``least`` and ``most`` are the ends of the values that are over in each bucket.
    """
    rows, ranked = np.arange(len(over)), _ranked(over, still)

    def value(bucket: Wholes, rank: Wholes) -> Reals:
        count = np.maximum(over[rows, bucket] - 1, 1)
        spread: Reals = least[bucket] + rank / count * (most[bucket] - least[bucket])
        return spread

    return [
        between(value(at.low, at.low_rank), value(at.high, at.high_rank), at.part)
        for at in (_locate(ranked, share) for share in shares)
    ]


def between(low: Reals, high: Reals, part: Reals) -> Reals:
    """Return what lies between two values; infinite where the part is."""
    reached = np.isfinite(part)
    inside = low + np.where(reached, part, 0.0) * (high - low)
    return np.where(reached, inside, np.inf)


def end_of(draws: Reals, share: float) -> float | None:
    """Return a quantile of replicates, of which some may be infinite; None of none."""
    if not len(draws):
        return None
    ordered = np.sort(draws)
    at = round(share * (len(ordered) - 1), _DIGITS)
    low = int(at)
    first, second = float(ordered[low]), float(ordered[min(low + 1, len(ordered) - 1)])
    return first if first == second or at == low else first + (second - first) * (at - low)


def errors_of(over: Reals, still: Reals) -> Reals:
    """Return the standard error of the logarithm of a survival curve at the end of each bucket.

    The rows are clusters, whose members share their luck: the estimate is that of Williams (1995),
    with m / (m - 1) for m clusters; but never less than Greenwood's, as it would be where one
    cluster has nearly all. It is not a number for one cluster, and where nothing is left.
    """
    clusters = len(over)
    if clusters < 2:
        return np.full(over.shape[1], np.nan)
    both = over + still
    at_risk = both.sum(axis=1)[:, None] - both.cumsum(axis=1) + both
    all_over, all_at_risk = over.sum(axis=0), at_risk.sum(axis=0)
    left = all_at_risk - all_over
    expected = at_risk * np.divide(
        all_over, all_at_risk, out=np.zeros_like(all_over), where=all_at_risk > 0
    )
    terms = np.divide(over - expected, left, out=np.full_like(over, np.nan), where=left > 0)
    terms[:, all_over == 0] = 0.0
    sums = terms.cumsum(axis=1)
    found = (sums**2).sum(axis=0) * clusters / (clusters - 1)
    alone = np.divide(
        all_over, all_at_risk * left, out=np.zeros_like(all_over), where=all_at_risk * left > 0
    )
    errors: Reals = np.sqrt(np.maximum(found, alone.cumsum()))
    return errors


def _following(over: Reals, low: Wholes) -> Wholes:
    """Return the next bucket after ``low`` in which something is over; the last one's: none."""
    after = (over > 0) & (np.arange(over.shape[1]) > low[:, None])
    found: Wholes = np.where(after.any(axis=1), np.argmax(after, axis=1), over.shape[1])
    return found
