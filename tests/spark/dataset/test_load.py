"""Data sets as Spark sees them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from overlay.trace_schema import Incident
from spark.dataset.files import check_dataset
from spark.dataset.load import load
from spark.errors import DatasetError
from tests.spark import rows

pytestmark = pytest.mark.spark


def test_parquet_and_json_lines_are_read_alike(spark: SparkSession, tmp_path: Path) -> None:
    directory = tmp_path / "odd [name] {of} a*folder"
    written = [
        rows.incident("sim", observer=None),
        rows.incident("live", observer="me", failed_ns=None, witnesses=()),
    ]
    rows.write_parquet(directory, rows.run("sim"), [written[0]])
    rows.write_json(directory, rows.run("live", source="live", nodes=None), [written[1]])
    data = load(spark, check_dataset(directory))
    read = [
        msgspec.convert(row.asDict(), Incident)
        for row in data.incidents.orderBy("run_id", ascending=False).collect()
    ]
    assert read == written
    assert sorted(row.run_id for row in data.runs.collect()) == ["live", "sim"]


def test_a_run_that_is_there_twice_is_named(spark: SparkSession, tmp_path: Path) -> None:
    rows.write_parquet(tmp_path, rows.run("twice"), [rows.incident("twice")])
    rows.write_json(tmp_path, rows.run("twice"), [rows.incident("twice")])
    with pytest.raises(DatasetError, match="'twice'"):
        load(spark, check_dataset(tmp_path))
