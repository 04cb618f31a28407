"""The Spark session: the one place where it is built, and torn down to the last process.

Three worlds, one call:

* nothing said: Spark runs in this machine's cores, over loopback, quietly, in a temporary folder,
  whatever variables the surroundings have set for another Spark;
* ``master`` given: the driver runs here and the executors on that cluster;
* ``SPARK_REMOTE`` set, or started by ``spark-submit``: the caller has decided everything.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any
from urllib.parse import urlsplit

import pyspark
from py4j.protocol import Py4JError
from pyspark import java_gateway
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from overlay.errors import ConfigError
from spark.errors import MasterError, MissingExtra, SparkFailed
from spark.runtime.java import find_java, shim
from spark.runtime.package import ARCHIVE, is_handed_over, write_archive
from spark.runtime.surroundings import environment, inherited

_LOG_CONFIG = Path(__file__).with_name("log4j2.properties")
_EXIT_TIMEOUT_S = 30
MAX_CORES = 4096
#: What a socket says whose other end was a JVM.
_JVM_GONE = (ConnectionError, EOFError, TimeoutError)
_KNOCK_TIMEOUT_S = 10
#: Options of our own JVM: it works on batches, and none waits for a single answer.
_JVM = ("-XX:+UseParallelGC",)
#: The quick compiler alone.
_BRIEF = ("-XX:TieredStopAtLevel=1",)
#: Options of the JVM that only works out how to start ours.
_LAUNCHER = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_MASTER = re.compile(r"local(\[.+\]|-cluster\[.+\])?$|yarn$|(spark|k8s|sc)://.")


@contextmanager
def open_session(
    master: str | None = None,
    *,
    memory: str = "2g",
    cores: int | None = None,
    is_brief: bool = False,
) -> Iterator[SparkSession]:
    """Open a session and close it with everything it started.

    A session that is already active is lent out instead, and left open.

    Args:
        master: A Spark master or Spark Connect URL; None for this machine.
        memory: Heap of the JVM, when it is started here.
        cores: So many of this machine's at most, and no other machine; None: all of them.
        is_brief: There are few rows, so a compiler that optimises would cost more than it wins.

    Raises:
        ConfigError: A variable that a user has set for Spark makes no sense.
        MasterError: ``master`` is nothing that Spark knows.
        MissingExtra: No Java to run Spark on, or no gRPC for Spark Connect.
        SparkFailed: Spark did not start, or what was done with the session failed inside Spark.
    """
    if master is not None and not _MASTER.match(master):
        raise MasterError(
            f"{master!r} is no Spark master: give local[4], yarn, spark://HOST:PORT, "
            "k8s://URL or, for Spark Connect, sc://HOST:PORT"
        )
    # The JVM must still be there when an error of its is put into words.
    with _termination_interrupts(), ExitStack() as stack, _translated_errors(master):
        yield _enter(stack, master, memory, cores, is_brief=is_brief)


def _enter(
    stack: ExitStack, master: str | None, memory: str, cores: int | None, *, is_brief: bool
) -> SparkSession:
    """Return a session; ``stack`` holds what ends it."""
    with suppress(ImportError):  # a variable speaks of Spark Connect, whose libraries are missing
        if (active := SparkSession.getActiveSession()) is not None:
            return active
    if master is not None:
        _knock(master)
    connect = master is not None and master.startswith("sc://")
    is_open = master is None and cores is None
    if connect or (is_open and _decided_elsewhere(os.environ)):
        if (connect or "SPARK_REMOTE" in os.environ) and find_spec("grpc") is None:
            raise MissingExtra(
                "Spark Connect needs the connect extra; in a checkout: pip install '.[connect]'"
            )
        builder = SparkSession.builder
        if connect and master is not None:
            builder = builder.remote(master)
        session = builder.getOrCreate()
        stack.callback(session.stop)
        _ship(stack, session)
        return session
    if master is None:
        stack.enter_context(environment(dict.fromkeys(inherited(os.environ))))
        stack.enter_context(environment({"SPARK_LAUNCHER_OPTS": " ".join(_LAUNCHER)}))
        options = (*_JVM, *(_BRIEF if is_brief else ()))
        here = f"local[{min(cores or MAX_CORES, available_cores())}]"
        return _own_jvm(stack, here, memory, options)
    _check_arguments(os.environ)
    return _own_jvm(stack, master, memory)


def _check_arguments(environ: Mapping[str, str]) -> None:
    """See that what a user wants of Spark's launcher is such that it starts.

    Raises:
        ConfigError: It is not; Spark would print a hundred lines of usage.
    """
    name, last = "PYSPARK_SUBMIT_ARGS", "pyspark-shell"
    try:
        words = shlex.split(environ.get(name, last))
    except ValueError as error:
        raise ConfigError(f"{name} is {environ[name]!r}: {error}") from None
    if last not in words:
        raise ConfigError(
            f"{name} is {environ[name]!r}, and must end with {last}; unset it, or add that"
        )


def _knock(url: str) -> None:
    """See whether somebody listens at ``sc://HOST:PORT`` or ``spark://HOST:PORT,HOST:PORT``.

    Spark itself would try for minutes, and then fail over something else.

    Raises:
        SparkFailed: Nobody does.
    """
    scheme, _, places = url.partition("://")
    usual = {"sc": 15002, "spark": 7077}.get(scheme)
    if usual is None:
        return
    failed: Exception | None = None
    for place in places.split(","):
        try:
            found = urlsplit(f"//{place}")
            at = (found.hostname or "", found.port or usual)
            socket.create_connection(at, _KNOCK_TIMEOUT_S).close()
            return
        except (OSError, ValueError) as error:
            failed = error
    raise SparkFailed(f"Spark at {url} cannot be reached: {failed}")


def _ship(stack: ExitStack, session: SparkSession) -> None:
    """Hand chordal to the executors, unless they have it already."""
    if is_handed_over():
        return
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="chordal-spark-"))
    archive = str(write_archive(Path(folder, ARCHIVE)))
    path = sys.path.copy()
    if is_remote():
        session.addArtifacts(archive, pyfile=True)
    else:
        session.sparkContext.addPyFile(archive)
    sys.path[:] = path  # what is still to be imported here comes from where the rest does


def available_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _decided_elsewhere(environ: Mapping[str, str]) -> bool:
    """Tell whether Spark Connect or spark-submit has set the session up already."""
    return "SPARK_REMOTE" in environ or "PYSPARK_GATEWAY_PORT" in environ


def _own_jvm(
    stack: ExitStack, master: str, memory: str, options: tuple[str, ...] = ()
) -> SparkSession:
    local = master.startswith("local")
    temporary = Path(
        stack.enter_context(
            tempfile.TemporaryDirectory(prefix="chordal-spark-", ignore_cleanup_errors=True)
        )
    )
    home = stack.enter_context(shim(find_java(os.environ)))
    stack.enter_context(environment(_variables(home, temporary, local=local)))
    stack.enter_context(_no_word_of_interrupts())
    stack.push(_stop_jvm)
    builder = SparkSession.builder.master(master).appName("chordal recovery")
    for key, value in _settings(temporary, home, memory, options, local=local).items():
        builder = builder.config(key, value)
    session = _build(builder)
    _say_nothing_of_the_end(session)
    if not master.startswith("local["):
        _ship(stack, session)
    return session


def _build(builder: SparkSession.Builder) -> SparkSession:
    """Build the session, and give Ctrl-C back to its owner.

    A JVM half started cannot be stopped, so an interrupt kills it; that ends the start with some
    error, which nobody needs to hear of. Spark's own handler calls the JVM from within the call
    that was interrupted, which cannot work.
    """
    owners = _interrupts()
    if not owners:
        return builder.getOrCreate()
    pressed: list[int] = []
    started: list[subprocess.Popen[bytes]] = []

    class Jvm(subprocess.Popen[bytes]):
        """What Spark starts as its JVM."""

        def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - as it is
            super().__init__(*arguments, **options)
            started.append(self)
            if pressed:
                self.kill()

    def interrupt(number: int, _: FrameType | None) -> None:
        pressed.append(number)
        for jvm in started:
            jvm.kill()

    for number in owners:
        signal.signal(number, interrupt)
    names = vars(java_gateway)
    theirs, names["Popen"] = names["Popen"], Jvm
    try:
        session = builder.getOrCreate()
    except Exception:  # whatever it is that Spark says without its JVM
        if not pressed:
            raise
    finally:
        names["Popen"] = theirs
        for number, owner in owners.items():
            signal.signal(number, owner)
    if pressed:
        for jvm in started:
            jvm.wait()
        owners[pressed[0]](pressed[0], None)
        raise KeyboardInterrupt
    return session


def _say_nothing_of_the_end(session: SparkSession) -> None:
    """Keep Spark's server of accumulators from printing a stack when the JVM is gone.

    Once a job has run in Python the JVM has a connection to it. A call that waits for the JVM fails
    as well, and is told in our words.
    """
    server = session.sparkContext._accumulatorServer
    print_stack = server.handle_error

    def handle_error(request: Any, address: Any) -> None:  # noqa: ANN401 - as socketserver has it
        if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
            print_stack(request, address)

    server.handle_error = handle_error  # type: ignore[assignment, method-assign]


@contextmanager
def _no_word_of_interrupts() -> Iterator[None]:
    """Keep py4j from logging the stacks of interrupted calls, in its own name or the root's."""

    def is_ours(record: logging.LogRecord) -> bool:
        return f"{os.sep}py4j{os.sep}" not in record.pathname

    root, theirs = logging.getLogger(), logging.getLogger("py4j")
    root.addFilter(is_ours)
    propagated, theirs.propagate = theirs.propagate, False
    try:
        yield
    finally:
        theirs.propagate = propagated
        root.removeFilter(is_ours)


