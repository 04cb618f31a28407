"""The files of a data set: finding them, and checking each before Spark is let loose on them.

Spark names a broken file deep inside a stack trace, or not at all; looking at the footers and a
few small columns first costs a millisecond a file and gives an error that names file and column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from overlay.trace_schema import (
    PROBE_VERSION,
    SCHEMA_VERSION,
    TRAFFIC_VERSION,
    Incident,
    Probe,
    Run,
    Traffic,
)
from sims.dataset import INCIDENTS, RUNS
from sims.recording import PROBES, TRAFFIC
from spark.dataset.column_types import columns, holds
from spark.errors import DatasetError

Record = type[Run] | type[Incident] | type[Probe] | type[Traffic]

#: The folder that holds the rows of each kind.
FOLDERS: dict[Record, str] = {Run: RUNS, Incident: INCIDENTS, Probe: PROBES, Traffic: TRAFFIC}
#: The version that is read of each kind.
VERSIONS: dict[Record, int] = {
    Run: SCHEMA_VERSION,
    Incident: SCHEMA_VERSION,
    Probe: PROBE_VERSION,
    Traffic: TRAFFIC_VERSION,
}

PARQUET, JSON_LINES = ".parquet", ".jsonl"


def find_files(directory: Path, record: Record) -> list[Path]:
    """Return the files of ``directory`` that hold rows of ``record``, sorted; never empty.

    Names that start with a dot or an underscore belong to writers at work and are passed over.

    Raises:
        DatasetError: A folder is missing or empty, or holds something that is no data.
    """
    folder = directory / FOLDERS[record]
    if not directory.is_dir():
        raise DatasetError(
            f"no folder {directory}: give one that a simulation, a sweep or a broker's trace made"
        )
    if not folder.is_dir():
        trace = directory / "trace"
        mend = f"; the trace of a broker is in {trace}" if trace.is_dir() else ""
        raise DatasetError(f"{directory} is no data set: it has no folder {folder.name!r}{mend}")
    found = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))
    if not found:
        raise DatasetError(f"{folder} is empty: nothing was recorded yet")
    for path in found:
        if not path.is_file() or path.suffix not in (PARQUET, JSON_LINES):
            raise DatasetError(
                f"{path} is no {PARQUET} or {JSON_LINES} file: move it out of the data set"
            )
    return found


@dataclass(frozen=True, slots=True)
class DatasetFiles:
    """A data set whose files have all been checked."""

    directory: Path
    runs: list[Path]
    incidents: list[Path]


def check_dataset(directory: Path) -> DatasetFiles:
    """Find and check all files of the data set in ``directory``.

    Raises:
        DatasetError: A folder, file, column or line is missing, broken or of another version.
    """
    runs, incidents = find_files(directory, Run), find_files(directory, Incident)
    for record, paths in ((Run, runs), (Incident, incidents)):
        for path in paths:
            check_file(path, record)
    return DatasetFiles(directory, runs, incidents)


def check_file(path: Path, record: Record) -> None:
    """Check that every row of ``path`` can be read as ``record``.

    Raises:
        DatasetError: It cannot; the text names the file and the column or line.
    """
    try:
        if path.suffix == PARQUET:
            _check_parquet(path, record)
        else:
            _check_json_lines(path, record)
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror or error}") from error


def run_ids(directory: Path) -> Iterator[str]:
    """Yield the ids of the runs in the Parquet files of ``directory``, of which there may be none.

    Raises:
        DatasetError: A file is broken.
    """
    for path in sorted((directory / FOLDERS[Run]).glob(f"[!._]*{PARQUET}")):
        check_file(path, Run)
        yield from pq.ParquetFile(path).read(["run_id"]).column("run_id").to_pylist()


def _check_parquet(path: Path, record: Record) -> None:
    try:
        with pq.ParquetFile(path) as file:
            found = file.schema_arrow
            if "schema_version" in found.names:
                for version in _distinct(file, "schema_version"):
                    _check_version(str(path), version, record)
            for column in columns(record):
                if column.name not in found.names:
                    raise DatasetError(f"{path} has no column {column.name!r}")
                kind = found.field(column.name).type
                if not holds(kind, column.kind):
                    raise DatasetError(
                        f"column {column.name!r} of {path} holds {kind}, "
                        f"not {column.kind.name.lower()}"
                    )
                if column.values is not None:
                    for value in _distinct(file, column.name):
                        if value not in column.values and not (column.nullable and value is None):
                            raise DatasetError(f"column {column.name!r} of {path} holds {value!r}")
    except PermissionError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise DatasetError(
            f"{path} is no whole Parquet file: write it again, or remove it"
        ) from error


def _distinct(file: pq.ParquetFile, column: str) -> list[object]:
    values: list[object] = file.read([column]).column(column).unique().to_pylist()
    return values


class _Versioned(msgspec.Struct):
    schema_version: int


def _check_json_lines(path: Path, record: Record) -> None:
    version = msgspec.json.Decoder(_Versioned)
    whole: msgspec.json.Decoder[Run | Incident | Probe | Traffic] = msgspec.json.Decoder(record)
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                said = version.decode(line).schema_version
                _check_version(f"line {number} of {path}", said, record)
                whole.decode(line)
            except msgspec.ValidationError as error:
                raise DatasetError(f"line {number} of {path}: {error}") from error
            except msgspec.DecodeError as error:
                raise DatasetError(
                    f"line {number} of {path} is broken or cut off: remove that line"
                ) from error


def _check_version(where: str, version: object, record: Record) -> None:
    known = VERSIONS[record]
    if version != known:
        raise DatasetError(
            f"{where} has schema version {version}, this chordal reads version {known}: "
            "analyse it with the chordal that wrote it"
        )
