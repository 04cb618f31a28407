"""Writes the rows of simulated runs into a data set, as Parquet.

The columns are the structs of :mod:`overlay.trace_schema`, field by field. A run's files hold the
same bytes whenever and wherever it is simulated, and appear whole or not at all: first the
incidents, then the run, so that a run that is there has all its incidents. :mod:`sims.recording`
has the rows that a scenario writes while it goes on.

pyarrow is an extra, and heavy; it is imported where it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import inspect

from overlay.errors import ConfigError, InvariantError, MissingExtra
from overlay.trace_schema import Incident, Run
from overlay.wording import why_no_folder
from sims.scenarios.results import RunResult
from sims.unfinished import publish, try_out, unfinished

if TYPE_CHECKING:
    import pyarrow as pa

RUNS, INCIDENTS = "runs", "incidents"


def prepare(directory: Path) -> None:
    """Make the folders of the data set, to fail before a long simulation and not after it.

    Raises:
        ConfigError: the folders cannot be made or written to, or pyarrow is missing.
    """
    _require_pyarrow()
    for folder in (directory / RUNS, directory / INCIDENTS):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            try_out(folder)
        except OSError as error:
            raise _unwritable(folder, why_no_folder(error)) from error


def write(result: RunResult, directory: Path) -> tuple[Path, Path]:
    """Write ``result`` and return the paths of its run and of its incidents.

    Files of the same run that are there already are replaced.

    Raises:
        ConfigError: the data set cannot be written, or pyarrow is missing.
    """
    prepare(directory)
    name = f"{result.run.run_id}.parquet"
    run_file, incident_file = directory / RUNS / name, directory / INCIDENTS / name
    _write_whole(incident_file, Incident, result.incidents)
    _write_whole(run_file, Run, [result.run])
    return run_file, incident_file


def arrow_schema(record: type[msgspec.Struct]) -> pa.Schema:
    """Return the columns of a table whose rows are ``record``; optional fields are nullable."""
    import pyarrow as pa

    info = inspect.type_info(record)
    if not isinstance(info, inspect.StructType):
        raise InvariantError(f"BUG: {record} is not a struct")
    return pa.schema(
        [
            pa.field(field.name, _arrow_type(field.type), isinstance(field.type, inspect.UnionType))
            for field in info.fields
        ]
    )


def _arrow_type(held: inspect.Type) -> pa.DataType:
    import pyarrow as pa

    match held:
        case inspect.StrType() | inspect.EnumType():
            return pa.string()
        case inspect.BoolType():
            return pa.bool_()
        case inspect.IntType():
            return pa.int64()
        case inspect.FloatType():
            return pa.float64()
        case inspect.VarTupleType(item_type=item):
            return pa.list_(_arrow_type(item))
        case inspect.UnionType(types=(item, inspect.NoneType())):
            return _arrow_type(item)
    raise InvariantError(f"BUG: no column type for {held}")


def _write_whole(path: Path, record: type[msgspec.Struct], rows: Sequence[msgspec.Struct]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.Table.from_pylist([msgspec.to_builtins(row) for row in rows], arrow_schema(record))
    made = unfinished(path)
    try:
        with made.open("wb") as file:
            parquet.write_table(table, file, version="2.6", compression="zstd")
        publish(made, path)
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from error
    finally:
        made.unlink(missing_ok=True)


def _unwritable(path: Path, reason: str | None) -> ConfigError:
    return ConfigError(f"cannot write {path}: {reason}; give another folder")


def _require_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtra(
            "writing a data set needs the sim extra; in a checkout: pip install '.[sim]'"
        ) from None
