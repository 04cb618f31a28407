"""The bootstrap: what quantiles would have been with other seeds.

The seed is the unit. A replicate draws as many seeds as there are, with replacement, and takes all
incidents of each: incidents of one run share its ring and its luck, and to draw them one by one
would give intervals that are too narrow. Two cells with the same seeds are drawn alike, so what
they have in common cancels when they are compared.

Spark reduces each seed to counts in buckets (``quantiles``). The rest is, for each cell, the
product of a matrix of draws and one of counts. No built-in does that, so numpy does it: here, or on
the executors if there are many buckets. A replicate interpolates as the estimate does (``ranks``).
Within a bucket values are taken to be spread evenly; how far that is off for the data themselves is
known, and taken off each replicate. No replicate leaves the data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from sims.dataset import arrow_schema
from spark.analysis.frames import expect
from spark.analysis.quantiles import QUANTILES, CellQuantiles, Counts, Key
from spark.analysis.ranks import Reals, end_of, errors_of, quantiles_of
from spark.analysis.recovery import CELL, NS_PER_S, NUMBERS
from spark.dataset.column_types import spark_schema

REPLICATES = 500
CONFIDENCE = 0.95
BOOTSTRAPPED = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
#: Bucket of what may never be over: after all others.
_NEVER = 2**62
#: Of so many incidents buckets are drawn here and not on the executors: some 100 MB, or seven times
#: as much where no two values are in one bucket.
DRAWN_HERE = 1_000_000
_KEY = (*CELL, "measure")
_COLUMNS = ("over", "still", "least", "most")  #: of ``Counts``


@dataclass(frozen=True, slots=True, eq=False)
class Replicates:
    """The counts of one measure in one cell, and its quantiles as drawn; none with one seed.

    The latter are differences from the quantile of the data, infinite where it is not reached.
    """

    key: Key
    units: int
    draws: Mapping[str, Reals]
    places: Reals  #: buckets, in order
    errors: Reals  #: of the logarithm of the survival curve at the end of each
    counts: Counts


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    """:class:`Replicates`, as Spark hands them on."""

    group_key: int
    size: int
    measure: str
    units: int
    p50: tuple[float, ...]
    p95: tuple[float, ...]
    p99: tuple[float, ...]
    places: tuple[float, ...]
    errors: tuple[float, ...]
    numbers: tuple[float, ...]
    over: tuple[float, ...]
    still: tuple[float, ...]
    least: tuple[float, ...]
    most: tuple[float, ...]
    total: float


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
    """Return rows of :class:`_Row` from buckets that were counted by ``unit``."""
    found = counted.groupBy(*_KEY).applyInArrow(_draw, spark_schema(_Row))
    return expect(found, _Row)


def drawn(counted: DataFrame, incidents: int) -> dict[Key, Replicates]:
    """Draw the replicates of each cell and measure from buckets that were counted by ``unit``.

    Those of few ``incidents`` are drawn here, as Python on the executors takes seconds to start.
    """
    if incidents > DRAWN_HERE:
        rows = replicates(counted).toArrow()
        return {own.key: own for own in map(_read, map(rows.slice, range(len(rows)), repeat(1)))}
    return {own.key: own for own in map(draw, _by_key(counted.toArrow()))}


def _by_key(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows of each cell and measure."""
    ordered = rows.combine_chunks().sort_by([(name, "ascending") for name in _KEY])
    if not len(ordered):
        return
    changes = [
        pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)).to_numpy()
        for column in (ordered.column(name) for name in _KEY)
    ]
    starts = [0, *(np.flatnonzero(np.logical_or.reduce(changes)) + 1).tolist()]
    for start, end in zip(starts, [*starts[1:], len(ordered)], strict=True):
        yield ordered.slice(start, end - start)


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
        moved = drawn.draws[name] + (getattr(row, name) or 0.0)
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


