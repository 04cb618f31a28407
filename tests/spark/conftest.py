"""One Spark session for all tests of the package, and one analysis of the planted study."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from spark.analysis.analysis import Analysis
from spark.cli import recovery
from spark.dataset.files import check_dataset
from spark.dataset.load import Dataset, load
from spark.runtime.session import open_session
from tests.spark.study import Study
from tests.spark.study import study as planted

_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

#: For Spark's JVMs, that of its launcher and its own: they live for seconds, in which a compiler
#: that optimises costs half of all their time and wins nothing.
JVM_OF_SECONDS = {"SPARK_SUBMIT_OPTS": _OPTIONS, "SPARK_LAUNCHER_OPTS": _OPTIONS}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as environment:
            for name, value in JVM_OF_SECONDS.items():
                environment.setenv(name, value)
            session = stack.enter_context(open_session("local[2]", memory="1g"))
        yield session


@dataclass(frozen=True, slots=True)
class Printed:
    """What ``chordal recovery analyze --json`` printed of the study."""

    report: Path
    answer: str
    analysis: Analysis
    stderr: str
    brought: list[DataFrame]  #: all frames that were brought to the driver
    jobs: int  #: of Spark


@pytest.fixture(scope="session")
def study() -> Study:
    return planted()


@pytest.fixture(scope="session")
def study_folder(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return study.write(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="session")
def data(spark: SparkSession, study_folder: Path) -> Dataset:
    return load(spark, check_dataset(study_folder))


@pytest.fixture(scope="session")
def printed(
    spark: SparkSession, study_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Printed:
    """The study, analysed by the command; an analysis costs too much to be done for each test."""
    report = tmp_path_factory.mktemp("printed") / "report"
    arguments = ["analyze", str(study_folder), "--out", str(report), "--json"]
    context = spark.sparkContext
    with _brought() as brought:
        context.setJobGroup("printed", "the study")
        ran = CliRunner().invoke(recovery, arguments, standalone_mode=False)
        jobs = len(context.statusTracker().getJobIdsForGroup("printed"))
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert ran.exception is None
    told = msgspec.json.decode(ran.stdout)
    analysis = msgspec.convert(told, Analysis)
    return Printed(Path(told["report"]), told["answer"], analysis, ran.stderr, brought, jobs)


@contextmanager
def _brought() -> Iterator[list[DataFrame]]:
    """Note each frame that is brought here."""
    found: list[DataFrame] = []
    ways = {name: getattr(DataFrame, name) for name in ("collect", "toArrow", "count")}

    def noting(name: str) -> Callable[[DataFrame], object]:
        def bring(frame: DataFrame) -> object:
            found.append(frame)
            return ways[name](frame)

        return bring

    with pytest.MonkeyPatch.context() as patched:
        for name in ways:
            patched.setattr(DataFrame, name, noting(name))
        yield found


@pytest.fixture(scope="session")
def found(printed: Printed) -> Analysis:
    return printed.analysis
