"""Data sets as Spark sees them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as sql

from overlay.trace_schema import Incident, Probe, Run, Traffic
from spark.dataset.column_types import Kind, columns, spark_schema
from spark.dataset.files import FOLDERS, check_dataset
from spark.dataset.load import MANY, check, load, load_url
from spark.dataset.partitions import load_partitions
from spark.dataset.rules import LARGEST, MAX_BROKERS, Record
from spark.errors import DatasetError
from tests.helpers import rows as helper_rows
from tests.spark import rows
from tests.spark.study import write_rows

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


def test_an_incident_that_is_there_twice_is_named_and_one_of_two_observers_is_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    live = rows.run("live", source="live", nodes=None)
    seen = [rows.incident("live", 1, observer=name) for name in ("a", "b")]
    rows.write_json(tmp_path, live, seen)
    assert load(spark, check_dataset(tmp_path)).incidents.count() == 2
    there = tmp_path / "incidents" / "live.jsonl"
    there.with_name("copy.jsonl").write_bytes(there.read_bytes())
    with pytest.raises(DatasetError, match=r"incident 'live', 'u1/1', 'a' is in .* 2 times"):
        load(spark, check_dataset(tmp_path))


@pytest.mark.parametrize("record", [Probe, Traffic])
def test_probes_and_traffic_have_keys_as_well(
    spark: SparkSession, tmp_path: Path, record: type[Probe] | type[Traffic]
) -> None:
    row = helper_rows.probe() if record is Probe else helper_rows.traffic()
    folder = tmp_path / FOLDERS[record] / "scenario=crash" / "nodes=64"
    write_rows(folder / "one.parquet", record, [row])
    assert load_partitions(spark, tmp_path, record).count() == 1
    write_rows(folder / "two.parquet", record, [row])
    with pytest.raises(DatasetError, match=f"{FOLDERS[record].removesuffix('s')} 'r', .* 2 times"):
        load_partitions(spark, tmp_path, record)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nodes": 0}, "runs/r1.parquet: nodes is not between 1 and"),
        ({"duration_ns": -1}, "runs/r1.parquet: duration_ns is not between 0 and"),
    ],
)
def test_a_row_that_makes_no_sense_is_refused_with_its_file_and_key(
    spark: SparkSession, tmp_path: Path, changes: dict[str, int], said: str
) -> None:
    rows.write_parquet(tmp_path, rows.run("r1", **changes), [rows.incident("r1")])
    rows.write_parquet(tmp_path, rows.run("r2"), [rows.incident("r2")])
    with pytest.raises(DatasetError, match=f"{said}.*run_id 'r1'"):
        load(spark, check_dataset(tmp_path))
    with pytest.raises(DatasetError, match=f"{said}.*run_id 'r1'"):
        load_url(spark, f"file://{tmp_path}")
    left = load(spark, check_dataset(tmp_path, skip_broken=True))
    assert [row.run_id for row in left.runs.collect()] == ["r2"]
    assert left.skipped == (f"1 row of runs: {said.partition(': ')[2]} {_end(changes)}",)


def test_many_small_files_are_read_once_and_errors_name_the_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = [f"r{at:02}" for at in range(MANY + 1)]
    for name in names:
        rows.write_parquet(tmp_path, rows.run(name), [rows.incident(name)])
    rows.write_json(tmp_path, rows.run("live", source="live"), [rows.incident("live")])
    older = tmp_path / "incidents" / "r03.parquet"
    narrow = pq.read_table(older)
    number = narrow.schema.get_field_index("messages")
    pq.write_table(narrow.set_column(number, "messages", narrow["messages"].cast("int32")), older)
    data = load(spark, check_dataset(tmp_path))
    for frame in (data.runs, data.incidents):
        assert sorted(row.run_id for row in frame.collect()) == ["live", *names]
    one, several = (
        data.incidents.where(f"run_id = '{name}'").drop("run_id").collect() for name in names[2:4]
    )
    assert one == several
    rows.write_parquet(tmp_path, rows.run("r05", nodes=0), [rows.incident("r05")])
    with pytest.raises(DatasetError, match=r"runs/r05.parquet: nodes is not .*run_id 'r05'"):
        load(spark, check_dataset(tmp_path))


def _end(changes: dict[str, int]) -> int:
    return MAX_BROKERS if "nodes" in changes else LARGEST


ODD = (0, -1, 2**63 - 1, None)


@pytest.mark.parametrize("record", [Run, Incident, Probe, Traffic])
def test_each_number_is_tried_with_nothing_less_and_the_largest(
    spark: SparkSession, record: Record
) -> None:
    """Rows that break a rule are left out; what is left can be computed with."""
    whole = {
        Run: rows.run(),
        Incident: rows.incident(),
        Probe: helper_rows.probe(),
        Traffic: helper_rows.traffic(),
    }[record]
    good = msgspec.to_builtins(whole)
    numbers = [c for c in columns(record) if c.kind is Kind.INTEGER and c.name != "schema_version"]
    given = [
        {**good, "run_id": f"{column.name} {odd}", column.name: odd}
        for column in numbers
        for odd in ODD
    ]
    schema = sql.StructType([sql.StructField(f.name, f.dataType) for f in spark_schema(record)])
    frame = spark.createDataFrame(pa.Table.from_pylist(given), schema)
    left, _, told = check(frame, record, "here", skip_broken=True)
    kept = {row.run_id for row in left.select("run_id").collect()}
    assert told
    for column in numbers:
        assert (f"{column.name} None" in kept) is column.nullable, column.name
        for odd in (-1, 2**63 - 1):
            assert (f"{column.name} {odd}" in kept) is (column.name == "seed"), column.name
    with pytest.raises(DatasetError):
        check(frame, record, "here")


def test_a_url_has_the_rules_of_a_folder(spark: SparkSession, tmp_path: Path) -> None:
    rows.write_parquet(tmp_path, rows.run("r1"), [rows.incident("r1")])
    url = f"file://{tmp_path}"
    assert load_url(spark, url).incidents.count() == 1
    path = tmp_path / "incidents" / "r1.parquet"
    table = pq.read_table(path)
    verdicts = pa.array(["broker-failed"] * len(table))
    at = table.schema.get_field_index("verdict")
    pq.write_table(table.set_column(at, "verdict", verdicts), path)
    with pytest.raises(DatasetError, match="verdict is none of 'broker_failed', 'link_failed'"):
        load_url(spark, url)
    pq.write_table(table.drop_columns(["repaired_ns"]), path)
    with pytest.raises(DatasetError, match="incidents has no column 'repaired_ns'"):
        load_url(spark, url)
