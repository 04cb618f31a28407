"""Real clusters on loopback, started from the Spark that is installed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pyspark

from spark.runtime.java import find_java, write_shim
from tests.spark.conftest import JVM_OF_SECONDS

HOME = Path(pyspark.__file__).parent
PATIENCE_S = 120


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a machine of the cluster, or of who uses it.

    Its Python has all libraries, and may have chordal: it does not look where the tests do.
    """
    java_home = folder / "java"
    if not java_home.exists():
        write_shim(find_java(os.environ), java_home)
    own = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    own.pop("PYTHONPATH", None)
    return {
        **own,
        **JVM_OF_SECONDS,
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_DAEMON_MEMORY": "512m",
        "PYSPARK_PYTHON": sys.executable,
    }


@contextmanager
def daemon(folder: Path, name: str, ready: str, *command: object) -> Iterator[Path]:
    """Run a process from when it says that it is ready; yields what it has written."""
    log = folder / f"{name}.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [str(HOME / "bin" / "spark-class"), *map(str, command)],
            cwd=folder,
            env={**environment(folder), "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false"},
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            deadline = time.monotonic() + PATIENCE_S
            while ready not in log.read_text():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            yield log
        finally:
            process.kill()


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Run a master with two worker processes of a core each; yields its URL."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    here = ("--host", "127.0.0.1", "--webui-port", 0)
    with ExitStack() as stack:
        master = (f"{deploy}.master.Master", *here, "--port", port)
        stack.enter_context(daemon(folder, "master", "New state: ALIVE", *master))
        size = ("--cores", 1, "--memory", "1g")
        for name in ("one", "two"):
            work = ("--work-dir", folder / name)
            command = (f"{deploy}.worker.Worker", *here, *size, *work, url)
            stack.enter_context(daemon(folder, name, "Successfully registered", *command))
        yield url


@contextmanager
def connect(folder: Path) -> Iterator[str]:
    """Run a Spark Connect server; yields its URL."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
    }
    command = ["org.apache.spark.deploy.SparkSubmit", "--master", "local[2]"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    with daemon(folder, "connect", "server started", *command, "spark-internal"):
        yield f"sc://127.0.0.1:{port}"
