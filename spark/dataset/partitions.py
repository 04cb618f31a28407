"""Loading what scenarios write while they are played: probes of events, and traffic.

Their files lie in folders ``scenario=NAME/nodes=N``, which become columns. A query that names a
scenario or a size opens no other file, and within a file only the groups of rows it needs.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from overlay.trace_schema import Probe, Traffic
from spark.dataset.files import FOLDERS, check_file, find_partitions
from spark.dataset.load import address, check, partitioned_schema
from spark.errors import DatasetError


def load_partitions(
    spark: SparkSession, directory: Path, record: type[Probe] | type[Traffic]
) -> DataFrame:
    """Return the rows of ``record`` in a data set, with the columns ``scenario`` and ``nodes``.

    Raises:
        DatasetError: There are none, a file is broken or of another version, or a row breaks a
            rule or is there twice.
    """
    folder = directory / FOLDERS[record]
    files = find_partitions(directory, record)
    if not files:
        raise DatasetError(
            f"{directory} has no {folder.name}: they are written by 'chordal sim run NAME --out' "
            "and 'chordal sim campaign --data'"
        )
    for path in files:
        check_file(path, record)
    schema = partitioned_schema(record)
    rows = spark.read.schema(schema).option("mode", "FAILFAST").parquet(address(folder))
    return check(rows, record, str(directory))[0]
