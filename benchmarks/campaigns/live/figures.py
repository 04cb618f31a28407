"""Distances between distributions, and lines that compare a figure with its bar."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from overlay.quantiles import quantile


@dataclass(frozen=True)
class Bar:
    """One figure with its threshold; no threshold: it is told, and cannot be missed."""

    name: str
    measured: float
    threshold: float | None
    unit: str = "s"
    count: int = 0  #: measurements behind it
    spread: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the figure is there and no larger than its threshold."""
        if self.threshold is None:
            return True
        return not math.isnan(self.measured) and self.measured <= self.threshold

    def __str__(self) -> str:
        verdict = "" if self.threshold is None else ("met" if self.is_met else "NOT MET")
        limit = "-" if self.threshold is None else f"{self.threshold:g} {self.unit}".strip()
        measured = (
            "none"
            if math.isnan(self.measured)
            else f"{self.measured:.3f} s"
            if self.unit
            else f"{self.measured:.0f}"
        )
        spread = f"  ({self.spread})" if self.spread else ""
        return f"{self.name:<52}  measured {measured:<10}  threshold {limit:<8}  {verdict}{spread}"


def spread(values: Sequence[float]) -> str:
    """Return the usual quantiles in words."""
    if not values:
        return "n=0"
    parts = (f"p{round(100 * q)} {quantile(values, q):.3f}" for q in (0.5, 0.95, 0.99))
    return f"n={len(values)} {' '.join(parts)} max {max(values):.3f}"


def bar(name: str, values: Sequence[float], q: float, threshold: float | None) -> Bar:
    """Return the quantile ``q`` of ``values`` as a bar; with no values it is not met."""
    return Bar(name, quantile(values, q), threshold, "s", len(values), spread(values))


def distance(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the largest distance between two distribution functions (Kolmogorov and Smirnov).

    0: the same; 1: they do not overlap.
    """
    first, second = sorted(a), sorted(b)
    if not first or not second:
        return math.nan
    return max(
        abs(bisect_right(first, at) / len(first) - bisect_right(second, at) / len(second))
        for at in (*first, *second)
    )
