"""Writes the rows of a scenario while it is played: probes and traffic, then incidents and the run.

::

    DIR/probes/scenario=NAME/nodes=N/RUN.parquet
    DIR/traffic/scenario=NAME/nodes=N/RUN.parquet
    DIR/incidents/RUN.parquet
    DIR/runs/RUN.parquet

The folders of a table with many rows are partitions, as Spark and others understand them: a query
for one scenario opens no file of another. Within a file rows are ordered by time, in groups of
:data:`GROUP_ROWS`, so that memory does not grow with the run. While it goes on, files have names
that readers pass over; they get their own when the run is done, the row of the run last. A run that
is interrupted, or finds the disk full, leaves none; what one that was killed has left goes when
another attempt at it is done.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from overlay.errors import ConfigError
from overlay.trace_schema import Probe, Traffic
from sims import dataset
from sims.scenarios.results import RunResult
from sims.unfinished import publish, unfinished

if TYPE_CHECKING:
    from typing import IO

    from pyarrow import parquet

PROBES, TRAFFIC = "probes", "traffic"
GROUP_ROWS = 20_000  #: that are in memory before they are written


class Recording:
    """The files of one run. Used with ``with``: what is not :meth:`finish`-ed leaves nothing.

    Raises:
        ConfigError: a file cannot be written; the text says why.
    """

    def __init__(self, directory: Path, scenario: str, nodes: int, run_id: str) -> None:
        dataset.prepare(directory)
        self._directory = directory
        self._folders = f"scenario={quote(scenario, safe='')}", f"nodes={nodes}"
        self._name = f"{run_id}.parquet"
        self._tables: dict[str, _Table] = {}

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        for table in self._tables.values():
            table.drop()

    def on_probe(self, probe: Probe) -> None:
        """Take what became of one event at one subscriber."""
        self._table(PROBES, Probe).add(probe)

    def on_traffic(self, traffic: Traffic) -> None:
        """Take what a broker sent in some seconds."""
        self._table(TRAFFIC, Traffic).add(traffic)

    def finish(self, result: RunResult) -> dict[str, Path]:
        """Give all files their names, and add incidents and run; returns the path of each table."""
        written = {name: table.finish() for name, table in sorted(self._tables.items())}
        run_file, incident_file = dataset.write(result, self._directory)
        return {dataset.RUNS: run_file, dataset.INCIDENTS: incident_file, **written}

    def _table(self, name: str, record: type[msgspec.Struct]) -> _Table:
        table = self._tables.get(name)
        if table is None:
            path = self._directory.joinpath(name, *self._folders, self._name)
            table = self._tables[name] = _Table(path, record)
        return table


class _Table:
    """One file that grows by groups of rows, under a name that readers pass over."""

    def __init__(self, path: Path, record: type[msgspec.Struct]) -> None:
        self._path = path
        self._unfinished = unfinished(path)
        self._schema = dataset.arrow_schema(record)
        self._rows: list[msgspec.Struct] = []
        self._file: IO[bytes] | None = None
        self._writer: parquet.ParquetWriter | None = None

    def add(self, row: msgspec.Struct) -> None:
        """Take a row; many together are written."""
        self._rows.append(row)
        if len(self._rows) >= GROUP_ROWS:
            self._write()

    def finish(self) -> Path:
        """Write what is left; the file has its own name then."""
        self._write()
        try:
            assert self._writer is not None
            assert self._file is not None
            self._writer.close()
            self._file.close()
            publish(self._unfinished, self._path)
        except OSError as error:
            raise self._unwritable(error) from error
        return self._path

    def drop(self) -> None:
        """Leave nothing of what is unfinished; a file that is finished stays."""
        if self._file is not None:
            with suppress(OSError):  # what it still holds is not wanted
                self._file.close()
        self._unfinished.unlink(missing_ok=True)

    def _write(self) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        rows, self._rows = self._rows, []
        table = pa.Table.from_pylist([msgspec.to_builtins(row) for row in rows], self._schema)
        try:
            if self._writer is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._unfinished.open("wb")
                self._writer = parquet.ParquetWriter(
                    self._file, self._schema, version="2.6", compression="zstd"
                )
            self._writer.write_table(table)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> ConfigError:
        reason = error.strerror or str(error)
        return ConfigError(f"cannot write {self._path}: {reason}; give another folder")
