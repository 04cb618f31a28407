"""Loading a data set: two checked tables, whichever mix of files they come from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from overlay.trace_schema import Incident, Run
from spark.dataset.column_types import spark_schema
from spark.dataset.files import JSON_LINES, PARQUET, DatasetFiles, Record
from spark.errors import DatasetError


@dataclass(frozen=True, slots=True)
class Dataset:
    """A data set as Spark sees it; the columns are those of ``overlay.trace_schema``."""

    runs: DataFrame
    incidents: DataFrame


def load(spark: SparkSession, files: DatasetFiles) -> Dataset:
    """Read a data set.

    Raises:
        DatasetError: A run is in the data set twice.
    """
    dataset = Dataset(_read(spark, files.runs, Run), _read(spark, files.incidents, Incident))
    _check_unique(dataset.runs, files.directory)
    return dataset


def _read(spark: SparkSession, files: list[Path], record: Record) -> DataFrame:
    reader = spark.read.schema(spark_schema(record)).option("mode", "FAILFAST")
    frames = []
    if parquet := [address(path) for path in files if path.suffix == PARQUET]:
        frames.append(reader.parquet(*parquet))
    if lines := [address(path) for path in files if path.suffix == JSON_LINES]:
        frames.append(reader.json(lines))
    return reduce(DataFrame.unionByName, frames)


def address(path: Path) -> str:
    """Return ``path`` as Spark takes it: on the file system, with nothing left to expand."""
    return "file://" + re.sub(r"([\[\]{}*?\\])", r"\\\1", str(path.resolve()))


def _check_unique(runs: DataFrame, directory: Path) -> None:
    twice = runs.groupBy("run_id").count().where(fn.col("count") > 1).orderBy("run_id").first()
    if twice is not None:
        raise DatasetError(
            f"run {twice['run_id']!r} is in {directory} {twice['count']} times: "
            "remove the copies, and those of its incidents"
        )
