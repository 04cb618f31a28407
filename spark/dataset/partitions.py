"""Loading what scenarios write while they are played: probes of events, and traffic.

Their files lie in folders ``scenario=NAME/nodes=N``, which become columns. A query that names a
scenario or a size opens no other file, and within a file only the groups of rows it needs.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as sql

from overlay.trace_schema import Probe, Traffic
from spark.dataset.column_types import spark_schema
from spark.dataset.files import FOLDERS, PARQUET, check_file
from spark.dataset.load import address
from spark.errors import DatasetError

PARTITIONS = (
    sql.StructField("scenario", sql.StringType(), nullable=True),
    sql.StructField("nodes", sql.LongType(), nullable=True),
)


def load_partitions(
    spark: SparkSession, directory: Path, record: type[Probe] | type[Traffic]
) -> DataFrame:
    """Return the rows of ``record`` in a data set, with the columns ``scenario`` and ``nodes``.

    Raises:
        DatasetError: There are none, or a file is broken or of another version.
    """
    folder = directory / FOLDERS[record]
    files = sorted(folder.glob(f"scenario=*/nodes=*/[!._]*{PARQUET}"))
    if not files:
        raise DatasetError(
            f"{directory} has no {folder.name}: they are written by 'chordal sim run NAME --out' "
            "and 'chordal sim campaign --data'"
        )
    for path in files:
        check_file(path, record)
    schema = sql.StructType([*spark_schema(record).fields, *PARTITIONS])
    return spark.read.schema(schema).option("mode", "FAILFAST").parquet(address(folder))
