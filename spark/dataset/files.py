"""The files of a data set: finding them, and checking each before Spark is let loose on them.

Spark names a broken file deep inside a stack trace, or not at all; looking at the footers and a
few small columns first costs a millisecond a file and gives an error that names file and column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
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
from spark.dataset.rules import Record
from spark.errors import DatasetError

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

#: A data set of fewer rows is analysed before a compiler that optimises has paid for itself.
BRIEF_ROWS = 3_000_000
_SHORT = 32  #: characters; writers cut statistics off at 64 or more
THREADS = 8  #: that look at files; most of the time is spent outside of Python


def find_partitions(directory: Path, record: Record) -> list[Path]:
    """Return the files of a table in partitions, sorted; there may be none."""
    return sorted((directory / FOLDERS[record]).glob(f"scenario=*/nodes=*/[!._]*{PARQUET}"))


def find_files(directory: Path, record: Record, *, skip_foreign: bool = False) -> list[Path]:
    """Return the files of ``directory`` that hold rows of ``record``, sorted; never empty.

    Names that start with a dot or an underscore belong to writers at work and are passed over; so
    is what is no data, if that is asked for.

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
    for path in found if not skip_foreign else ():
        if _is_foreign(path):
            raise DatasetError(
                f"{path} is no {PARQUET} or {JSON_LINES} file: move it out of the data set"
            )
    return [path for path in found if not _is_foreign(path)]


def _is_foreign(path: Path) -> bool:
    return not path.is_file() or path.suffix not in (PARQUET, JSON_LINES)


@dataclass(frozen=True, slots=True)
class DatasetFiles:
    """A data set whose files have all been checked."""

    directory: Path
    runs: list[Path]
    incidents: list[Path]
    probes: list[Path] = field(default_factory=list)
    skipped: tuple[str, ...] = ()  #: names of files that are left out, with the folder of each
    skip_broken: bool = False  #: whether rows that break a rule are left out too
    rows: int = 0  #: of all files


def check_dataset(directory: Path, *, skip_broken: bool = False) -> DatasetFiles:
    """Find and check all files of the data set in ``directory``.

    Args:
        directory: The data set.
        skip_broken: Leave out files that cannot be read. With a file go those of the same name in
            the other folders: a run without its incidents would look like one without failures.

    Raises:
        DatasetError: A folder, file, column or line is missing, broken or of another version; or,
            with ``skip_broken``, nothing is left.
    """
    found: dict[Record, list[Path]] = {
        record: find_files(directory, record, skip_foreign=skip_broken)
        for record in (Run, Incident)
    }
    found[Probe] = find_partitions(directory, Probe)
    broken: dict[Path, str] = {}
    rows = 0
    for path, seen in _looked_at(found):
        if isinstance(seen, int):
            rows += seen
        elif skip_broken:
            broken[path] = str(seen)
        else:
            raise DatasetError(f"{seen}; or leave it out with --skip-broken") from seen
    for path in _without_incidents(found[Run], found[Incident]):
        words = (
            f"{path} has no file of incidents of the same name: what failed in that run is "
            "missing; write the run again, or remove it"
        )
        if not skip_broken:
            raise DatasetError(f"{words}; or leave it out with --skip-broken")
        broken.setdefault(path, words)
    names = {path.name for path in broken}
    left = {r: [path for path in paths if path.name not in names] for r, paths in found.items()}
    if broken and not (left[Run] and left[Incident]):
        raise DatasetError(f"nothing is left of {directory}: {next(iter(broken.values()))}")
    out = [path for record, paths in found.items() for path in paths if path not in left[record]]
    for record in (Run, Incident):
        out += filter(_is_foreign, (directory / FOLDERS[record]).glob("[!._]*"))
    skipped = tuple(sorted(str(path.relative_to(directory)) for path in out))
    return DatasetFiles(
        directory, left[Run], left[Incident], left[Probe], skipped, skip_broken, rows
    )


def _looked_at(found: Mapping[Record, list[Path]]) -> Iterator[tuple[Path, int | DatasetError]]:
    """Yield each file with its number of rows, or with what is wrong with it; many at once."""

    def look(place: tuple[Path, Record]) -> tuple[Path, int | DatasetError]:
        path, record = place
        try:
            return path, check_file(path, record)
        except DatasetError as error:
            return path, error

    places = [(path, record) for record, paths in found.items() for path in paths]
    with ThreadPoolExecutor(THREADS) as pool:
        yield from pool.map(look, places)


