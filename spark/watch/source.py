"""Traces that brokers are still writing, as a stream for Spark.

Spark's own file source reads each file once, when it appears; a broker appends to one file for as
long as it lives. So this source follows bytes: its offset is how far each file has been read, and
a batch is what lies between two offsets, whole lines only. Spark keeps the offsets in its
checkpoint, and after a crash asks for the same bytes again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import types as sql
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from overlay.trace_schema import MOMENTS, SCHEMA_VERSION, Incident, Run
from sims.dataset import INCIDENTS, RUNS
from spark.dataset.column_types import arrow_table, spark_schema
from spark.dataset.files import JSON_LINES
from spark.errors import DatasetError

FORMAT = "chordal_trace"
FOLDERS = "folders"  #: option: a JSON list of folders to look into
MAX_BYTES = 16 * 1024 * 1024  #: of a file in one batch
MAX_FILES = 10_000

# A trace is the folder itself, that of a broker's data directory, or that of one of several.
_PLACES = ("", "trace", "*", "*/trace")
_TIMES = ("failed_ns", *MOMENTS)


class Seen(Incident, frozen=True, kw_only=True):
    """An incident, and when its last event was: nanoseconds since 1970."""

    ended_unix_ns: int


class _Versioned(msgspec.Struct):
    schema_version: int


class TraceSource(DataSource):
    """The source, as Spark knows it."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> sql.StructType:
        """Return the columns of :class:`Seen`."""
        return spark_schema(Seen)

    def streamReader(self, schema: sql.StructType) -> TraceReader:  # noqa: N802 - as Spark calls it
        """Return what follows the files."""
        return TraceReader(json.loads(self.options[FOLDERS]))


@dataclass(frozen=True)
class Piece(InputPartition):
    """Some whole lines of a file: bytes from ``start`` up to ``end``."""

    path: str
    start: int
    end: int


class TraceReader(DataSourceStreamReader):
    """Follows the files; an offset is how many bytes of each were read."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = tuple(folders)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the offset before anything was read."""
        return {}

    def latestOffset(self, start: Mapping[str, int], limit: object) -> dict[str, int]:  # noqa: N802
        """Return how far whole lines go by now.

        Raises:
            DatasetError: A file is shorter than what was read of it, or has an endless line.
        """
        return {
            **start,
            **{path: _whole(Path(path), start.get(path, 0)) for path in files(self._folders)},
        }

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[Piece]:
        """Return a piece for each file that has grown."""
        return [
            Piece(path, start.get(path, 0), upto)
            for path, upto in end.items()
            if upto > start.get(path, 0)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the incidents of a piece, as :class:`Seen`.

        Raises:
            DatasetError: A line is broken, or of another version.
        """
        assert isinstance(partition, Piece)
        yield from arrow_table(Seen, list(read_piece(partition))).to_batches()


def files(folders: Sequence[str]) -> list[str]:
    """Return the files with incidents of all brokers in ``folders``.

    Raises:
        DatasetError: There are too many to be followed.
    """
    found = sorted(
        {
            str(path)
            for folder in folders
            for place in _PLACES
            for path in Path(folder).glob(f"{place}/{INCIDENTS}/[!._]*{JSON_LINES}".lstrip("/"))
        }
    )
    if len(found) > MAX_FILES:
        raise DatasetError(f"{len(found)} files with incidents; at most {MAX_FILES} are followed")
    return found


def read_piece(piece: Piece) -> Iterator[Seen]:
    """Yield the incidents of a piece.

    Raises:
        DatasetError: A line is broken, or of another version; the text names it.
    """
    path = Path(piece.path)
    with path.open("rb") as file:
        file.seek(piece.start)
        lines = file.read(piece.end - piece.start).splitlines()
    started = _started_unix_ns(path)
    for line in lines:
        if line.strip():
            incident = _incident(path, line)
            times = [at for name in _TIMES if (at := getattr(incident, name)) is not None]
            ended = time.time_ns() if started is None else started + max(times, default=0)
            yield Seen(ended_unix_ns=ended, **msgspec.structs.asdict(incident))


def _whole(path: Path, start: int) -> int:
    """Return where the last whole line ends that begins after ``start``, within a batch."""
    size = path.stat().st_size
    if size < start:
        raise DatasetError(
            f"{path} is shorter than what was read of it: give another --checkpoint to begin anew"
        )
    with path.open("rb") as file:
        file.seek(start)
        data = file.read(MAX_BYTES)
    if (end := data.rfind(b"\n")) < 0:
        if len(data) == MAX_BYTES:
            raise DatasetError(f"{path} has a line of more than {MAX_BYTES} bytes")
        return start
    return start + end + 1


def _started_unix_ns(path: Path) -> int | None:
    """Return when the broker's life began; its run is in the file of the same name.

    Raises:
        DatasetError: The file is there, and cannot be read now: a guess would be kept for ever.
    """
    try:
        with (path.parent.parent / RUNS / path.name).open("rb") as lines:
            return msgspec.json.decode(lines.readline(), type=Run).started_unix_ns
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
    except OSError as error:
        raise DatasetError(f"{path.parent.parent / RUNS / path.name}: {error.strerror}") from error


def _incident(path: Path, line: bytes) -> Incident:
    try:
        version = msgspec.json.decode(line, type=_Versioned).schema_version
        if version > SCHEMA_VERSION:
            raise DatasetError(
                f"{path} has schema version {version}, this chordal reads up to {SCHEMA_VERSION}: "
                "watch it with the chordal that writes it"
            )
        return msgspec.json.decode(line, type=Incident)
    except msgspec.MsgspecError as error:
        raise DatasetError(f"{path} has a broken line: {error}") from error
