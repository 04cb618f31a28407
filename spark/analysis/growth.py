"""How a measure grows with the size of the ring: what was measured, and five laws, weighed. Pure.

For each group, measure and quantile (p50 and p99), what was measured is the change from the
smallest size to the largest, as a share of the value at the smallest, with its interval over seeds.

Each law is fitted by least squares to the quantiles of the sizes. A size weighs 1 / s^2, where s is
the standard error of its quantile by the bootstrap over seeds (``replicates``). As few seeds tell
little of s, half of s^2 is that of the size itself and half what all sizes have in common, in
proportion to the quantile.

The information criterion of a law with k parameters is D / c + 2 k. D is its deviance, the weighted
sum of squares. c is 1, or the deviance of the best law for each degree of freedom if that is more:
no law is the whole truth, and with many seeds the smallest departure would refute them all. With
one seed s is not known, and the criterion is Akaike's for an unknown variance: m log D + 2 k.

Each replicate is fitted as well, with the same weights. So there is a share of replicates for each
law, and an interval for what it predicts.

Where a quantile, or the upper end of its interval, is not reached at some size, no law is fitted:
the sizes at which it is reached would be told of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from spark.analysis.groups import Group
from spark.analysis.judging import FUNCTIONS
from spark.analysis.ranks import Reals, end_of
from spark.analysis.replicates import CONFIDENCE, Cell
from spark.analysis.results import Fit, Law, Rise

FITTED = ("p50", "p99")  #: the quantiles whose growth is asked for
#: No quantile is taken to be known better than this share of it.
_FINEST = 1e-4
_PARAMETERS = {law: 1 if law is Law.CONSTANT else 2 for law in Law}


@dataclass(frozen=True, slots=True)
class Series:
    """A quantile of a measure over the sizes of a group; infinite where it is not reached."""

    group: Group
    measure: str
    quantile: str
    sizes: Reals
    values: Reals
    draws: tuple[Reals, ...]  #: the replicates of each size; none with one seed

    @property
    def missing(self) -> tuple[int, ...]:
        """The sizes at which the quantile, or the upper end of its interval, is not reached."""
        high = [end_of(draws, (1 + CONFIDENCE) / 2) for draws in self.draws]
        reached = np.isfinite(self.values) & np.isfinite(
            [0.0 if end is None else end for end in high]
        )
        return tuple(int(n) for n in self.sizes[~reached])

    @property
    def drawn(self) -> Reals:
        """Return a row a replicate, of those that are reached at all sizes."""
        count = min((len(draws) for draws in self.draws), default=0)
        if not count:
            return np.zeros((0, len(self.sizes)))
        whole = np.stack([draws[:count] for draws in self.draws], axis=1)
        rows: Reals = whole[np.isfinite(whole).all(axis=1)]
        return rows


def series(cells: Iterable[Cell], groups: Mapping[int, Group]) -> list[Series]:
    """Return what is to be fitted: cells of which the size is known, put together by group."""

    def key(cell: Cell) -> tuple[int, str]:
        return cell.group_key, cell.measure

    known = sorted((cell for cell in cells if cell.size > 0), key=lambda c: (*key(c), c.size))
    found = []
    for (group_key, measure), alike in groupby(known, key=key):
        own = list(alike)
        found += [
            Series(
                group=groups[group_key],
                measure=measure,
                quantile=quantile,
                sizes=np.array([cell.size for cell in own], dtype=np.float64),
                values=np.array([cell.at[quantile] for cell in own]),
                draws=tuple(cell.draws[quantile] for cell in own),
            )
            for quantile in FITTED
        ]
    return found


def rise(of: Series) -> Rise:
    """Return what was measured, from the smallest size to the largest."""
    first, last = float(of.values[0]), float(of.values[-1])
    missing = of.missing
    low = high = change = None
    if not missing and first > 0:
        change = last / first - 1
        base, other = _finite(of.draws[0]), _finite(of.draws[-1])
        count = min(len(base), len(other))
        if len(of.sizes) > 1 and count and (base > 0).all():
            drawn = other[:count] / base[:count] - 1
            low, high = (end_of(drawn, (1 + side * CONFIDENCE) / 2) for side in (-1, 1))
    return Rise(
        **of.group.columns(),
        measure=of.measure,
        quantile=of.quantile,
        sizes=len(of.sizes),
        n_min=int(of.sizes[0]),
        n_max=int(of.sizes[-1]),
        first=first if np.isfinite(first) else None,
        last=last if np.isfinite(last) else None,
        range=None if change is None else float(np.ptp(of.values)) / first,
        change=change,
        change_low=low,
        change_high=high,
        missing=missing,
    )


def fits(of: Series) -> list[Fit]:
    """Return five fits, or none where the quantile is not reached at some size."""
    if of.missing:
        return []
    weights, is_known = _weights(of)
    drawn = of.drawn
    values = np.vstack([of.values[None, :], drawn])
    solved = {law: _solved(law, of.sizes, values, weights) for law in Law}
    freedom = {law: max(len(of.sizes) - _PARAMETERS[law], 1) for law in Law}
    inflated = max(1.0, min(solved[law].deviance[0] / freedom[law] for law in Law))
    criteria = {
        law: _criterion(law, solved[law], len(of.sizes), inflated if is_known else None)
        for law in Law
    }
    ranked = sorted(Law, key=lambda law: (_PARAMETERS[law], law.value))
    best = np.argmin([criteria[law] for law in ranked], axis=0)
    found = []
    for law in Law:
        own = solved[law]
        share = float(np.mean(best[1:] == ranked.index(law))) if len(drawn) else None
        found.append(_fit(of, law, own, float(criteria[law][0]), share))
    return found


@dataclass(frozen=True, slots=True)
class _Solved:
    """A law fitted to the data and to each replicate, one a row."""

    mean: Reals
    intercept: Reals
    slope: Reals
    deviance: Reals
    change: Reals  #: as a share of what the law says of the smallest size; NaN: that is not above 0


def _weights(of: Series) -> tuple[Reals, bool]:
    """Return each size's weight, and whether it comes from replicates."""
    spread = np.array(
        [np.std(known, ddof=1) if len(known) > 1 else np.nan for known in map(_finite, of.draws)]
    )
    own = np.where(of.values != 0, of.values, np.nan)
    relative = (spread / own) ** 2
    if np.isnan(relative).all():
        return np.ones(len(of.sizes)), False
    common = np.nanmean(relative) * of.values**2
    mixed = (np.where(np.isnan(spread), common, spread**2) + common) / 2
    finest = (np.abs(of.values) * _FINEST) ** 2 + 1e-18
    return 1 / np.maximum(mixed, finest), True


