"""What a sweep leaves behind: a data set, and beside it a record of each run that went wrong.

``runs/`` and the other folders are the data set (``docs/traces.md``). ``failed/RUN_ID.json`` says
what became of a run that could not be done (it has no row in ``runs/``) or broke a promise of its
scenario (it has one). Every file appears whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from overlay.errors import ConfigError
from sims.dataset import RUNS
from sims.unfinished import is_left_of, unfinished_name
from spark.dataset.column_types import spark_schema
from spark.dataset.files import PARQUET, run_ids
from spark.dataset.place import Place
from spark.errors import DatasetError

if TYPE_CHECKING:
    from pyarrow import fs

FAILED = "failed"
_NO_PATH = "PATH_NOT_FOUND"

#: Object stores show a file when it is complete; on others a file is moved to its name at the end.
_WHOLE_BY_NATURE = ("s3", "gcs", "abfs")


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a cell. All is well without an ``error`` and without ``broken`` promises."""

    run_id: str
    again: str  #: the command that shows it again
    seconds: float  #: that it took
    error: str | None = None  #: why there is no run
    traceback: str | None = None
    broken: tuple[str, ...] = ()  #: promises that did not hold in the run

    @property
    def is_well(self) -> bool:
        """Nothing is to be told."""
        return self.error is None and not self.broken

    @property
    def words(self) -> str:
        """What went wrong, in a line."""
        told = self.error or (self.broken[0] if self.broken else "")
        return told.splitlines()[0] if told else "for no stated reason"


# ── written by executors ──────────────────────────────────────────────────────────────────────


def publish(made: Path, place: Place, outcome: Outcome) -> None:
    """Copy the data set ``made``, of one run, into ``place``; its run comes last.

    So a run that is there has all its rows. The record of a run that went wrong comes before it,
    and goes with it when a later try went well.

    Raises:
        DatasetError: ``place`` cannot be written.
    """
    try:
        system, root = place.file_system()
        if outcome.is_well:
            _forget(system, f"{root}/{FAILED}/{outcome.run_id}.json")
        else:
            record(place, outcome)
        files = [path for path in sorted(made.rglob("*")) if path.is_file()]
        for path in sorted(files, key=lambda path: path.parent.name == RUNS):
            target = f"{root}/{path.relative_to(made).as_posix()}"
            _write_whole(system, target, path.read_bytes())
    except OSError as error:
        raise DatasetError(f"cannot write {place}: {error.strerror or error}") from error


def record(place: Place, outcome: Outcome) -> None:
    """Write down what went wrong with a run.

    Raises:
        DatasetError: ``place`` cannot be written.
    """
    system, root = place.file_system()
    try:
        _write_whole(system, f"{root}/{FAILED}/{outcome.run_id}.json", msgspec.json.encode(outcome))
    except OSError as error:
        raise DatasetError(f"cannot write {place}: {error.strerror or error}") from error


def _write_whole(system: fs.FileSystem, target: str, content: bytes) -> None:
    folder, _, name = target.rpartition("/")
    system.create_dir(folder, recursive=True)
    if system.type_name in _WHOLE_BY_NATURE:
        with system.open_output_stream(target) as stream:
            stream.write(content)
        return
    unfinished = f"{folder}/{unfinished_name(name)}"
    try:
        with system.open_output_stream(unfinished) as stream:
            stream.write(content)
        system.move(unfinished, target)
    except OSError as error:
        with suppress(OSError):  # a full disk is to have it back
            system.delete_file(unfinished)
        was_faster = isinstance(error, FileNotFoundError) and _is_there(system, target)
        if not was_faster:  # another attempt at the same
            raise
    _forget_left(system, folder, name)


def _forget_left(system: fs.FileSystem, folder: str, name: str) -> None:
    """Remove what other attempts at a file have left; each removes what is there."""
    from pyarrow import fs

    for found in system.get_file_info(fs.FileSelector(folder)):
        if is_left_of(name, found.base_name):
            with suppress(FileNotFoundError):
                system.delete_file(found.path)


def _is_there(system: fs.FileSystem, target: str) -> bool:
    from pyarrow import fs

    return system.get_file_info(target).type is not fs.FileType.NotFound


def _forget(system: fs.FileSystem, target: str) -> None:
    if _is_there(system, target):
        with suppress(FileNotFoundError):
            system.delete_file(target)


# ── read by the driver ────────────────────────────────────────────────────────────────────────


def runs_there(place: Place, spark: SparkSession | None) -> frozenset[str]:
    """Return the ids of the runs in a data set, which may not be there yet.

    A URL is read by Spark alone; a folder needs no session.

    Raises:
        DatasetError: A file is broken.
    """
    if place.path is not None:
        return frozenset(run_ids(place.path))
    if spark is None:
        raise ConfigError(f"BUG: {place} is for Spark to read")
    try:
        read = spark.read.schema("run_id string").parquet(place.address(RUNS))
        return frozenset(row["run_id"] for row in read.collect())
    except AnalysisException as error:
        if error.getCondition() == _NO_PATH:
            return frozenset()
        raise


def failures_there(place: Place, spark: SparkSession | None) -> Iterator[Outcome]:
    """Yield what was recorded of runs that went wrong.

    Raises:
        DatasetError: A record is broken.
    """
    if place.path is not None:
        for path in sorted((place.path / FAILED).glob(f"[!.]*{'.json'}")):
            try:
                yield msgspec.json.decode(path.read_bytes(), type=Outcome)
            except (msgspec.DecodeError, OSError) as error:
                raise DatasetError(f"{path} is no record of a run: remove it") from error
        return
    if spark is None:
        raise ConfigError(f"BUG: {place} is for Spark to read")
    try:
        read = spark.read.schema(spark_schema(Outcome)).json(place.address(FAILED))
        for row in read.collect():
            yield msgspec.convert(row.asDict(), Outcome)
    except AnalysisException as error:
        if error.getCondition() != _NO_PATH:
            raise


def run_file(place: Path, run_id: str) -> Path:
    """Return the path of a run in a folder."""
    return place / RUNS / f"{run_id}{PARQUET}"
