"""What a watch has seen: each incident once, whatever is killed in between.

::

    CHECKPOINT/spark/...             offsets and commits of the stream, Spark's own
    CHECKPOINT/incidents/batch=N/    the incidents of batch N
    CHECKPOINT/incidents/upto=N/     those of all batches up to N that were put together
    CHECKPOINT/journal.json          which of these count

After a crash Spark repeats the last batch with the same rows, and it overwrites what the first try
left. Now and then old batches are put together, without what is older than the window. A batch
that ``journal.json`` says is in an ``upto`` is not read again, if it is still there.
"""

from __future__ import annotations

import shutil
from functools import reduce
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from overlay.errors import ConfigError
from overlay.wording import why_no_folder
from sims.unfinished import publish, unfinished
from spark.dataset.column_types import spark_schema
from spark.dataset.place import Place
from spark.watch.source import Seen

KEEP = 32  #: batches that are kept apart before they are put together


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What ``journal.json`` holds."""

    upto: int = -1  #: the last batch that was put together with those before it
    incidents: int = 0  #: in all of these, also those that are no longer kept


class Journal:
    """The incidents seen so far, on disk.

    Raises:
        ConfigError: The folder cannot be written, or is no checkpoint.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "incidents"
        self._file = folder / "journal.json"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            read = self._file.read_bytes() if self._file.exists() else b"{}"
            self._state = msgspec.json.decode(read, type=State)
        except OSError as error:
            raise ConfigError(f"cannot use {folder}: {why_no_folder(error)}") from error
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{self._file} is broken: give another --checkpoint") from error

    def write(self, batch: int, incidents: DataFrame) -> None:
        """Keep a batch; one that comes again replaces itself."""
        if batch > self._state.upto:
            incidents.coalesce(1).write.mode("overwrite").parquet(self._address(f"batch={batch}"))

    @property
    def forgotten(self) -> int:
        """How many incidents were put together: some of these are kept, and not fresh."""
        return self._state.incidents

    def incidents(self, spark: SparkSession) -> DataFrame | None:
        """Return all that are kept, as rows of ``Seen``, and whether they are ``fresh``.

        Fresh ones were not put together yet. None: nothing is kept.
        """
        fresh = self._read(spark, [f"batch={batch}" for batch in self._batches()])
        merged = self._read(spark, self._merged())
        parts = [
            part.withColumn("fresh", fn.lit(is_fresh))
            for part, is_fresh in ((fresh, True), (merged, False))
            if part is not None
        ]
        return reduce(DataFrame.unionByName, parts) if parts else None

    def tidy(self, spark: SparkSession, since_unix_ns: int, *, keep: int = KEEP) -> None:
        """Put old batches together if there are many, without what ended before ``since``.

        The last batch stays apart: it may come again.
        """
        fresh = self._batches()
        if len(fresh) <= keep:
            self._drop_old()
            return
        upto = fresh[-2]
        old = [f"batch={batch}" for batch in fresh[:-1]]
        read, all_kept = self._read(spark, old), self._read(spark, old + self._merged())
        if read is None or all_kept is None:
            return
        count = read.count()
        kept = all_kept.where(fn.col("ended_unix_ns") >= since_unix_ns)
        kept.coalesce(1).write.mode("overwrite").parquet(self._address(f"upto={upto}"))
        state = State(upto=upto, incidents=self._state.incidents + count)
        self._write_state(state)
        self._state = state
        self._drop_old()

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _write_state(self, state: State) -> None:
        made = unfinished(self._file)
        try:
            made.write_bytes(msgspec.json.encode(state))
            publish(made, self._file)
        except OSError as error:
            raise ConfigError(f"cannot write {self._file}: {error.strerror}") from error
        finally:
            made.unlink(missing_ok=True)

    def _batches(self) -> list[int]:
        """Return the batches that were not put together yet."""
        numbers = (int(path.name.partition("=")[2]) for path in self._folder.glob("batch=*"))
        return sorted(number for number in numbers if number > self._state.upto)

    def _merged(self) -> list[str]:
        return [f"upto={self._state.upto}"] if self._state.upto >= 0 else []

    def _drop_old(self) -> None:
        wanted = {f"batch={batch}" for batch in self._batches()} | set(self._merged())
        for path in self._folder.iterdir():
            if path.name not in wanted:
                shutil.rmtree(path, ignore_errors=True)

    def _read(self, spark: SparkSession, names: list[str]) -> DataFrame | None:
        schema = spark_schema(Seen)
        whole = [name for name in names if (self._folder / name / "_SUCCESS").exists()]
        if not whole:
            return None
        return spark.read.schema(schema).parquet(*map(self._address, whole))

    def _address(self, name: str) -> str:
        return Place("", self._folder).address(name)