def _finite(draws: Reals) -> Reals:
    return draws[np.isfinite(draws)]


def _solved(law: Law, sizes: Reals, values: Reals, weights: Reals) -> _Solved:
    x = np.array([FUNCTIONS[law](n) for n in sizes])
    total = weights.sum()
    mean = values @ weights / total
    centred = x - x @ weights / total
    spread = float(weights @ centred**2)
    off = values - mean[:, None]
    # With one size no slope can be told; the constant has none.
    has_slope = spread > 1e-12 * float(weights @ x**2)
    slope = off @ (weights * centred) / spread if has_slope else np.zeros(len(values))
    left = off - slope[:, None] * centred
    intercept = mean - slope * (x @ weights / total)
    first = intercept + slope * x[0]
    change = np.full(len(values), np.nan)
    np.divide(slope * (x[-1] - x[0]), first, out=change, where=first > 0)
    return _Solved(mean, intercept, slope, left**2 @ weights, np.maximum(change, -1.0))


def _criterion(law: Law, own: _Solved, sizes: int, inflated: float | None) -> Reals:
    """Return the criterion of each row; the constant c is that of the data, for replicates too."""
    extra = 2 * _PARAMETERS[law]
    if inflated is not None:
        return own.deviance / inflated + extra
    # Rounding leaves a perfect fit about this much; less is no evidence.
    floor = 1e-12 * np.maximum(own.mean**2, 1e-12)
    found: Reals = sizes * np.log(np.maximum(own.deviance, floor)) + extra
    return found


def _fit(of: Series, law: Law, own: _Solved, criterion: float, share: float | None) -> Fit:
    several = len(own.slope) > 2
    covariance = np.cov(own.slope[1:], own.intercept[1:]) if several else None
    change: float | None = float(own.change[0])
    low = high = None
    if law is Law.CONSTANT or np.isnan(own.change[0]):
        change = None  # a constant has none by construction
    elif several and not np.isnan(own.change[1:]).any():
        low, high = (end_of(own.change[1:], (1 + side * CONFIDENCE) / 2) for side in (-1, 1))
    return Fit(
        **of.group.columns(),
        measure=of.measure,
        quantile=of.quantile,
        law=law,
        sizes=len(of.sizes),
        n_min=int(of.sizes[0]),
        n_max=int(of.sizes[-1]),
        mean=float(own.mean[0]),
        intercept=float(own.intercept[0]),
        slope=float(own.slope[0]),
        intercept_variance=None if covariance is None else float(covariance[1, 1]),
        slope_variance=None if covariance is None else float(covariance[0, 0]),
        covariance=None if covariance is None else float(covariance[0, 1]),
        deviance=float(own.deviance[0]),
        criterion=criterion,
        share=share,
        change=change,
        change_low=low,
        change_high=high,
    )