def _variables(java_home: Path, temporary: Path, *, local: bool) -> dict[str, str]:
    # As a setting, the local folder makes Spark warn; as a variable it does not.
    variables = {"JAVA_HOME": str(java_home), "SPARK_LOCAL_DIRS": str(temporary)}
    if local:
        variables |= {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
        }
    return variables


def _settings(
    temporary: Path, home: Path, memory: str, options: tuple[str, ...], *, local: bool
) -> dict[str, str]:
    # Java unpacks libraries into its temporary folder, and they are programs, too.
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": (
            f'"-Djava.io.tmpdir={home}" "-Dlog4j2.configurationFile={_LOG_CONFIG.as_uri()}" '
            + " ".join(options)
        ).rstrip(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": (temporary / "warehouse").as_uri(),
    }
    if local:
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(available_cores()),
        }
    return settings


def _stop_jvm(
    kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
) -> None:
    """Stop the session and the JVM behind it, so that its temporary folder can go.

    A user who has interrupted it does not want to wait until it has stopped in good order.
    """
    # Only here may the context be touched: a session on a cluster of others has none.
    from pyspark import SparkContext

    if (gateway := SparkContext._gateway) is not None and kind is KeyboardInterrupt:
        gateway.proc.kill()
    # An interrupted call can leave the connection to the JVM unusable; it is ended below.
    with suppress(Py4JError, PySparkException, OSError):
        if (session := SparkSession.getActiveSession()) is not None:
            session.stop()
        elif (context := SparkContext._active_spark_context) is not None:
            context.stop()
    if gateway is None:
        return
    gateway.shutdown()
    jvm: subprocess.Popen[bytes] = gateway.proc
    if jvm.stdin is not None:
        jvm.stdin.close()  # the JVM ends itself when its standard input does
    try:
        jvm.wait(_EXIT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None


@contextmanager
def _translated_errors(master: str | None) -> Iterator[None]:
    """Put what fails in Spark into words; an interrupt stays one, whatever it makes fail."""
    away = master is not None and not master.startswith("local")
    where, mend = (f" at {master}", "; see whether it can be reached") if away else ("", "")
    interrupts: list[int] = []
    try:
        with _interrupts_noted(interrupts):
            yield
    except Exception as error:
        # py4j swallows an interrupt, and fails over what it left behind: in its own words, or in
        # those of the socket if the JVM is gone.
        if interrupts:
            raise KeyboardInterrupt from None
        if not isinstance(error, (PySparkException, Py4JError, *_JVM_GONE)):
            raise
        text = str(error)
        if isinstance(error, _JVM_GONE):
            text = f"its process has ended, perhaps for want of memory ({text or 'no answer'})"
        failed = SparkFailed(f"Spark{where} failed: {_gist(text)}{mend}")
        failed.add_note(text)
        # Not "from error": its text is with the JVM, which is about to go.
        raise failed from None


@contextmanager
def _interrupts_noted(interrupts: list[int]) -> Iterator[None]:
    """Add each Ctrl-C to ``interrupts`` before its owner hears of it, and each SIGTERM."""
    owners = _interrupts()

    def note(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        owners[number](number, frame)

    for number in owners:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, owner in owners.items():
            signal.signal(number, owner)


def _interrupts() -> dict[int, Callable[[int, FrameType | None], object]]:
    """Return the signals that interrupt what goes on, and who hears of each.

    A shell that starts a command in the background has it ignore Ctrl-C, and not SIGTERM.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    found: dict[int, Callable[[int, FrameType | None], object]] = {}
    if callable(owner := signal.getsignal(signal.SIGINT)):
        found[signal.SIGINT] = owner
    if _is_ours(owner := signal.getsignal(signal.SIGTERM)) and callable(owner):
        found[signal.SIGTERM] = owner
    return found


def _is_ours(handler: object) -> bool:
    return getattr(handler, "__module__", None) == __name__


def _terminate(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def _termination_interrupts() -> Iterator[None]:
    """Let SIGTERM end what goes on as Ctrl-C does, unless somebody else looks after it."""
    is_free = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if threading.current_thread() is not threading.main_thread() or not is_free:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _gist(text: str) -> str:
    """Return the line of a long error that says what happened.

    That is the end of a Python worker's stack, or what follows the name of the failed Java call,
    or the first line.
    """
    for pattern in (r"^Traceback .*?^(?! )(?!Traceback)(\S.*?)$", r"^: (.*?)$", r"^\s*(\S.*?)$"):
        if found := re.search(pattern, text, re.MULTILINE | re.DOTALL):
            return found[1]
    return "for no stated reason"
