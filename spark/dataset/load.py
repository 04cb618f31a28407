"""Loading a data set: checked tables, whichever mix of files they come from.

A data set in a folder has been looked at before (``files``), file by file. One at a URL that Spark
alone understands (``hdfs://...``, ``s3a://...``) is never opened here: what can be checked of it is
checked in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql import types as sql

from overlay.trace_schema import Incident, Probe, Run
from spark.dataset.column_types import spark_schema
from spark.dataset.files import FOLDERS, JSON_LINES, PARQUET, DatasetFiles, Record, check_version
from spark.errors import DatasetError

#: Columns that the folders of a table in partitions name.
PARTITIONS = (
    sql.StructField("scenario", sql.StringType(), nullable=True),
    sql.StructField("nodes", sql.LongType(), nullable=True),
)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A data set as Spark sees it; the columns are those of ``overlay.trace_schema``."""

    runs: DataFrame
    incidents: DataFrame
    probes: DataFrame | None = None  #: with ``scenario`` and ``nodes``; None where there are none
    skipped: tuple[str, ...] = ()  #: files that are left out


def is_url(place: str) -> bool:
    """Say whether a data set is named by a URL, which is for Spark to open."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", place) is not None


def load(spark: SparkSession, files: DatasetFiles) -> Dataset:
    """Read a data set whose files were checked.

    Raises:
        DatasetError: A run is in the data set twice.
    """
    runs, incidents = _read(spark, files.runs, Run), _read(spark, files.incidents, Incident)
    probes = None
    if files.probes:
        folder = files.directory / FOLDERS[Probe]
        reader = spark.read.schema(partitioned_schema(Probe))
        if files.skipped:
            # The folders in a path are columns only below a base, which is taken as it is written.
            reader = reader.option("basePath", f"file://{folder.resolve()}")
            probes = reader.parquet(*(address(path) for path in files.probes))
        else:
            probes = reader.parquet(address(folder))
    check_unique(runs, str(files.directory))
    return Dataset(runs, incidents, probes, files.skipped)


def load_url(spark: SparkSession, url: str, *, skip_broken: bool = False) -> Dataset:
    """Read the data set at a URL of Spark's; with ``skip_broken``, without what is broken in it.

    Raises:
        DatasetError: A table is missing, a row is of a newer version, or a run is there twice.
    """
    place = url.rstrip("/")
    runs, incidents = (_at_url(spark, place, record, skip_broken) for record in (Run, Incident))
    for frame, record in ((runs, Run), (incidents, Incident)):
        _check_versions(frame, record)
    reader = spark.read.schema(partitioned_schema(Probe)).option("ignoreCorruptFiles", skip_broken)
    try:
        probes = reader.parquet(f"{place}/{FOLDERS[Probe]}")
        _look(probes)
    except AnalysisException:
        probes = None
    check_unique(runs, url)
    return Dataset(runs, incidents, probes)


def of_scenarios(data: Dataset, names: Sequence[str]) -> Dataset:
    """Return what some scenarios left; no file of probes of another one is opened."""
    runs = data.runs.where(fn.col("scenario").isin(*names))
    incidents = data.incidents.join(runs.select("run_id"), "run_id", "left_semi")
    probes = data.probes.where(fn.col("scenario").isin(*names)) if data.probes else None
    return replace(data, runs=runs, incidents=incidents, probes=probes)


def partitioned_schema(record: Record) -> sql.StructType:
    """Return the Spark schema of a table in partitions."""
    return sql.StructType([*spark_schema(record).fields, *PARTITIONS])


def address(path: Path) -> str:
    """Return ``path`` as Spark takes it: on the file system, with nothing left to expand."""
    return "file://" + re.sub(r"([\[\]{}*?\\])", r"\\\1", str(path.resolve()))


def check_unique(runs: DataFrame, place: str) -> None:
    """Check that no run is there twice.

    Raises:
        DatasetError: One is; the text names it.
    """
    twice = runs.groupBy("run_id").count().where(fn.col("count") > 1).orderBy("run_id").first()
    if twice is not None:
        raise DatasetError(
            f"run {twice['run_id']!r} is in {place} {twice['count']} times: "
            "remove the copies, and those of its incidents"
        )


def _read(spark: SparkSession, files: list[Path], record: Record) -> DataFrame:
    reader = spark.read.schema(spark_schema(record)).option("mode", "FAILFAST")
    frames = []
    if parquet := [address(path) for path in files if path.suffix == PARQUET]:
        frames.append(reader.parquet(*parquet))
    if lines := [address(path) for path in files if path.suffix == JSON_LINES]:
        frames.append(reader.json(lines))
    return reduce(DataFrame.unionByName, frames)


def _at_url(spark: SparkSession, place: str, record: Record, skip_broken: bool) -> DataFrame:
    folder = f"{place}/{FOLDERS[record]}"
    reader = (
        spark.read.schema(spark_schema(record))
        .option("mode", "DROPMALFORMED" if skip_broken else "FAILFAST")
        .option("ignoreCorruptFiles", skip_broken)
    )
    try:
        whole = reader.option("pathGlobFilter", f"*{PARQUET}").parquet(folder)
        lines = reader.option("pathGlobFilter", f"*{JSON_LINES}").json(folder)
        _look(whole)
    except AnalysisException as error:
        raise DatasetError(f"{place} is no data set: {folder} cannot be read") from error
    return whole.unionByName(lines)


def _look(frame: DataFrame) -> None:
    """Let Spark find out whether the files are there; over Spark Connect it waits until asked."""
    len(frame.columns)


def _check_versions(frame: DataFrame, record: Record) -> None:
    newest = frame.agg(fn.max("schema_version").alias("version")).first()
    if newest is not None and newest["version"] is not None:
        check_version(f"a row of {FOLDERS[record]!r}", newest["version"], record)
