"""The session: what it says when things go wrong, and that it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from overlay.errors import ConfigError
from spark.errors import MasterError, SparkFailed
from spark.runtime.session import open_session
from tests.spark.conftest import JVM_OF_SECONDS

pytestmark = pytest.mark.spark

# A job in Python has ended before. The simulation says that it is running by opening a pipe, and
# then never ends.
INTERRUPTED = """
import os, sys, threading
from spark.dataset.place import place
from spark.sweep.grid import Grid, cells
from spark.runtime.session import open_session
from spark.sweep.run import plan, sweep

pipe, data = sys.argv[1:]

def stuck(cell, out):
    open(pipe, "w").close()
    threading.Event().wait()

try:
    with open_session("local[1]", memory="1g") as spark:
        spark.range(1).mapInArrow(lambda batches: batches, "id long").collect()
        sweep(spark, plan(place(data), cells([Grid(nodes=(8,), seeds=(1,))])), stuck)
except KeyboardInterrupt:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        sys.exit(130)
    sys.exit("the JVM outlived its session")
"""


@pytest.mark.parametrize("master", ["foo", "local[", "spark://", "localhost:7077"])
def test_a_master_that_spark_does_not_know_is_named(master: str) -> None:
    with pytest.raises(MasterError) as caught, open_session(master):
        pass
    assert repr(master) in str(caught.value)


def test_an_open_session_is_lent_out_and_left_open(spark: SparkSession) -> None:
    with open_session() as lent:
        assert lent is spark
    assert spark.range(3).count() == 3


def test_a_session_keeps_to_itself(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_interrupts_stay_with_their_owner(spark: SparkSession) -> None:
    assert getattr(signal.getsignal(signal.SIGINT), "__module__", None) != "pyspark.core.context"


@pytest.mark.parametrize(
    "left_behind",
    [
        pytest.param(Py4JError("an error while sending"), id="of py4j"),
        pytest.param(ConnectionRefusedError(111, "Connection refused"), id="of the socket"),
    ],
)
def test_an_interrupt_that_was_swallowed_on_the_way_is_one_still(
    spark: SparkSession, left_behind: Exception
) -> None:
    """A JVM that goes on the same Ctrl-C refuses the call that would tell it of it."""

    def interrupted() -> None:
        with open_session():
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            raise left_behind

    with pytest.raises(KeyboardInterrupt):
        interrupted()


def test_what_fails_inside_spark_is_one_line(spark: SparkSession) -> None:
    with pytest.raises(SparkFailed) as caught, open_session() as lent:
        lent.range(1).select("no_such_column").collect()
    assert "no_such_column" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_where_the_master_is_another_machine_what_fails_names_it(spark: SparkSession) -> None:
    master = "spark://127.0.0.1:1"
    with pytest.raises(SparkFailed) as caught, open_session(master) as lent:
        lent.range(1).select("no_such_column").collect()
    assert str(caught.value).startswith(f"Spark at {master} failed: ")
    assert str(caught.value).endswith("see whether it can be reached")


def test_what_fails_in_a_job_is_one_line(spark: SparkSession) -> None:
    with pytest.raises(SparkFailed) as caught, open_session() as lent:
        lent.range(1).select(fn.raise_error(fn.lit("the reason"))).collect()
    assert "the reason" in str(caught.value)
    assert "\n" not in str(caught.value)


def press_ctrl_c(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGINT)


IN_THE_BACKGROUND = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"


@pytest.mark.parametrize(
    ("kill", "before"),
    [
        (press_ctrl_c, ""),
        pytest.param(subprocess.Popen.terminate, "", marks=pytest.mark.soak),
        pytest.param(subprocess.Popen.terminate, IN_THE_BACKGROUND, marks=pytest.mark.soak),
    ],
)
def test_an_interrupt_ends_every_process_without_a_word(
    tmp_path: Path, kill: Callable[[subprocess.Popen[bytes]], None], before: str
) -> None:
    """Ctrl-C reaches all processes of a terminal, SIGTERM the one it is sent to.

    A shell that starts a command in the background has it ignore the one, and not the other.
    """
    pipe, data, temporary = (tmp_path / name for name in ("pipe", "data", "tmp"))
    os.mkfifo(pipe)
    temporary.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", before + INTERRUPTED, pipe, data],
        env={**os.environ, **JVM_OF_SECONDS, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        pipe.open("rb").close()  # returns once a worker simulates
        kill(process)
        # The output ends when the last process that could write to it is gone.
        said, _ = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, b"")
    assert [path for path in data.rglob("*") if path.is_file()] == []
    assert list(temporary.glob("chordal-*")) == []


# Says that it is new enough, and what to start as the JVM: itself, which then is never ready.
SLOW_JAVA = """#!/bin/bash
case "$*" in
  -version) echo 'openjdk version "21.0.1"' >&2 ;;
  *launcher.Main*) printf '\\0\\n%s\\0starts\\0' "$0" ;;
  starts) : > "$STARTED"; exec sleep 600 ;;
