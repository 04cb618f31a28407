"""The slowest incidents, and the commands that show their runs again."""

from __future__ import annotations

import shlex

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from overlay.trace_schema import Incident
from sims.scenarios import library
from sims.scenarios.files import parse
from sims.scenarios.inputs import read_inputs
from spark.analysis.frames import collect
from spark.analysis.groups import Group
from spark.analysis.outliers import ENOUGH, Bound, KeyedOutlier, bounds, outliers
from spark.analysis.quantiles import CellQuantiles
from spark.analysis.replay import command
from spark.dataset.column_types import arrow_table, spark_schema
from tests.spark import rows
from tests.spark.rows import S


def group(scenario: str, parameters: str, **changes: str) -> Group:
    told = {"source": "simulator", "profile": "lan", **changes}
    return Group(scenario=scenario, parameters=parameters, **told)


def test_an_experiment_is_run_again_with_its_options() -> None:
    parameters = '{"chords":"none","crash_mode":"kill","crash_share":0.1,"gap_rule":"widest"}'
    assert command(group("crash", parameters, profile="wan"), 256, 7) == (
        "chordal sim run crash --nodes 256 --seed 7 --profile wan --chords none "
        "--crash-mode kill --crash-share 0.1 --gaps widest"
    )


def test_a_scenario_is_run_again_with_what_was_changed_and_nothing_else() -> None:
    changed = ["churn.0.mean_s=90.5", "profile=wan", "faults=[]"]
    file = library.find("churn-exponential")
    scenario = parse(file, changed)
    told = msgspec.json.encode(scenario).decode()
    said = command(group("churn-exponential", told, profile="wan"), 64, -3)
    assert said is not None
    words = shlex.split(said)
    assert words[:8] == shlex.split("chordal sim run churn-exponential --nodes 64 --seed -3")
    given = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    assert parse(file, given) == scenario
    assert len(given) == 2


def test_what_a_run_was_made_of_is_no_change() -> None:
    """The version of chordal, and digests of files, are parameters that no command takes."""
    file = library.find("churn-trace")
    scenario = parse(file)
    marked = read_inputs(scenario, file.folder).marked(scenario)
    assert marked["churn.0.file"].startswith("day.csv#")
    told = msgspec.json.encode({**marked, "version": "1"}).decode()
    said = command(group("churn-trace", told), 24, 1)
    assert said is not None
    assert "#" not in said
    assert "version" not in said


def test_a_file_of_the_users_is_named_and_a_live_broker_cannot_be_run_again() -> None:
    assert command(group("mine", "{}"), 8, 1) == "chordal sim run mine.toml --nodes 8 --seed 1"
    assert command(group("live", "{}", source="live"), None, None) is None


@pytest.mark.spark
def test_the_slowest_beyond_the_last_thousandth_are_found(spark: SparkSession) -> None:
    incidents = [rows.recovered("r1", at, 1 + at / 1000) for at in range(ENOUGH)]
    incidents += [rows.recovered("r1", ENOUGH + at, 90 + at) for at in range(2)]
    incidents.append(rows.incident("r1", 9999, repaired_ns=None))
    given = spark.createDataFrame(arrow_table(Incident, incidents), spark_schema(Incident))
    runs = spark.createDataFrame(
        pa.table(
            {
                "run_id": ["r1"],
                "group_key": [1],
                "size": [64],
                "seed": [5],
                "duration_ns": [100 * S],
            }
        )
    )
    bound = spark.createDataFrame(pa.table({"group_key": [1], "size": [64], "beyond": [50.0 * S]}))
    found = collect(outliers(given, runs, bound), KeyedOutlier)
    assert [(row.incident_id, row.total_s, row.repaired) for row in found] == [
        ("u9999/1", 90.0, False),  # what was not repaired comes first
        (f"u{ENOUGH + 1}/1", 91.0, True),
        (f"u{ENOUGH}/1", 90.0, True),
    ]


def test_only_cells_with_enough_incidents_whose_last_thousandth_is_reached_have_outliers() -> None:
    enough = exact(count=ENOUGH - 1, open=1, p999=50.0 * S)
    told = [enough, exact(count=ENOUGH - 2, open=1, p999=50.0 * S)]
    told += [
        exact(count=ENOUGH, open=9, p999=None),
        exact(measure="chords", count=ENOUGH, p999=1.0),
    ]
    assert bounds(told) == [Bound(group_key=1, size=64, beyond=50.0 * S)]


def exact(**changes: object) -> CellQuantiles:
    none = dict.fromkeys(("mean", "max", "least", "most", "p50", "p95", "p99"))
    told = {"group_key": 1, "size": 64, "measure": "total", "count": 0, "open": 0, **none}
    return msgspec.convert({**told, **changes}, CellQuantiles)


def test_a_list_is_set_whole() -> None:
    changed = ["units.limit=8", 'units.named=["eu/fra/a","us"]', "nodes=8", "records.each=2"]
    file = library.find("delivery-under-churn")
    told = msgspec.json.encode(parse(file, changed)).decode()
    said = command(group("delivery-under-churn", told), 8, 1)
    assert said is not None
    words = shlex.split(said)
    given = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    assert parse(file, ["nodes=8", *given]) == parse(file, changed)