def draw(cell: pa.Table) -> Replicates:
    """Draw one cell's replicates; its rows are the counts of each unit and bucket."""
    names = np.unique(cell.column("unit").to_numpy())
    numbers = pc.fill_null(cell.column("bucket"), _NEVER).to_numpy()
    places = np.unique(numbers)
    row = np.searchsorted(names, cell.column("unit").to_numpy())
    column = np.searchsorted(places, numbers)

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
    group_key, size, measure = (cell.column(name)[0].as_py() for name in _KEY)
    counts = Counts(
        numbers=tuple(None if place == _NEVER else place for place in places.tolist()),
        over=over.sum(axis=0),
        still=still.sum(axis=0),
        least=ends("least", np.inf, np.minimum),
        most=ends("most", -np.inf, np.maximum),
        total=pc.sum(cell.column("total")).as_py() or 0.0,
    )
    errors = errors_of(over, still)
    known = np.isfinite(errors) & (places < _NEVER) if measure == "total" else errors > np.inf
    return Replicates(
        key=(group_key, size, measure),
        units=len(names),
        draws=_quantiles(over, still, counts, _draws(names.tobytes(), size)),
        places=places[known].astype(np.float64),
        errors=errors[known],
        counts=counts,
    )


def _quantiles(over: Reals, still: Reals, counts: Counts, draws: Reals) -> dict[str, Reals]:
    """Return what was drawn of each quantile, less what its buckets say of the data."""
    if not len(draws):
        return {name: np.zeros(0) for name in BOOTSTRAPPED}
    ends, shares = (counts.least, counts.most), tuple(BOOTSTRAPPED.values())
    own = quantiles_of(counts.over[None, :], counts.still[None, :], *ends, *shares)
    drawn = quantiles_of(draws @ over, draws @ still, *ends, *shares)
    # Where the data do not reach it there is nothing that a replicate could be off by.
    return {
        name: each - (one[0] if np.isfinite(one[0]) else 0.0)
        for name, one, each in zip(BOOTSTRAPPED, own, drawn, strict=True)
    }


def _draw(cell: pa.Table) -> pa.Table:
    """Draw one cell's replicates on an executor."""
    own = draw(cell)
    told: dict[str, object] = dict(zip(_KEY, own.key, strict=True))
    told |= {"units": own.units, **own.draws, "places": own.places, "errors": own.errors}
    numbers = np.array([_NEVER if n is None else n for n in own.counts.numbers], dtype=np.float64)
    told |= {"numbers": numbers, "total": own.counts.total}
    told |= {name: getattr(own.counts, name) for name in _COLUMNS}
    return pa.table(
        {name: pa.array([told[name]]) for name in _Row.__struct_fields__}, arrow_schema(_Row)
    )


def _read(row: pa.Table) -> Replicates:
    """Return the replicates of one row of :class:`_Row`."""

    def one(name: str) -> Any:  # noqa: ANN401 - whatever the column holds
        return row.column(name)[0].as_py()

    def reals(name: str) -> Reals:
        found: Reals = row.column(name)[0].values.to_numpy(zero_copy_only=False)
        return found

    return Replicates(
        key=(one("group_key"), one("size"), one("measure")),
        units=one("units"),
        draws={name: reals(name) for name in BOOTSTRAPPED},
        places=reals("places"),
        errors=reals("errors"),
        counts=Counts(
            numbers=tuple(None if n == _NEVER else int(n) for n in reals("numbers").tolist()),
            total=one("total"),
            **{name: reals(name) for name in _COLUMNS},
        ),
    )


@lru_cache(maxsize=8)  # each measure of a cell has the same units
def _draws(names: bytes, size: int) -> Reals:
    """Return how often each unit is drawn in each replicate: the same for the same units."""
    count = len(names) // np.dtype(np.int64).itemsize
    if count < 2:
        return np.zeros((0, count))
    digest = hashlib.sha256(names + str(size).encode()).digest()
    random = np.random.default_rng(int.from_bytes(digest[:8]))
    each = np.full(count, 1 / count)
    return random.multinomial(count, each, size=REPLICATES).astype(np.float64)
