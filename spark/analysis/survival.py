"""Survival of holes in the ring: Kaplan-Meier curves, with failures that a run did not see mended.

An incident that is open when its run ends has lasted *at least* so long. To leave it out would make
recovery look quicker than it is; the estimate of Kaplan and Meier (1958) counts it as at risk until
then. Of an incident that ends at the moment another is censored, the censored one was at risk.

Incidents of one seed share its luck, so the error of a curve is that of Williams (1995) with seeds
as clusters (``ranks.errors_of``). Greenwood's, which takes incidents for independent, is several
times too small.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from statistics import NormalDist

import msgspec
import numpy as np

from spark.analysis.quantiles import NS_PER_MS, Counts, Key, bucket_of
from spark.analysis.recovery import NS_PER_S
from spark.analysis.replicates import CONFIDENCE, Replicates

_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
#: Steps are thinned to those where the curve has fallen by a fiftieth, on a logarithmic scale.
_STEPS = 50
#: Column of ``results.Survived`` -> the share not yet recovered at that quantile.
CROSSED = {"p50_s": 0.5, "p95_s": 0.05, "p99_s": 0.01}
_CLOSE = 1e-12


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the curve of a cell, with the totals of the cell."""

    group_key: int
    size: int
    bucket: int
    after_s: float
    survival: float
    at_risk: int
    failures: int
    censored: int


class KeyedSurvived(msgspec.Struct, frozen=True, kw_only=True):
    """A ``results.Survived`` before it has the columns of its group."""

    group_key: int
    size: int
    failures: int
    censored: int
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None


def steps(curves: Mapping[Key, Counts]) -> list[Step]:
    """Return the curve of each cell, by Kaplan and Meier, thinned to some hundred steps.

    ``curves`` are the counts of ``recovery.CURVE``, by the millisecond; a step is where the last
    failure of its millisecond was repaired.
    """
    return [step for key, own in curves.items() for step in _steps(key, own)]


def _steps(key: Key, own: Counts) -> Iterator[Step]:
    timed = np.array([number is not None for number in own.numbers])
    if not timed.any():
        return
    both = own.over + own.still
    at_risk = both.sum() - both.cumsum() + both
    with np.errstate(divide="ignore"):  # where all that are at risk end, nothing is left
        log = np.log1p(-own.over / at_risk).cumsum()
    survival = np.exp(log)
    is_last = np.arange(len(timed)) == np.flatnonzero(timed)[-1]
    ends = np.array([number or 0 for number in own.numbers]) * float(NS_PER_MS)
    value = np.where(own.over > 0, own.most, ends)
    thinned = np.stack(
        [
            np.floor(-np.maximum(log, -1e3) * _STEPS),
            is_last,
            *(survival <= share + _CLOSE for share in CROSSED.values()),
        ]
    )
    told = np.flatnonzero(timed & ((own.over > 0) | is_last))
    changes = (np.diff(thinned[:, told], axis=1) != 0).any(axis=0)
    for at in told[np.concatenate([[True], changes])]:
        yield Step(
            group_key=key[0],
            size=key[1],
            bucket=bucket_of(float(value[at])),
            after_s=float(value[at]) / NS_PER_S,
            survival=float(survival[at]),
            at_risk=int(at_risk[at]),
            failures=int(both.sum()),
            censored=int(own.still.sum()),
        )


def interval(step: Step, drawn: Replicates) -> tuple[float | None, float | None]:
    """Return the ends of the 95 % interval of a step, on the scale of log(-log S).

    They are None with one seed, and where nothing or all is left.
    """
    at = int(np.searchsorted(drawn.places, step.bucket, side="right")) - 1
    if at < 0 or not _CLOSE < step.survival < 1 - _CLOSE:
        return None, None
    log = math.log(step.survival)
    error = _Z * drawn.errors[at] / abs(log)
    # Far beyond these nothing is known, and an exponential would overflow.
    low, high = (math.exp(log * math.exp(max(-700.0, min(end, 700.0)))) for end in (error, -error))
    return low, high


def summaries(steps: Iterable[Step]) -> list[KeyedSurvived]:
    """Return a row a cell: failures, censored ones, and where the curve crosses its quantiles."""

    def key(step: Step) -> tuple[int, int]:
        return step.group_key, step.size

    found = []
    for (group_key, size), alike in groupby(sorted(steps, key=key), key=key):
        own = list(alike)
        crossed: Mapping[str, float | None] = {
            name: min(
                (step.after_s for step in own if step.survival <= share + _CLOSE), default=None
            )
            for name, share in CROSSED.items()
        }
        found.append(
            KeyedSurvived(
                group_key=group_key,
                size=size,
                failures=own[0].failures,
                censored=own[0].censored,
                **crossed,
            )
        )
    return found


def key_of(step: Step) -> Key:
    """Return the key of the cell and measure of a step."""
    return step.group_key, step.size, "total"
