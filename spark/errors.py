"""Errors of the spark package.

::

    ChordalError
    ├── ConfigError
    │   ├── MissingExtra    a library or a Java that the analysis needs is not installed
    │   ├── DatasetError    a data set's folder or one of its files is missing, broken or foreign
    │   ├── MasterError     the Spark master asked for is nothing that Spark knows
    │   ├── GridError       a sweep's grid names an unknown key or an impossible value
    │   ├── PackError       chordal cannot be packed for executors
    │   ├── PromiseError    the promise to be watched is none
    │   └── ReportError     the report cannot be put where the user wants it
    ├── SparkFailed         Spark gave up; the text is the first line of its reason
    ├── SweepFailed         some cells of a sweep failed; the others are kept
    └── PromiseBroken       what is watched broke the promise it was held to
"""

from __future__ import annotations

from overlay.errors import ChordalError, ConfigError
from overlay.errors import MissingExtra as MissingExtra


class DatasetError(ConfigError):
    """A data set's folder, or one of its files, cannot be analysed; the text names it."""

    code = "dataset"


class MasterError(ConfigError):
    """The Spark master asked for is nothing that Spark knows."""

    code = "spark-master"


class GridError(ConfigError):
    """A sweep's grid names an unknown key or an impossible value."""

    code = "grid"


class ReportError(ConfigError):
    """The report cannot be put where the user wants it."""

    code = "report"


class PackError(ConfigError):
    """chordal cannot be packed for executors; the text says why."""

    code = "pack"


class PromiseError(ConfigError):
    """The promise to be watched is none; the text says what one looks like."""

    code = "promise"


class SparkFailed(ChordalError):
    """Spark could not start, or gave up on a job."""

    code = "spark-failed"


class SweepFailed(ChordalError):
    """Some cells of a sweep failed; the results of the others are kept."""

    code = "sweep-failed"


class PromiseBroken(ChordalError):
    """The watched brokers broke the promise that they were held to."""

    code = "recovery-promise-broken"
