"""The watch on growing traces: nothing is lost or doubled, and broken promises are acted upon."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import cast

import msgspec
import pytest
from click.testing import CliRunner
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession

from overlay.trace_schema import Verdict
from spark.cli import recovery
from spark.dataset.column_types import arrow_table
from spark.errors import PromiseBroken
from spark.watch import follow as following
from spark.watch.command import Teller
from spark.watch.follow import Kept, News, Watch, follow
from spark.watch.journal import Journal
from spark.watch.promise import read_promise
from spark.watch.rolling import Rolling
from spark.watch.source import Seen
from tests.spark import rows
from tests.spark.conftest import JVM_OF_SECONDS

pytestmark = pytest.mark.spark

S = rows.S
NOW = rows.STARTED_UNIX_NS + 60 * S


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    rows.write_json(folder, rows.live_run("live-a"))
    return folder


def append(data: Path, numbers: Iterator[int] | range, **changes: object) -> None:
    path = data / "incidents" / "live-a.jsonl"
    with path.open("ab", buffering=0) as file:
        for number in numbers:
            file.write(rows.line(rows.seen_live("live-a", number, **changes)))


def watch(data: Path, *promises: str) -> Watch:
    return Watch(
        folders=[data],
        checkpoint=data / "watch",
        promises=[read_promise(text) for text in promises],
        window_s=3600,
        every_s=0.1,
        at_least=1,
        told=lambda news: True,
        clock=lambda: NOW,
    )


def test_statistics_are_of_failures_and_exact(spark: SparkSession, data: Path) -> None:
    for number in range(11):
        append(data, range(number, number + 1), repaired_ns=(12 + number) * S)
    append(data, range(20, 23), verdict=Verdict.REFUTED, confirmed_ns=None, repaired_ns=None)
    # In a drill the time of death is known, and recovery begins there.
    append(data, range(30, 31), failed_ns=10 * S, repaired_ns=30 * S)
    news = follow(spark, watch(data), once=True)
    assert (news.total, news.window.incidents) == (15, 15)
    assert (news.window.failures, news.window.refuted) == (12, 3)
    recovery = news.window.measures["recovery"]
    # From the suspicion at 11 s: 1, 2, ... 11 s; and the drill's 20 s.
    assert recovery["p50"] == pytest.approx(6.5)
    assert recovery["max"] == pytest.approx(20.0)
    assert recovery["count"] == 12
    assert news.window.measures["detection"]["count"] == 1
    assert news.window.measures["messages"]["mean"] == pytest.approx(12.0)


def test_a_failure_that_four_brokers_saw_is_one(spark: SparkSession, data: Path) -> None:
    """It is over when the last of them is done, and costs what all of them have sent."""
    for number in range(2):
        for at, observer in enumerate("abcd"):
            append(data, range(number, number + 1), observer=observer, repaired_ns=(12 + at) * S)
    append(data, range(5, 7), verdict=Verdict.REFUTED, confirmed_ns=None, repaired_ns=None)
    news = follow(spark, watch(data), once=True)
    assert (news.window.failures, news.window.incidents, news.window.refuted) == (2, 10, 2)
    recovery, messages = (news.window.measures[name] for name in ("recovery", "messages"))
    assert (recovery["count"], recovery["p50"], recovery["max"]) == (2, 4.0, 4.0)
    one = rows.seen_live("live-a", 0).messages
    assert (messages["count"], messages["max"]) == (2, 4.0 * one)
    assert "2 failures in the window" in news.words


class Failing:
    """A stream that gives up for some reason, in whatever words."""

    def __init__(self, error: PySparkException | None) -> None:
        self.error = error

    def processAllAvailable(self) -> None:  # noqa: N802 - as Spark calls it
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        pass


SLOW = PySparkException("Python was not there in time, in words of another version")


@pytest.mark.parametrize(
    ("errors", "goes_on"),
    [
        ([SLOW, SLOW, None], True),
        ([SLOW] * 4 + [None], True),
        ([SLOW] * 5 + [None], False),
        ([PythonException("a file is broken"), None], False),
    ],
)
def test_a_stream_that_was_too_slow_is_started_again(
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    errors: list[PySparkException | None],
    goes_on: bool,
) -> None:
    streams = iter(errors)
    monkeypatch.setattr(following, "_start", lambda *_: Failing(next(streams)))
    no_spark = cast("SparkSession", None)  # nothing has come, so nothing is asked of it
    if goes_on:
        assert follow(no_spark, watch(data), once=True).total == 0
    else:
        with pytest.raises(PySparkException):
            follow(no_spark, watch(data), once=True)


def test_a_watch_that_dies_loses_and_doubles_nothing(
    spark: SparkSession, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies with a batch written and not committed, then with one half written."""
    append(data, range(3))
    assert follow(spark, watch(data), once=True).total == 3

    append(data, range(3, 7))

    def dies(news: News) -> bool:
        if news.total > 3:
            raise RuntimeError("killed")
        return True

    dying = watch(data)
    dying.told = dies
    with pytest.raises(Exception, match="killed"):
        follow(spark, dying, once=True)
    assert len(kept_in(spark, data)) == 7

    append(data, range(7, 9))
    written = Journal.write

    def half(self: Journal, batch: int, incidents: DataFrame) -> None:
        written(self, batch, incidents)
        for path in (data / "watch" / "incidents" / f"batch={batch}").glob("_SUCCESS"):
            path.unlink()
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "write", half)
        with pytest.raises(Exception, match="killed"):
            follow(spark, watch(data), once=True)
    assert follow(spark, watch(data), once=True).total == 9
    assert kept_in(spark, data) == [f"u{number}/1" for number in range(9)]


