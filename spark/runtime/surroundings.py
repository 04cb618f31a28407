"""The variables that Spark, its launcher and Java read: ours, where nobody has chosen a master.

``PYSPARK_SUBMIT_ARGS`` as a notebook has set it, say, or options for another Java, decide whether a
JVM starts at all. So they are taken away as long as a session of ours is open, and those that we
need are set.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

#: PySpark, its scripts, its launcher and its workers read what begins so.
_PREFIXES = (
    "PYSPARK_",
    "SPARK_",
    "_PYSPARK_",
    "_SPARK_",
    "PYTHON_FAULTHANDLER",
    "PYTHON_UNIX_DOMAIN_",
    "PYTHON_WORKER_",
)
#: Each ``java`` reads these, and Spark's shell scripts read the last two. HADOOP_CONF_DIR stays: it
#: says where data are.
_NAMES = (
    "CLASSPATH",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "YARN_CONF_DIR",
    "BASH_ENV",
    "CDPATH",
)


def inherited(environ: Iterable[str]) -> list[str]:
    """Return which of these variables decide on Spark, or on its Java."""
    return [name for name in environ if name in _NAMES or name.startswith(_PREFIXES)]


@contextmanager
def environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables, or take them away (None), as long as the body runs."""
    before = {name: os.environ.get(name) for name in variables}
    _set(variables)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
