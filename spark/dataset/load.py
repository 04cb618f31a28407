"""Loading a data set: checked tables, whichever mix of files they come from.

A data set in a folder has been looked at before (``files``), file by file. One at a URL that Spark
alone understands (``hdfs://...``, ``s3a://...``) is never opened here. Spark checks the rules of
rows (``rules``), in one aggregation a table, whichever door they come through.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql import types as sql

from overlay.trace_schema import Fate, Incident, Probe, Run, Verdict, Why
from overlay.wording import counted
from sims.dataset import arrow_schema
from spark.dataset.column_types import columns, spark_schema
from spark.dataset.files import (
    FOLDERS,
    JSON_LINES,
    PARQUET,
    THREADS,
    VERSIONS,
    DatasetFiles,
    check_version,
)
from spark.dataset.rules import KEYS, Record, Rule, rules
from spark.errors import DatasetError

MANY = 16  #: files
GATHERED_BYTES = 2**26  #: of many small files, as they are on disk

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
    probes: DataFrame | None  #: with ``scenario`` and ``nodes``; None where there are none
    #: What was counted of each run while its rows were checked (:func:`check`).
    told: Mapping[Record, pa.Table]
    skipped: tuple[str, ...]  #: files that are left out, and kinds of rows


def is_url(place: str) -> bool:
    """Say whether a data set is named by a URL, which is for Spark to open."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", place) is not None


def load(spark: SparkSession, files: DatasetFiles) -> Dataset:
    """Read a data set whose files were checked.

    Raises:
        DatasetError: A row breaks a rule, or is in the data set twice.
    """
    runs, incidents = (
        _read(spark, paths, record, gathers=True)
        for paths, record in ((files.runs, Run), (files.incidents, Incident))
    )
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
    how = str(files.directory), files.skip_broken, files.skipped
    try:
        return _checked(runs, incidents, probes, *how)
    except DatasetError:
        if not (_are_many(files.runs) or _are_many(files.incidents)):
            raise
    # Rows that were gathered do not know their file, and the error is to name it.
    runs, incidents = _read(spark, files.runs, Run), _read(spark, files.incidents, Incident)
    return _checked(runs, incidents, probes, *how)


def load_url(spark: SparkSession, url: str, *, skip_broken: bool = False) -> Dataset:
    """Read the data set at a URL of Spark's; with ``skip_broken``, without what is broken in it.

    Raises:
        DatasetError: A table or a column is missing, a row breaks a rule or is of a newer version,
            or is there twice.
    """
    place = url.rstrip("/")
    runs, incidents = (_at_url(spark, place, record, skip_broken) for record in (Run, Incident))
    reader = spark.read.schema(partitioned_schema(Probe)).option("ignoreCorruptFiles", skip_broken)
    try:
        probes = reader.parquet(f"{place}/{FOLDERS[Probe]}")
        _look(probes)
    except AnalysisException:
        probes = None
    return _checked(runs, incidents, probes, url, skip_broken)


def of_scenarios(data: Dataset, names: Sequence[str]) -> Dataset:
    """Return what some scenarios left; no file of probes of another one is opened."""
    runs = data.runs.where(fn.col("scenario").isin(*names))
    incidents = data.incidents.join(runs.select("run_id"), "run_id", "left_semi")
    probes = data.probes.where(fn.col("scenario").isin(*names)) if data.probes else None
    own = runs.select("run_id").toArrow().column("run_id").combine_chunks()
    told = {
        record: table.filter(pc.is_in(table.column("run_id"), own))
        for record, table in data.told.items()
    }
    return replace(data, runs=runs, incidents=incidents, probes=probes, told=told)


def partitioned_schema(record: Record) -> sql.StructType:
    """Return the Spark schema of a table in partitions."""
    return sql.StructType([*spark_schema(record).fields, *PARTITIONS])


def address(path: Path) -> str:
    """Return ``path`` as Spark takes it: on the file system, with nothing left to expand."""
    return "file://" + re.sub(r"([\[\]{}*?\\])", r"\\\1", str(path.resolve()))