def kept_in(spark: SparkSession, data: Path) -> list[str]:
    kept = Journal(data / "watch").incidents(spark)
    assert kept is not None
    return sorted(row["incident_id"] for row in kept.collect())


def test_old_batches_are_put_together_and_what_is_old_is_let_go(
    spark: SparkSession, tmp_path: Path
) -> None:
    journal = Journal(tmp_path)
    for batch in range(4):
        append_batch(spark, journal, batch)
    journal.tidy(spark, since_unix_ns=1 * S, keep=2)
    names = {path.name for path in (tmp_path / "incidents").iterdir()}
    assert names == {"upto=2", "batch=3"}
    again = Journal(tmp_path)
    assert again.forgotten == 3
    append_batch(spark, again, 2)  # comes again, and counts no more
    kept = again.incidents(spark)
    assert kept is not None
    found = sorted((row["incident_id"], row["fresh"]) for row in kept.collect())
    assert found == [("u1/1", False), ("u2/1", False), ("u3/1", True)]


def append_batch(spark: SparkSession, journal: Journal, batch: int) -> None:
    """Write a batch of one incident that ended ``batch`` seconds after 1970."""
    incident = rows.seen_live("live-a", batch)
    seen = Seen(ended_unix_ns=batch * S, **msgspec.structs.asdict(incident))
    journal.write(batch, spark.createDataFrame(arrow_table(Seen, [seen])))


@pytest.mark.parametrize("verdict", [Verdict.BROKER_FAILED, Verdict.OPEN])
def test_an_open_incident_breaks_a_promise_when_its_time_is_up(
    spark: SparkSession, data: Path, verdict: Verdict
) -> None:
    append(data, range(3))  # repaired in 5 s
    append(data, range(3, 4), verdict=verdict, repaired_ns=None, chords_repaired_ns=None)
    watched = watch(data, "recovery.p99 < 6", "recovery.p50 < 6", "repair.count >= 1")
    watched.clock = lambda: rows.STARTED_UNIX_NS + 16 * S  # it was suspected at 11 s
    news = follow(spark, watched, once=True)
    assert (news.window.open, news.broken) == (1, ())
    assert news.window.due_unix_ns == rows.STARTED_UNIX_NS + 17 * S
    watched.clock = lambda: rows.STARTED_UNIX_NS + 18 * S
    news = follow(spark, watched, once=True)
    (broken,) = news.broken
    assert broken.promise == "recovery.p99 < 6"
    assert "recovery.p99 < 6 is broken: it is not reached, as incidents are open" in news.words
    assert "1 open" in news.words