esac
"""

STARTING = """
import sys
from spark.runtime.session import open_session

try:
    with open_session("local[1]", memory="1g"):
        sys.exit("it has started")
except KeyboardInterrupt:
    sys.exit(130)
"""


# Says what it was started with, and ends.
TELLING_JAVA = """#!/bin/bash
case "$*" in
  -version) echo 'openjdk version "21.0.1"' >&2 ;;
  *) env > "$ENVIRONMENT"; printf '%s\\n' "$@" > "$ARGUMENTS"; exit 1 ;;
esac
"""

#: As notebooks, other Sparks and other Javas set them.
FOREIGN = {
    "PYSPARK_SUBMIT_ARGS": "--packages org.example:jars:1",
    "PYSPARK_PYTHON": "/nowhere/python",
    "PYSPARK_PIN_THREAD": "false",
    "SPARK_HOME": "/nowhere/spark",
    "SPARK_CONF_DIR": "/nowhere/conf",
    "SPARK_CONNECT_MODE_ENABLED": "1",
    "SPARK_DRIVER_MEMORY": "1k",
    "SPARK_SUBMIT_OPTS": "-XX:+NoSuchOption",
    "SPARK_LAUNCHER_OPTS": "-XX:+NoSuchOption",
    "SPARK_PREPEND_CLASSES": "1",
    "JAVA_TOOL_OPTIONS": "-XX:+NoSuchOption",
    "JDK_JAVA_OPTIONS": "-XX:+NoSuchOption",
    "_JAVA_OPTIONS": "-XX:+NoSuchOption",
    "CLASSPATH": "/nowhere",
    "PYTHON_WORKER_FACTORY_SOCK_DIR": "/nowhere",
}


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Start Spark on a Java that writes down its environment, and its arguments."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(TELLING_JAVA)
    (home / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    paths = tmp_path / "environment", tmp_path / "arguments"
    for name, path in zip(("ENVIRONMENT", "ARGUMENTS"), paths, strict=True):
        monkeypatch.setenv(name, str(path))
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    return paths


def test_what_others_have_set_for_spark_and_java_decides_nothing(
    told: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in FOREIGN.items():
        monkeypatch.setenv(name, value)
    code = "from spark.runtime.session import open_session\nwith open_session(): pass"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "SparkFailed: Spark failed: [JAVA_GATEWAY_EXITED]" in ran.stderr
    environment = dict(
        line.split("=", 1) for line in told[0].read_text().splitlines() if "=" in line
    )
    assert {name for name, value in FOREIGN.items() if environment.get(name) == value} == set()
    assert environment["PYSPARK_PYTHON"] == sys.executable
    arguments = told[1].read_text().splitlines()
    assert "-XX:+NoSuchOption" not in arguments
    assert "--packages" not in arguments
    assert arguments[-1] == "pyspark-shell"


@pytest.mark.parametrize("is_brief", [False, True])
def test_few_rows_are_left_to_the_quick_compiler(told: tuple[Path, Path], is_brief: bool) -> None:
    code = (
        "from spark.runtime.session import open_session\n"
        f"with open_session(is_brief={is_brief}): pass"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    (options,) = (
        line for line in told[1].read_text().splitlines() if "spark.driver.extraJavaOptions" in line
    )
    assert "-XX:+UseParallelGC" in options
    assert ("-XX:TieredStopAtLevel=1" in options) is is_brief


def test_arguments_of_spark_without_their_end_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--packages org.example:jars:1")
    said = "PYSPARK_SUBMIT_ARGS is '--packages org.example:jars:1', and must end with pyspark-shell"
    with pytest.raises(ConfigError, match=said), open_session("local[2]"):
        pass


@pytest.mark.parametrize(
    ("kill", "before"), [(press_ctrl_c, ""), (subprocess.Popen.terminate, IN_THE_BACKGROUND)]
)
def test_an_interrupt_does_not_wait_for_a_jvm_that_starts(
    tmp_path: Path, kill: Callable[[subprocess.Popen[bytes]], None], before: str
) -> None:
    home, started, temporary = (tmp_path / name for name in ("java", "started", "tmp"))
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(SLOW_JAVA)
    (home / "bin" / "java").chmod(0o755)
    temporary.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", before + STARTING],
        env={
            **os.environ,
            "JAVA_HOME": str(home),
            "STARTED": str(started),
            "TMPDIR": str(temporary),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + 60
        while not started.exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        kill(process)
        try:
            said, _ = process.communicate(timeout=20)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, said) == (130, b"")
    assert list(temporary.glob("chordal-*")) == []
