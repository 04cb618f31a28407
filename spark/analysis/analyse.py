"""The analysis of a data set: Spark reduces it to a few small tables, and these are judged."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from pyspark.sql import DataFrame, SparkSession

from spark.analysis import growth, recovery
from spark.analysis.results import Analysis, Counts, Curve, Facts, Fit, Model, Quantiles
from spark.dataset.files import DatasetFiles
from spark.dataset.load import load

Row = TypeVar("Row", bound=msgspec.Struct)


def analyse(spark: SparkSession, files: DatasetFiles) -> Analysis:
    """Analyse a data set.

    Raises:
        DatasetError: A run is in the data set twice.
    """
    data = load(spark, files)
    sizes = recovery.quantiles(recovery.measures(data)).persist()
    try:
        fits = _collect(growth.fits(sizes), Fit)
        return Analysis(
            facts=_collect(recovery.facts(data), Facts)[0],
            counts=_collect(recovery.counts(data), Counts),
            quantiles=_collect(sizes, Quantiles),
            curves=_collect(sizes.where("count > 0"), Curve),
            fits=fits,
            verdicts=growth.judge_all(fits),
        )
    finally:
        sizes.unpersist()


def _collect(frame: DataFrame, record: type[Row]) -> tuple[Row, ...]:
    """Bring a small table here, sorted by group, measure and size."""
    found = frame.select(*record.__struct_fields__).collect()
    rows = [msgspec.convert(row.asDict(), record) for row in found]
    return tuple(sorted(rows, key=_order))


def _order(row: msgspec.Struct) -> tuple[object, ...]:
    """Return what a row sorts by: Python cannot order None, so it goes first."""
    measure, n, model = (getattr(row, name, None) for name in ("measure", "n", "model"))
    return (
        *(getattr(row, name, None) or "" for name in recovery.GROUP),
        recovery.MEASURES.index(measure) if measure else 0,
        -1 if n is None else n,
        list(Model).index(model) if model else 0,
    )