def test_a_watch_judges_again_when_nothing_new_has_come(spark: SparkSession, data: Path) -> None:
    append(data, range(1), repaired_ns=None, chords_repaired_ns=None)
    watched = watch(data, "recovery.p99 < 6")
    told: list[News] = []

    def tell(news: News) -> bool:
        told.append(news)
        watched.clock = lambda: rows.STARTED_UNIX_NS + 60 * S
        return not news.broken

    watched.told = tell
    watched.clock = lambda: rows.STARTED_UNIX_NS + 12 * S
    news = follow(spark, watched, once=False)
    assert news.broken
    assert [len(each.broken) for each in told] == [0, 1]


def test_what_is_older_than_the_window_is_not_judged(spark: SparkSession, data: Path) -> None:
    times = ("suspected_ns", "confirmed_ns", "repaired_ns", "chords_repaired_ns")
    append(data, range(1), **{**dict.fromkeys(times, 900 * S), "suspected_ns": 1 * S})
    append(data, range(1, 3), **dict.fromkeys(times, 3000 * S))
    late = watch(data, "recovery.max < 6")
    late.clock = lambda: rows.STARTED_UNIX_NS + 5000 * S
    news = follow(spark, late, once=True)
    assert (news.total, news.window.incidents) == (3, 2)
    assert news.broken == ()


def test_a_broken_promise_ends_the_watch_and_is_the_exit_code(
    spark: SparkSession, data: Path
) -> None:
    append(data, range(3))
    command = ("watch", str(data), "--window", "36500d", "--every", "0.1")
    promises = ("--promise", "recovery.p99 < 3", "--promise", "recovery.max < 6")
    for _ in range(2):  # begun again, it ends at once: the promise is broken still
        result = CliRunner().invoke(recovery, [*command, *promises], standalone_mode=False)
        assert isinstance(result.exception, PromiseBroken)
        assert str(result.exception) == "recovery.p99 < 3 is broken: it is 5"
        (line,) = result.stdout.splitlines()
        assert line.startswith("3 incidents seen; 3 failures in the window; recovery p50 5.000 s")
        assert line.endswith("; recovery.max < 6 holds: it is 5")
    patient = [*command, "--once", "--at-least", "4", "--promise", "recovery.p99 < 3"]
    assert CliRunner().invoke(recovery, patient, standalone_mode=False).exception is None


def test_a_command_is_called_once_each_time_a_promise_comes_to_be_broken() -> None:
    called: list[tuple[str, str]] = []
    teller = Teller(
        as_json=True,
        command="page me",
        call=lambda command, kept: called.append((command, kept.promise)),
    )
    window = {"fresh": 1, "incidents": 1, "failures": 1, "refuted": 0, "measures": {}}
    for at, holds in enumerate((True, False, False, True, False)):
        kept = Kept(promise="recovery.p99 < 3", value=2.0, holds=holds)
        news = News(total=at, window=msgspec.convert(window, Rolling), promises=(kept,))
        assert teller(news)
    assert called == [("page me", "recovery.p99 < 3")] * 2


@pytest.mark.soak
def test_a_watch_killed_again_and_again_counts_each_incident_once(data: Path) -> None:
    """A real process, killed with SIGKILL at any time while a broker goes on writing."""
    numbers = count()
    command = (sys.executable, "-m", "ges.cli.main", "recovery", "watch", str(data), "--json")
    options = ("--window", "36500d", "--every", "0.1")
    environment = {**os.environ, **JVM_OF_SECONDS}
    for killed in range(2):
        append(data, (next(numbers) for _ in range(5)))
        with subprocess.Popen(
            [*command, *options], env=environment, stdout=subprocess.PIPE, start_new_session=True
        ) as process:
            assert process.stdout is not None
            told = 0
            deadline = time.monotonic() + 200
            while told < killed + 1:
                append(data, (next(numbers) for _ in range(2)))
                assert process.stdout.readline()
                told += 1
                assert time.monotonic() < deadline
            os.killpg(process.pid, signal.SIGKILL)
    ran = subprocess.run(
        [*command, *options, "--once"], env=environment, capture_output=True, check=True
    )
    last = json.loads(ran.stdout.splitlines()[-1])
    assert last["total"] == last["window"]["incidents"] == next(numbers)
