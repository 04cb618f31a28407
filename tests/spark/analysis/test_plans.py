"""What Spark makes of the analysis: which columns it reads, and how often it shuffles rows."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import DataFrame, SparkSession

from overlay.trace_schema import Incident, Probe
from spark.analysis import churn, delivery, recovery, replicates
from spark.analysis.quantiles import buckets
from spark.dataset.load import Dataset, of_scenarios
from tests.spark.conftest import Printed

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def keyed(data: Dataset) -> DataFrame:
    return recovery.keyed_runs(data.runs)


def plan(spark: SparkSession, frame: DataFrame) -> str:
    """Return the plan in which Spark carries out a frame."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    explained: str = jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "formatted")
    return explained


def read(explained: str) -> list[set[str]]:
    """Return the columns of each scan."""
    scans = re.findall(r"ReadSchema: struct<(.*?)>\n", explained)
    return [set(re.findall(r"(\w+):", scan)) for scan in scans]


def shuffles(explained: str) -> int:
    """Return how many times rows move between executors, but for those of runs to a broadcast."""
    return len(re.findall(r"^\(\d+\) Exchange\b", explained, re.MULTILINE))


def test_a_measure_reads_the_columns_of_times_and_no_texts_but_keys(
    spark: SparkSession, data: Dataset, keyed: DataFrame
) -> None:
    explained = plan(spark, buckets(recovery.measured(data.incidents, keyed)))
    runs, incidents = sorted(read(explained), key=len)
    times = {"failed_ns", "suspected_ns", "confirmed_ns", "repaired_ns", "chords_repaired_ns"}
    if "failed_ns" in runs:
        runs, incidents = incidents, runs
    assert incidents == {"run_id", "verdict", "messages", *times}
    texts = {"run_id", "source", "scenario", "profile", "parameters"}
    assert runs == {*texts, "nodes", "duration_ns"}
    assert "Or(EqualTo(verdict,broker_failed),IsNotNull(failed_ns))" in explained


def test_incidents_are_counted_where_they_are_read(
    spark: SparkSession, data: Dataset, keyed: DataFrame
) -> None:
    """Runs are sent to incidents and not incidents to runs; only counts are shuffled."""
    explained = plan(spark, buckets(recovery.measured(data.incidents, keyed)))
    assert "BroadcastHashJoin" in explained
    assert "SortMergeJoin" not in explained
    assert shuffles(explained) == 1


def test_python_runs_for_the_bootstrap_alone(
    spark: SparkSession, data: Dataset, keyed: DataFrame
) -> None:
    counted = buckets(recovery.measured(data.incidents, keyed, with_curve=True), "unit")
    assert data.probes is not None
    probes = delivery.keyed_probes(data.probes, keyed)
    built_in = (
        counted,
        churn.holes(data.incidents, keyed),
        churn.lasted(data.incidents, keyed),
        delivery.took(probes),
    )
    python = re.compile(r"Python|InArrow|InPandas|ArrowEval")
    assert [python.findall(plan(spark, frame)) for frame in built_in] == [[]] * 4
    assert "FlatMapGroupsInArrow" in plan(spark, replicates.replicates(counted))


def test_an_analysis_reads_each_table_a_few_times(spark: SparkSession, printed: Printed) -> None:
    """What has been counted is not counted again, by whatever it is joined with."""
    plans = [plan(spark, frame) for frame in printed.brought]
    scans = [scan for explained in plans for scan in read(explained)]
    assert sum("parameters" in scan for scan in scans) == 2
    assert sum(not scan.isdisjoint({"incident_id", "failed_ns"}) for scan in scans) == 6
    assert sum("link_class" in scan for scan in scans) == 4
    assert printed.jobs <= 40  # with probes, levels and records


def test_one_scenario_opens_no_folder_of_another(spark: SparkSession, data: Dataset) -> None:
    chosen = of_scenarios(data, ["crash"])
    assert chosen.probes is not None
    runs = {row.run_id for row in chosen.runs.collect()}
    for record in (Incident, Probe):  # what is told of runs is told of these alone
        assert 0 < len(told := set(chosen.told[record]["run_id"].to_pylist())) <= len(told & runs)
    probes = delivery.keyed_probes(chosen.probes, recovery.keyed_runs(chosen.runs))
    explained = plan(spark, delivery.took(probes))
    assert re.search(r"PartitionFilters: \[.*scenario.* = crash\)?\]", explained)
    columns = max(read(explained), key=len)
    assert not columns & {"topic", "copies", "publisher_broker", "subscriber_broker", "fate"}
