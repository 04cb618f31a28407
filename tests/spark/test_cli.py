"""``chordal recovery`` as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from html import unescape
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

import spark.cli
from spark.analysis.analysis import Analysis
from spark.cli import recovery
from spark.dataset.load import Dataset
from spark.errors import DatasetError, GridError, MissingExtra, ReportError, SweepFailed
from tests.spark import rows
from tests.spark.conftest import Printed
from tests.spark.results import analysis

HEAVY = ("matplotlib", "numpy", "pandas", "pyarrow", "pyspark")

needs_spark = pytest.mark.spark


def invoke(*arguments: object) -> Result:
    """Run the command as the root command does: errors come through as they are."""
    return CliRunner().invoke(recovery, [str(a) for a in arguments], standalone_mode=False)


def data_set(directory: Path) -> Path:
    for n in (16, 32, 64, 256):
        for seed in (1, 2):
            run = rows.run(f"n{n}s{seed}", nodes=n, seed=seed)
            incidents = [
                rows.recovered(run.run_id, at, 3.0, messages=10 * n.bit_length()) for at in range(4)
            ]
            rows.write_parquet(directory, run, incidents)
    return directory


def test_a_report_that_cannot_be_written_is_refused_before_the_analysis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: object) -> None:
        raise AssertionError("analysed in vain")

    monkeypatch.setattr("spark.runtime.session.open_session", never)
    (tmp_path / "file").touch()
    error = invoke(
        "analyze", data_set(tmp_path / "data"), "--out", tmp_path / "file" / "report"
    ).exception
    assert isinstance(error, ReportError)
    assert str(error) == f"{tmp_path / 'file' / 'report'} cannot be written: Not a directory"


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from spark.cli import recovery; "
        "recovery(['analyze', '--help'], standalone_mode=False); "
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.endswith("[]\n")


@pytest.mark.parametrize("command", ["sweep --out {}", "analyze {} --out {}"])
def test_a_missing_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(spark.cli, "find_spec", lambda name: None if name == "pandas" else name)
    error = invoke(*command.format(tmp_path / "a", tmp_path / "b").split()).exception
    assert isinstance(error, MissingExtra)
    assert str(error) == (
        "this command needs the analysis extra; in a checkout: pip install '.[analysis]'"
    )


@pytest.mark.parametrize("option", ["--nodes", "--seeds"])
def test_what_is_no_list_of_numbers_is_refused(tmp_path: Path, option: str) -> None:
    result = invoke("sweep", "--out", tmp_path / "d", option, "8,many")
    assert "'8,many'" in str(result.exception)


def test_a_wrong_grid_stops_before_anything_is_made(tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text("nodez = 3\n")
    assert isinstance(invoke("sweep", grid, "--out", tmp_path / "d").exception, GridError)
    assert not (tmp_path / "d").exists()


def test_a_foreign_report_folder_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    result = invoke("analyze", tmp_path / "nowhere", "--out", tmp_path)
    assert isinstance(result.exception, ReportError)


class TestWithSpark:
    pytestmark = needs_spark

    @pytest.fixture(autouse=True)
    def session(self, spark: SparkSession) -> None:
        """Lend the session to the commands."""

    def test_analyze_prints_one_json_object_and_writes_the_report(self, printed: Printed) -> None:
        assert printed.stderr == ""
        assert "n = 4,096" in printed.answer or "4,096 brokers" in printed.answer
        page = printed.report.read_text("utf-8")
        assert printed.answer in unescape(page)
        assert "chordal recovery analyze" in page
        assert {"quantiles", "fits", "verdicts", "survival", "churn", "delivery"} <= {
            name for name in printed.analysis.__struct_fields__ if getattr(printed.analysis, name)
        }

    def test_analyze_begins_with_the_answer_and_ends_with_the_path(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("spark.analysis.analyse.analyse", lambda *_: analysis())
        folder = tmp_path / "d"
        result = invoke("analyze", data_set(folder), "--out", tmp_path / "r")
        first, *verdicts, last = result.stdout.splitlines()
        assert first.startswith("Simulated: in the scenario crash, in which brokers lose power")
        assert first.endswith(
            "Use chords rank: with none recovery takes 1.25 times as long (n = 1,024)."
        )
        assert len(verdicts) == 2
        assert verdicts[0].startswith("crash, lan, chords rank: total: grows like")
        assert last == f"-> {tmp_path / 'r' / 'index.html'}"

    def test_analyze_leaves_out_what_is_broken_if_asked_to(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read: list[Dataset] = []

        def noted(spark: SparkSession, data: Dataset) -> Analysis:
            read.append(data)
            return msgspec.structs.replace(analysis(), skipped=data.skipped)

        monkeypatch.setattr("spark.analysis.analyse.analyse", noted)
        folder = data_set(tmp_path / "d")
        path = folder / "incidents" / "n16s1.parquet"
        path.write_bytes(path.read_bytes()[:-9])
        refused = invoke("analyze", folder, "--out", tmp_path / "r")
        assert str(refused.exception).startswith(str(path))
        assert str(refused.exception).endswith("or leave it out with --skip-broken")
        result = invoke("analyze", folder, "--out", tmp_path / "r", "--skip-broken")
        assert result.exception is None
        left_out = ["incidents/n16s1.parquet", "runs/n16s1.parquet"]
        assert result.stderr.splitlines() == [f"left out: {name}" for name in left_out]
        assert read[0].runs.count() == 7
        assert "left out: runs/n16s1.parquet" in (tmp_path / "r" / "report.md").read_text("utf-8")

    def test_analyze_takes_a_url_and_only_the_scenarios_asked_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, study_folder: Path
    ) -> None:
        read: list[Dataset] = []

        def noted(spark: SparkSession, data: Dataset) -> Analysis:
            read.append(data)
            return analysis()

        monkeypatch.setattr("spark.analysis.analyse.analyse", noted)
        url = study_folder.as_uri()
        result = invoke("analyze", url, "--out", tmp_path / "r", "--scenario", "live")
        assert result.exception is None
        assert [row["run_id"] for row in read[0].runs.collect()] == ["live"]
        assert read[0].incidents.count() == 3
        assert read[0].probes is not None
        assert read[0].probes.count() == 0
        assert f"analyze {url} --scenario live" in (tmp_path / "r" / "report.md").read_text("utf-8")
        nowhere = invoke("analyze", f"{url}/nowhere", "--out", tmp_path / "r").exception
        assert isinstance(nowhere, DatasetError)
        assert "is no data set" in str(nowhere)

    def test_a_broken_data_set_leaves_no_report(self, tmp_path: Path) -> None:
        path = data_set(tmp_path / "d") / "incidents" / "n16s1.parquet"
        path.write_bytes(path.read_bytes()[:-9])
        result = invoke("analyze", tmp_path / "d", "--out", tmp_path / "r")
        assert isinstance(result.exception, DatasetError)
        assert str(path) in str(result.exception)
        assert not (tmp_path / "r").exists()

    def test_sweep_fills_a_data_set_and_resumes(self, tmp_path: Path) -> None:
        short = ("--set", "faults.0.over_s=2", "--set", "faults.0.count=1")
        options = ("--out", tmp_path / "d", "--nodes", "4,8", *short)
        result = invoke("sweep", *options, "--seeds", "1")
        assert result.stdout.splitlines()[-1].startswith("2 runs done in 0:00:")
        result = invoke("sweep", *options, "--seeds", "1-2", "--json")
        found = json.loads(result.stdout)
        assert (found["done"], found["skipped"], found["failed"]) == (2, 2, [])
        assert result.stderr == ""

    def test_sweep_fails_if_a_run_does_and_says_how_to_see_it(self, tmp_path: Path) -> None:
        impossible = ("--set", "faults.0.at_s=1", "--set", "promises.repair_p99_s=0.001")
        sweep = ("sweep", "--out", tmp_path / "d", "--scenario", "arc", "--nodes", "8")
        options = (*sweep, "--seeds", "1", "--set", "faults.0.count=1", *impossible)
        for done, there in ((1, 0), (0, 1)):
            result = invoke(*options)
            assert isinstance(result.exception, SweepFailed)
            assert str(result.exception).startswith("1 run broke a promise")
            assert "chordal sim run arc --seed 1 --set nodes=8" in result.stdout
            last = result.stdout.splitlines()[-1]
            assert last.startswith(f"{done} run{'' if done else 's'} done in")
            assert f"{there} there already" in last
