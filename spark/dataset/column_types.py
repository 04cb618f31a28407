"""Column types of a table, derived from the struct that defines its rows.

The trace's structs (``overlay.trace_schema``) say once what a row holds; what Spark needs to know
of it, and what a file's columns must be, follows from them. For Arrow ``sims.dataset`` does the
same.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import cache

import msgspec
import pyarrow as pa
from msgspec import inspect
from pyspark.sql import types as sql

from overlay.errors import InvariantError
from sims.dataset import arrow_schema


class Kind(enum.Enum):
    """What a column holds."""

    TEXT = enum.auto()
    INTEGER = enum.auto()
    REAL = enum.auto()
    YES_OR_NO = enum.auto()
    TEXTS = enum.auto()  #: a list of texts
    REALS = enum.auto()  #: a list of reals


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One column: ``values`` are the only ones allowed, or None if any is."""

    name: str
    kind: Kind
    nullable: bool
    values: frozenset[str] | None = None


@cache
def columns(record: type[msgspec.Struct]) -> tuple[Column, ...]:
    """Return the columns of a table whose rows are ``record``, in the struct's order."""
    info = inspect.type_info(record)
    if not isinstance(info, inspect.StructType):
        raise InvariantError(f"BUG: {record} is not a struct")
    return tuple(_column(field) for field in info.fields)


def _column(field: inspect.Field) -> Column:
    match field.type:
        case inspect.UnionType(types=options):
            held = [option for option in options if not isinstance(option, inspect.NoneType)]
            nullable = len(held) < len(options)
        case other:
            held, nullable = [other], False
    match held:
        case [inspect.EnumType(cls=values)]:
            allowed = frozenset(str(value) for value in values)
            return Column(name=field.name, kind=Kind.TEXT, nullable=nullable, values=allowed)
        case [kind]:
            return Column(name=field.name, kind=_kind(field.name, kind), nullable=nullable)
    raise InvariantError(f"BUG: column {field.name} holds several types")


def _kind(name: str, held: inspect.Type) -> Kind:
    match held:
        case inspect.StrType():
            return Kind.TEXT
        case inspect.IntType():
            return Kind.INTEGER
        case inspect.FloatType():
            return Kind.REAL
        case inspect.BoolType():
            return Kind.YES_OR_NO
        case inspect.VarTupleType(item_type=inspect.StrType()):
            return Kind.TEXTS
        case inspect.VarTupleType(item_type=inspect.FloatType()):
            return Kind.REALS
    raise InvariantError(f"BUG: no column type for {name}: {held}")


_SPARK: dict[Kind, sql.DataType] = {
    Kind.TEXT: sql.StringType(),
    Kind.INTEGER: sql.LongType(),
    Kind.REAL: sql.DoubleType(),
    Kind.YES_OR_NO: sql.BooleanType(),
    Kind.TEXTS: sql.ArrayType(sql.StringType()),
    Kind.REALS: sql.ArrayType(sql.DoubleType()),
}


def spark_schema(record: type[msgspec.Struct]) -> sql.StructType:
    """Return the Spark schema of a table of ``record``."""
    return sql.StructType(
        [sql.StructField(c.name, _SPARK[c.kind], c.nullable) for c in columns(record)]
    )


def arrow_table(record: type[msgspec.Struct], rows: Sequence[msgspec.Struct]) -> pa.Table:
    """Return ``rows``, all of type ``record``, as an Arrow table."""
    return pa.Table.from_pylist(
        [msgspec.to_builtins(row) for row in rows], schema=arrow_schema(record)
    )


def holds(found: pa.DataType, kind: Kind) -> bool:
    """Tell whether a file's column of type ``found`` can be read as ``kind``."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    match kind:
        case Kind.TEXT:
            return bool(pa.types.is_string(found) or pa.types.is_large_string(found))
        case Kind.INTEGER:
            return bool(pa.types.is_signed_integer(found))
        case Kind.REAL:
            return bool(pa.types.is_floating(found))
        case Kind.YES_OR_NO:
            return bool(pa.types.is_boolean(found))
        case Kind.TEXTS | Kind.REALS:
            item = Kind.TEXT if kind is Kind.TEXTS else Kind.REAL
            is_list = pa.types.is_list(found) or pa.types.is_large_list(found)
            return bool(is_list and holds(found.value_type, item))