def _checked(
    runs: DataFrame,
    incidents: DataFrame,
    probes: DataFrame | None,
    place: str,
    skip_broken: bool,
    skipped: tuple[str, ...] = (),
) -> Dataset:
    """Return the data set without what breaks a rule, or raise, if that is not asked for."""
    frames: dict[Record, DataFrame] = {Run: runs, Incident: incidents}
    if probes is not None:
        frames[Probe] = probes
    told: dict[Record, pa.Table] = {}
    out: list[str] = []
    for record, frame in frames.items():
        frames[record], told[record], more = check(frame, record, place, skip_broken=skip_broken)
        out += more
    return Dataset(frames[Run], frames[Incident], frames.get(Probe), told, (*skipped, *out))


def check(
    frame: DataFrame, record: Record, place: str, *, skip_broken: bool = False
) -> tuple[DataFrame, pa.Table, list[str]]:
    """Check all rows: their version, their rules, and that none is there twice.

    Returns the rows, without those that break a rule if these are to be left out; what was counted
    of each run (of its incidents and probes more than the number of its ``rows``); and what was
    left out.

    Raises:
        DatasetError: A row breaks a rule, is of a version that is not read, or is there twice; the
            text names its file and its key.
    """
    out: list[str] = []
    told = _told(frame, record)
    if _sum(told, "broken"):
        frame, out = _mended(frame, record, place, skip_broken=skip_broken)
        told = _told(frame, record)
    if _sum(told, "rows") > (len(told) if record is Run else _keys(frame, record)):
        _check_unique(frame, record, place)
    return frame, told, out


def _told(frame: DataFrame, record: Record) -> pa.Table:
    """Return a row a run: how many rows it has, how many are broken, and more of its incidents."""
    broken = [rule.broken for rule in rules(record)]
    broken.append(f"schema_version NOT BETWEEN 1 AND {VERSIONS[record]}")
    counts = [
        fn.count("*").alias("rows"),
        fn.count_if(fn.expr(" OR ".join(f"({each})" for each in broken))).alias("broken"),
    ]
    by = ["run_id"]
    if record is Incident:
        lost = fn.col("records_lost")
        counts += [fn.count(name).alias(name) for name in ("level", "records_lost")]
        counts += [fn.count_if(lost > 0).alias("costly"), fn.sum(lost).alias("lost")]
        counts += [fn.count_if(fn.col("verdict") == each).alias(each) for each in Verdict]
    elif record is Probe:
        by.append("link_class")
        counts += [fn.count_if(fn.col("fate") == each).alias(each) for each in Fate]
        unexplained = (fn.col("fate") == Fate.LOST) & (fn.col("why") == Why.UNEXPLAINED)
        counts += [
            fn.count_if(unexplained).alias("unexplained"),
            fn.count_if("is_late").alias("late"),
        ]
    return frame.groupBy(*by).agg(*counts).toArrow().combine_chunks()


def _keys(frame: DataFrame, record: Record) -> int:
    """Return how many keys there are, or fewer: the hashes of some may be the same.

    In the aggregation of :func:`_told` this would cost twice as much as apart.
    """
    return frame.select(fn.xxhash64(*KEYS[record])).distinct().count()


def _sum(told: pa.Table, column: str) -> int:
    return int(pc.sum(told.column(column)).as_py() or 0)


def _mended(
    frame: DataFrame, record: Record, place: str, *, skip_broken: bool
) -> tuple[DataFrame, list[str]]:
    """Return a frame without the rows that break a rule, and say what is left out; or raise."""
    known = rules(record)
    found = frame.agg(
        fn.max("schema_version").alias("newest"),
        fn.min("schema_version").alias("oldest"),
        *(fn.count_if(fn.expr(rule.broken)).alias(f"rule_{at}") for at, rule in enumerate(known)),
    ).collect()[0]
    for version in (found["newest"], found["oldest"]):
        if version is not None:
            check_version(f"a row of {FOLDERS[record]!r}", version, record)
    out = []
    for at, rule in enumerate(known):
        if not (count := found[f"rule_{at}"]):
            continue
        if not skip_broken:
            _refuse(frame, record, place, rule, count)
        out.append(f"{counted(count, 'row')} of {FOLDERS[record]}: {rule.words}")
        frame = frame.where(fn.coalesce(~fn.expr(rule.broken), fn.lit(True)))
    return frame, out


