"""The bootstrap: what quantiles would have been with other seeds.

The seed is the unit. A replicate draws as many seeds as there are, with replacement, and takes all
incidents of each: incidents of one run share its ring and its luck, and to draw them one by one
would give intervals that are too narrow. Two cells with the same seeds are drawn alike, so what
they have in common cancels when they are compared.

Spark reduces each seed to counts in buckets (``quantiles``). What is left is, for each cell, the
product of a matrix of draws and one of counts. No built-in does that, so numpy does it, on the
executors. A replicate interpolates as the estimate does (``ranks``). Within a bucket values are
taken to be spread evenly; how far that is off for the data themselves is known, and taken off each
replicate. No replicate leaves the data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from sims.dataset import arrow_schema
from spark.analysis.frames import collect, expect
from spark.analysis.quantiles import QUANTILES, CellQuantiles, Key
from spark.analysis.ranks import Reals, end_of, errors_of, quantiles_of
from spark.analysis.recovery import CELL, NS_PER_S, NUMBERS
from spark.dataset.column_types import spark_schema

REPLICATES = 500
CONFIDENCE = 0.95
BOOTSTRAPPED = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
#: Bucket of what may never be over: after all others.
_NEVER = 2**62


class Replicates(msgspec.Struct, frozen=True, kw_only=True):
    """The quantiles of one measure in one cell, as drawn; none where there is only one seed.

    They are differences from the quantile of the data, infinite where they are not reached.
    """

    group_key: int
    size: int
    measure: str
    units: int
    p50: tuple[float, ...]
    p95: tuple[float, ...]
    p99: tuple[float, ...]
    places: tuple[float, ...]  #: buckets, in order
    errors: tuple[float, ...]  #: of the logarithm of the survival curve at the end of each


class Cell(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A measure in a cell, in the units of people: seconds for times, and numbers.

    A quantile is infinite where it is not reached.
    """

    group_key: int
    size: int
    measure: str
    units: int
    count: int
    open: int
    mean: float | None
    max: float | None
    at: Mapping[str, float]  #: ``p50`` and others
    draws: Mapping[str, Reals]  #: their replicates; none with one seed

    def ends(self, quantile: str) -> tuple[float | None, float | None]:
        """Return the 95 % interval of a quantile; None with one seed, infinite: not reached."""
        draws = self.draws[quantile]
        return end_of(draws, (1 - CONFIDENCE) / 2), end_of(draws, (1 + CONFIDENCE) / 2)


def replicates(counted: DataFrame) -> DataFrame:
    """Return rows of :class:`Replicates` from buckets that were counted by ``unit``."""
    places = fn.coalesce("bucket", fn.lit(_NEVER).cast("long"))
    drawn = (
        counted.withColumn("bucket", places)
        .groupBy(*CELL, "measure")
        .applyInArrow(_draw, spark_schema(Replicates))
    )
    return expect(drawn, Replicates)


def drawn(counted: DataFrame) -> dict[Key, Replicates]:
    """Bring the replicates of each cell and measure here."""
    return {
        (row.group_key, row.size, row.measure): row
        for row in collect(replicates(counted), Replicates)
    }


def cells(exact: Iterable[CellQuantiles], drawn: Mapping[Key, Replicates]) -> list[Cell]:
    """Return quantiles with their replicates, in the units of people."""
    return [_joined(row, drawn[row.group_key, row.size, row.measure]) for row in exact]


def _joined(row: CellQuantiles, drawn: Replicates) -> Cell:
    unit = 1.0 if row.measure in NUMBERS else NS_PER_S
    at, draws = {}, {}
    for name in QUANTILES:
        own = getattr(row, name)
        at[name] = np.inf if own is None else own / unit
    for name in BOOTSTRAPPED:
        moved = np.array(getattr(drawn, name)) + (getattr(row, name) or 0.0)
        inside = np.clip(moved, row.least or 0.0, row.most or 0.0)
        draws[name] = np.where(np.isfinite(moved), inside, np.inf) / unit
    return Cell(
        group_key=row.group_key,
        size=row.size,
        measure=row.measure,
        units=drawn.units,
        count=row.count,
        open=row.open,
        mean=None if row.mean is None else row.mean / unit,
        max=None if row.max is None else row.max / unit,
        at=at,
        draws=draws,
    )


def _draw(cell: pa.Table) -> pa.Table:
    """Draw one cell's replicates; its rows are the counts of each unit and bucket."""
    names = np.unique(cell.column("unit").to_numpy())
    places = np.unique(cell.column("bucket").to_numpy())
    row = np.searchsorted(names, cell.column("unit").to_numpy())
    column = np.searchsorted(places, cell.column("bucket").to_numpy())

    def matrix(name: str) -> Reals:
        found = np.zeros((len(names), len(places)))
        np.add.at(found, (row, column), cell.column(name).to_numpy())
        return found

    def ends(name: str, start: float, pick: np.ufunc) -> Reals:
        values = cell.column(name).to_numpy(zero_copy_only=False).astype(np.float64)
        found = np.full(len(places), start)
        known = ~np.isnan(values)
        pick.at(found, column[known], values[known])
        return np.where(np.isfinite(found), found, 0.0)

    over, still = matrix("over"), matrix("still")
    least, most = ends("least", np.inf, np.minimum), ends("most", -np.inf, np.maximum)
    size, measure = cell.column("size")[0].as_py(), cell.column("measure")[0].as_py()
    replicated = {}
    draws = _draws(names, size) if len(names) > 1 else np.zeros((0, len(names)))
    sums = [counts.sum(axis=0)[None, :] for counts in (over, still)]
    for name, share in BOOTSTRAPPED.items():
        own = quantiles_of(sums[0], sums[1], least, most, share)[0]
        drawn = quantiles_of(draws @ over, draws @ still, least, most, share)
        # Where the data do not reach it there is nothing that a replicate could be off by.
        replicated[name] = (drawn - (own if np.isfinite(own) else 0.0)).tolist()
    errors = errors_of(over, still)
    known = np.isfinite(errors) & (places < _NEVER) if measure == "total" else errors > np.inf
    found = {
        "group_key": cell.column("group_key")[0].as_py(),
        "size": size,
        "measure": measure,
        "units": len(names),
        **replicated,
        "places": places[known].astype(np.float64).tolist(),
        "errors": errors[known].tolist(),
    }
    return pa.Table.from_pylist([found], schema=arrow_schema(Replicates))


def _draws(names: NDArray[np.int64], size: int) -> Reals:
    """Return how often each unit is drawn in each replicate: the same for the same units."""
    digest = hashlib.sha256(names.tobytes() + str(size).encode()).digest()
    random = np.random.default_rng(int.from_bytes(digest[:8]))
    each = np.full(len(names), 1 / len(names))
    return random.multinomial(len(names), each, size=REPLICATES).astype(np.float64)
