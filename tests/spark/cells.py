"""Cells with their replicates, made of the values of each seed: what Spark makes of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from overlay.quantiles import quantile
from spark.analysis.quantiles import QUANTILES, CellQuantiles
from spark.analysis.recovery import NS_PER_S
from spark.analysis.replicates import _NEVER, Cell, Replicates, cells, draw


def drawn(by_unit: Sequence[Sequence[float]], measure: str = "total", size: int = 64) -> Replicates:
    """Return the replicates of a cell in which each value has a bucket of its own."""
    values = sorted({value for unit in by_unit for value in unit if math.isfinite(value)})
    rows = [
        {
            "group_key": 1,
            "size": size,
            "measure": measure,
            "unit": at,
            "bucket": values.index(value) if math.isfinite(value) else _NEVER,
            "over": unit.count(value) if math.isfinite(value) else 0,
            "still": 0 if math.isfinite(value) else unit.count(value),
            "least": value if math.isfinite(value) else None,
            "most": value if math.isfinite(value) else None,
            "total": value * unit.count(value) if math.isfinite(value) else None,
        }
        for at, unit in enumerate(by_unit)
        for value in sorted(set(unit))
    ]
    return draw(pa.Table.from_pylist(rows))


def cell(by_unit: Sequence[Sequence[float]], size: int = 64, measure: str = "total") -> Cell:
    """Return a cell with its replicates: seconds of each seed, infinite where it never ended."""
    scaled = [[value * NS_PER_S for value in unit] for unit in by_unit]
    values = [value for unit in scaled for value in unit]
    over = [value for value in values if math.isfinite(value)]
    found = {name: quantile(values, share) for name, share in QUANTILES.items()}
    is_whole = len(over) == len(values)
    row = CellQuantiles(
        group_key=1,
        size=size,
        measure=measure,
        count=len(over),
        open=len(values) - len(over),
        mean=float(np.mean(over)) if is_whole else None,
        max=max(over) if is_whole else None,
        least=min(over, default=None),
        most=max(over, default=None),
        **{name: value if math.isfinite(value) else None for name, value in found.items()},
    )
    (joined,) = cells([row], {(1, size, measure): drawn(scaled, measure, size)})
    return joined