def _refuse(frame: DataFrame, record: Record, place: str, rule: Rule, count: int) -> None:
    """Name the first row that breaks a rule, and its file."""
    first = (
        frame.where(fn.expr(rule.broken))
        .select(*KEYS[record], fn.input_file_name().alias("file"))
        .orderBy("file", *KEYS[record])
        .first()
    )
    assert first is not None
    named = ", ".join(f"{name} {first[name]!r}" for name in KEYS[record])
    more = f", as of {count - 1:,} more" if count > 1 else ""
    raise DatasetError(
        f"{unquote(first['file']).removeprefix('file://') or place}: {rule.words} in the row of "
        f"{named}{more}; mend it, or leave it out with --skip-broken"
    )


def _check_unique(frame: DataFrame, record: Record, place: str) -> None:
    """Name the first row that is there twice; none may be, as hashes of two may be the same."""
    keys = KEYS[record]
    twice = frame.groupBy(*keys).count().where(fn.col("count") > 1).orderBy(*keys).first()
    if twice is None:
        return
    what = FOLDERS[record].removesuffix("s")
    named = ", ".join(repr(twice[name]) for name in keys if twice[name] is not None)
    mend = "remove the copies"
    if record is Run:
        mend += ", and those of its incidents"
    raise DatasetError(f"{what} {named} is in {place} {twice['count']} times: {mend}")


def _read(
    spark: SparkSession, files: list[Path], record: Record, *, gathers: bool = False
) -> DataFrame:
    reader = spark.read.schema(spark_schema(record)).option("mode", "FAILFAST")
    frames = []
    parquet = [path for path in files if path.suffix == PARQUET]
    if gathers and _are_many(parquet):
        frames.append(_gathered(spark, parquet, record))
    elif parquet:
        frames.append(reader.parquet(*map(address, parquet)))
    if lines := [address(path) for path in files if path.suffix == JSON_LINES]:
        frames.append(reader.json(lines))
    return reduce(DataFrame.unionByName, frames)


def _are_many(files: list[Path]) -> bool:
    """Say whether files are many, and small: each pass of Spark would open all of them again."""
    return len(files) > MANY and sum(path.stat().st_size for path in files) < GATHERED_BYTES


def _gathered(spark: SparkSession, files: list[Path], record: Record) -> DataFrame:
    """Return the rows of many small Parquet files, read once, here."""
    nullable = [field.with_nullable(True) for field in arrow_schema(record)]

    def rows(path: Path) -> pa.Table:
        table = pq.ParquetFile(path).read()
        there = set(table.column_names)
        return pa.table(
            {
                field.name: table.column(field.name).cast(field.type)
                if field.name in there
                else pa.nulls(len(table), field.type)
                for field in nullable
            }
        )

    with ThreadPoolExecutor(THREADS) as pool:
        table = pa.concat_tables(pool.map(rows, files)).combine_chunks()
    schema = sql.StructType(
        [sql.StructField(f.name, f.dataType) for f in spark_schema(record).fields]
    )
    return spark.createDataFrame(table, schema)


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
        _check_columns(spark, folder, record)
    except AnalysisException as error:
        raise DatasetError(f"{place} is no data set: {folder} cannot be read") from error
    return whole.unionByName(lines)


def _check_columns(spark: SparkSession, folder: str, record: Record) -> None:
    """Check that Parquet files have all columns: a reader that is told a schema fills in nulls.

    Those that have a default were not in the first version, and may be missing.
    """
    later = {field.name for field in msgspec.structs.fields(record) if not field.required}
    try:
        there = spark.read.option("pathGlobFilter", f"*{PARQUET}").option("mergeSchema", True)
        names = there.parquet(folder).columns
    except AnalysisException:
        return  # there are lines of JSON alone
    for column in columns(record):
        if column.name not in names and column.name not in later:
            raise DatasetError(f"{folder} has no column {column.name!r}")


def _look(frame: DataFrame) -> None:
    """Let Spark find out whether the files are there; over Spark Connect it waits until asked."""
    len(frame.columns)