def _without_incidents(runs: list[Path], incidents: list[Path]) -> list[Path]:
    """Return the files of one simulated run, named by it, that have no file of incidents.

    A run without failures has one, with no rows. Files that were put together have other names.
    """
    there = {path.name for path in incidents}
    lonely = [path for path in runs if path.suffix == PARQUET and path.name not in there]
    return [path for path in lonely if _runs_in(path) == [path.stem]]


def _runs_in(path: Path) -> list[str] | None:
    try:
        found: list[str] = pq.ParquetFile(path).read(["run_id"]).column("run_id").to_pylist()
    except (pa.ArrowException, OSError):
        return None  # it is broken, and was named already
    return found


def check_file(path: Path, record: Record) -> int:
    """Check that every row of ``path`` can be read as ``record``, and return how many there are.

    Raises:
        DatasetError: It cannot; the text names the file and the column or line.
    """
    try:
        if path.suffix == PARQUET:
            return _check_parquet(path, record)
        return _check_json_lines(path, record)
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


def _check_parquet(path: Path, record: Record) -> int:
    try:
        with pq.ParquetFile(path) as file:
            found = file.schema_arrow
            is_older = False
            if "schema_version" in found.names:
                versions = _distinct(file, "schema_version")
                for version in versions:
                    check_version(str(path), version, record)
                is_older = bool(versions) and VERSIONS[record] not in versions
            for column in columns(record):
                if column.name not in found.names:
                    if is_older and column.nullable:
                        continue
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
            rows: int = file.metadata.num_rows
            return rows
    except PermissionError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise DatasetError(
            f"{path} is no whole Parquet file: write it again, or remove it"
        ) from error


def _distinct(file: pq.ParquetFile, column: str) -> list[object]:
    """Return the values of a column, which is not decoded where its statistics name the only one.

    Statistics of texts may be cut off, so they count only if they are short.
    """
    footer = file.metadata
    at = file.schema_arrow.names.index(column)
    if not footer.num_rows:
        return []
    if footer.num_columns > at and footer.schema.column(at).path == column:
        told = {_only(footer.row_group(group).column(at)) for group in range(footer.num_row_groups)}
        if len(told) == 1 and None not in told:
            return list(told)
    values: list[object] = file.read([column]).column(column).unique().to_pylist()
    return values


def _only(chunk: pq.ColumnChunkMetaData) -> object:
    """Return the one value of a chunk; None: it has several, or nobody knows."""
    known = chunk.statistics
    if known is None or not known.has_min_max or not known.has_null_count or known.null_count:
        return None
    is_whole = known.min == known.max and len(str(known.min)) <= _SHORT
    return known.min if is_whole else None


class _Versioned(msgspec.Struct):
    schema_version: int


def _check_json_lines(path: Path, record: Record) -> int:
    version = msgspec.json.Decoder(_Versioned)
    whole: msgspec.json.Decoder[Run | Incident | Probe | Traffic] = msgspec.json.Decoder(record)
    rows = 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                rows += 1
                said = version.decode(line).schema_version
                check_version(f"line {number} of {path}", said, record)
                if said == VERSIONS[record]:
                    whole.decode(line)
                else:
                    absent = dict.fromkeys(c.name for c in columns(record) if c.nullable)
                    msgspec.convert({**absent, **msgspec.json.decode(line)}, record)
            except msgspec.ValidationError as error:
                raise DatasetError(f"line {number} of {path}: {error}") from error
            except msgspec.DecodeError as error:
                raise DatasetError(
                    f"line {number} of {path} is broken or cut off: remove that line"
                ) from error
    return rows


def check_version(where: str, version: object, record: Record) -> None:
    """Check that rows of a version can be read: those that this chordal knows, and older ones.

    Raises:
        DatasetError: They cannot; the text begins with ``where``.
    """
    known = VERSIONS[record]
    if isinstance(version, int) and version > known:
        raise DatasetError(
            f"{where} has schema version {version}, and this chordal reads versions up to {known}: "
            "a newer chordal wrote it, so analyse it with that one"
        )
    if not isinstance(version, int) or version < 1:
        raise DatasetError(f"{where} has schema version {version}, which no chordal has written")
