"""Tables with a schema that is known: checked as they come in, and as they go out.

The checks look at names and types of columns only. They start no job, so they cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from pyspark.sql import DataFrame, SparkSession

from overlay.errors import InvariantError
from spark.dataset.column_types import arrow_table, spark_schema

Row = TypeVar("Row", bound=msgspec.Struct)


def expect(frame: DataFrame, record: type[msgspec.Struct]) -> DataFrame:
    """Return ``frame`` with the columns of ``record`` alone, in its order.

    Raises:
        InvariantError: A column is missing, or has another type.
    """
    found = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    for field in spark_schema(record).fields:
        if field.name not in found:
            raise InvariantError(f"BUG: no column {field.name!r} in a table of {record.__name__}")
        if found[field.name] != (wanted := field.dataType.simpleString()):
            raise InvariantError(
                f"BUG: column {field.name!r} of {record.__name__} is {found[field.name]}, "
                f"not {wanted}"
            )
    return frame.select(*record.__struct_fields__)


def collect(frame: DataFrame, record: type[Row]) -> tuple[Row, ...]:
    """Bring a small table of ``record`` here."""
    rows = expect(frame, record).collect()
    return tuple(msgspec.convert(row.asDict(), record) for row in rows)


def table(spark: SparkSession, record: type[Row], rows: Sequence[Row]) -> DataFrame:
    """Return a few rows as a frame."""
    return spark.createDataFrame(arrow_table(record, rows), spark_schema(record))


def ordered(rows: Sequence[Row], *keys: str) -> tuple[Row, ...]:
    """Return ``rows`` sorted by the columns ``keys``; what is None comes first."""
    return tuple(
        sorted(
            rows,
            key=lambda row: tuple(
                (value is not None, value) for value in (getattr(row, key) for key in keys)
            ),
        )
    )
