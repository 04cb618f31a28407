"""One Spark session for all tests of the package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pyspark.sql import SparkSession

from spark.runtime.session import open_session

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
