"""Probes and traffic as Spark sees them: by scenario and size."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from overlay.trace_schema import Probe, Traffic
from sims.recording import Recording
from sims.scenarios.results import RunResult
from spark.dataset.files import check_dataset
from spark.dataset.load import load
from spark.dataset.partitions import load_partitions
from spark.errors import DatasetError
from tests.helpers.rows import incident, probe, run, traffic

pytestmark = pytest.mark.spark


def record(directory: Path, scenario: str, nodes: int) -> None:
    name = f"{scenario}-n{nodes}"
    with Recording(directory, scenario, nodes, name) as recording:
        recording.on_probe(probe(run_id=name))
        recording.on_traffic(traffic(run_id=name))
        recording.finish(RunResult(run(run_id=name), (incident(run_id=name),), 1))


def test_a_query_for_one_scenario_opens_no_file_of_another(
    spark: SparkSession, tmp_path: Path
) -> None:
    directory = tmp_path / "odd [name]"
    for scenario, nodes in (("some churn", 8), ("some churn", 16), ("other", 8)):
        record(directory, scenario, nodes)
    probes = load_partitions(spark, directory, Probe)
    one = probes.where("scenario = 'some churn' and nodes = 16")
    assert [(row.run_id, row.fate) for row in one.collect()] == [("some churn-n16", "once")]
    assert probes.count() == 3
    plan = spark.sparkContext._jvm.PythonSQLUtils.explainString(  # type: ignore[union-attr]
        one._jdf.queryExecution(), "formatted"
    )
    assert "PartitionFilters: [isnotnull(scenario" in plan
    assert load_partitions(spark, directory, Traffic).where("scenario = 'other'").count() == 1
    assert load(spark, check_dataset(directory)).incidents.count() == 3


def test_a_data_set_without_them_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="has no probes: they are written by"):
        load_partitions(spark, tmp_path, Probe)
