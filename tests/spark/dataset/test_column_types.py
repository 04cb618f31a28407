"""Columns follow from the trace's structs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import types as sql

from overlay.trace_schema import Incident, Probe, Run, Traffic, Verdict
from sims import dataset
from spark.analysis.results import Fit, Quantiles
from spark.dataset.column_types import Kind, columns, holds, spark_schema
from spark.dataset.files import FOLDERS
from spark.dataset.rules import Record
from spark.sweep.results import Outcome

DOCS = Path(__file__).parents[3] / "docs"


def test_a_struct_becomes_a_spark_schema() -> None:
    class Row(msgspec.Struct):
        verdict: Verdict
        n: int | None
        ratio: float
        names: tuple[str, ...]

    assert spark_schema(Row) == sql.StructType(
        [
            sql.StructField("verdict", sql.StringType(), nullable=False),
            sql.StructField("n", sql.LongType(), nullable=True),
            sql.StructField("ratio", sql.DoubleType(), nullable=False),
            sql.StructField("names", sql.ArrayType(sql.StringType()), nullable=False),
        ]
    )
    assert columns(Row)[0].values == frozenset(verdict.value for verdict in Verdict)


@pytest.mark.parametrize("record", [Run, Incident, Probe, Traffic, Outcome, Quantiles, Fit])
def test_reader_and_writer_agree_on_the_columns(record: type[msgspec.Struct]) -> None:
    written, read = dataset.arrow_schema(record), columns(record)
    assert [(f.name, f.nullable) for f in written] == [(c.name, c.nullable) for c in read]
    assert [f.name for f, c in zip(written, read, strict=True) if not holds(f.type, c.kind)] == []


@pytest.mark.parametrize("record", FOLDERS)
def test_every_column_is_documented(record: Record) -> None:
    text = (DOCS / "traces.md").read_text(encoding="utf-8")
    section = text.split(f"## `{FOLDERS[record]}`")[1]
    described = section.split("\n## ")[0]
    assert [name for name in record.__struct_fields__ if f"\n| `{name}` |" not in described] == []


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (pa.large_string(), Kind.TEXT),
        (pa.dictionary(pa.int8(), pa.string()), Kind.TEXT),
        (pa.int32(), Kind.INTEGER),
        (pa.large_list(pa.string()), Kind.TEXTS),
    ],
)
def test_equal_ways_to_store_a_column_are_taken(found: pa.DataType, kind: Kind) -> None:
    assert holds(found, kind)


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (pa.int64(), Kind.TEXT),
        (pa.float64(), Kind.INTEGER),
        (pa.uint64(), Kind.INTEGER),
        (pa.null(), Kind.TEXT),
        (pa.list_(pa.int64()), Kind.TEXTS),
        (pa.string(), Kind.TEXTS),
    ],
)
def test_other_types_are_not(found: pa.DataType, kind: Kind) -> None:
    assert not holds(found, kind)
