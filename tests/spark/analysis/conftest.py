"""The planted study, analysed once for all tests."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark.analysis.analyse import analyse
from spark.analysis.analysis import Analysis
from spark.dataset.files import check_dataset
from spark.dataset.load import Dataset, load
from tests.spark.study import Study
from tests.spark.study import study as planted


@pytest.fixture(scope="session")
def study() -> Study:
    return planted()


@pytest.fixture(scope="session")
def data(spark: SparkSession, study: Study, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    directory = study.write(tmp_path_factory.mktemp("study"))
    return load(spark, check_dataset(directory))


@pytest.fixture(scope="session")
def found(spark: SparkSession, data: Dataset) -> Analysis:
    return analyse(spark, data)
